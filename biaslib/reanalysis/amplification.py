"""Amplification in real labels and predictions that others released: everything behind that chapter."""

from pathlib import Path

import pandas as pd

from biaslib.datasets.registry import root as data_root
from biaslib.reanalysis import faces, scenes

_DIGITS = 7  # of the numbers in the tables, so that a fresh run and its record are the same

NEEDED = (
    "attention-iou/results",
    "attention-iou/test_idx_sorted.npy",
    "celeba/list_attr_celeba.txt",
    "CelebAMask-HQ/CelebA-HQ-to-CelebA-mapping.txt",
    "coco-imsitu/captions_6models_val2014",
)


def missing(root: Path | None = None) -> list[str]:
    """What `compute` needs and does not find, relative to the folder of all datasets; empty where all is there."""
    return [path for path in NEEDED if not (data_root(root) / path).exists()]


def compute(root: Path | None = None, *, models: int = 20, folds: int = 10, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Every table of the chapter, by name: `faces`, `faces_single`, `faces_images`, `wording`, `captioners`, `ratios`
    and `constraints`; see the functions of these names in `reanalysis.faces` and `reanalysis.scenes`.

    Raises:
        BiaslibError: for a missing or a damaged file.
    """
    ratios = scenes.ratios(root)
    tables = {
        **faces.amplification(root, models=models, seed=seed),
        "wording": scenes.wording(root, seed=seed),
        "captioners": scenes.captioners(root, folds=folds, seed=seed),
        "ratios": ratios,
        "constraints": scenes.constraints(ratios, seed=seed),
    }
    return {name: table.round(_DIGITS) for name, table in tables.items()}
