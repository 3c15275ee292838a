"""Amplification in real labels and predictions that others released: everything behind that chapter."""

from pathlib import Path

import pandas as pd

from biaslib.chapters.papers import faces, scenes
from biaslib.datasets import registry
from biaslib.datasets.registry import root as data_root
from biaslib.errors import BiaslibError

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


def published() -> pd.DataFrame:
    """The values of CelebA that Zhao, Andrews and Xiang (2023) released, multiplied by 100, with 95 % intervals.

    They stand in `metrics/results_celeba.txt` of the authors' repository: ResNet-50s trained on balanced data, three
    hair colours as groups, 23 attributes. Their sets are whole label sets of training images ("observed"; "observed 2+"
    without single attributes). The undirected values of single attributes cannot be compared with ours: the released
    code counts each hair colour twice, once for the faces with it and once for those without, and divides the absolute
    sum by these six rows instead of by the 23 attributes. The mAP averages over the hair colours too.

    Returns:
        One row a value: kind ("mAP", with empty sets and sign, or a kind of amplification), sets, sign, value, interval
        (half of its width) and printed, such as "0.587 ± 0.017".

    Raises:
        BiaslibError: where the file is missing.
    """
    path = registry.CHECKOUT / "data" / "published" / "amplification-celeba.csv"
    if not path.exists():
        raise BiaslibError(f"{path} is missing: use biaslib from a checkout of its repository.")
    table = pd.read_csv(path, keep_default_na=False)
    printed = [
        f"{value:.3f}\u00a0±\u00a0{half:.3f}" for value, half in zip(table["value"], table["interval"], strict=True)
    ]
    return table.assign(printed=[text.replace("-", "−") for text in printed])
