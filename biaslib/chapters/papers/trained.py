"""Amplification of joint classifiers that are trained here on CelebA's faces, measured as the released ones are."""

from pathlib import Path

import numpy as np
import pandas as pd
import scipy.special

from biaslib.chapters import face_models
from biaslib.chapters.face_models import HairSetup, Outcome
from biaslib.chapters.papers import faces
from biaslib.datasets.celeba import HAIR
from biaslib.datasets.registry import root as data_root
from biaslib.metrics import Labels, mean_average_precision
from biaslib.statistics import holm, interval
from biaslib.store import parallel

_DIGITS = 7  # of the numbers in the tables, so that a fresh run and its record are the same

NEEDED = ("celeba/list_attr_celeba.txt", "celeba/list_eval_partition.txt", "celeba/img_align_celeba")


def missing(root: Path | None = None) -> list[str]:
    """What `compute` needs and does not find, relative to the folder of all datasets; empty where all is there."""
    return [path for path in NEEDED if not (data_root(root) / path).exists()]


def compute(*, models: int = 6, epochs: int = 20, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Trains the models where the store lacks them, and measures them; the faces are read from the folder of all data.

    Args:
        models: how many; they differ in their seed.
        epochs: of each training.
        seed: of the first model, and of the bootstrap.

    Returns:
        * `joint`: one row for each kind, sets and sign, as `faces.over_models` gives it, p Holm-corrected over it;
        * `joint_quality`: what, value, low, high, models: the mAP over the attributes and the three hair colours, which
          the released code averages together, and for each hair colour the share of its faces that are predicted to
          have it; in [0, 1];
        * `joint_images`: split, images.

    Raises:
        BiaslibError: where CelebA's files are missing or damaged.
    """
    made = face_models.outcomes([HairSetup(epochs=epochs, seed=seed + model) for model in range(models)])
    train, test = made[0].train, made[0].test
    with parallel.workers() as (executor, _):
        jobs = [executor.submit(_measured, train, test, said) for said in (test, *(one.predicted for one in made))]
        perfect, *rows = [job.result() for job in jobs]
    joint = faces.over_models(rows, perfect, seed)
    counts = {"train": len(train), "validation": made[0].n_validation, "test": len(test)}
    tables = {
        "joint": joint.assign(p=holm(joint["p"])),
        "joint_quality": _quality(made, seed),
        "joint_images": pd.DataFrame({"split": list(counts), "images": list(counts.values())}),
    }
    return {name: table.round(_DIGITS) for name, table in tables.items()}


def _measured(train: Labels, test: Labels, predicted: Labels) -> pd.DataFrame:
    return pd.DataFrame(faces.measure(train, test, predicted))


def _quality(made: list[Outcome], seed: int) -> pd.DataFrame:
    test = made[0].test
    width = test.attributes.shape[1]
    truth = np.column_stack([test.attributes, np.eye(len(HAIR))[test.groups]])
    scores = [
        np.column_stack([model.logits[:, :width], scipy.special.softmax(model.logits[:, width:], axis=1)])
        for model in made
    ]
    values = {"mAP": [mean_average_precision(truth, each).mean for each in scores]}
    for group, name in enumerate(HAIR):
        values[name] = [float(np.mean(one.predicted.groups[test.groups == group] == group)) for one in made]
    spans = {name: interval(each, seed=seed, bounds=(0, 1)) for name, each in values.items()}
    return pd.DataFrame(
        [(name, span.estimate, span.low, span.high, span.n) for name, span in spans.items()],
        columns=["what", "value", "low", "high", "models"],
    )
