"""The everyday rates of a classifier by group, in fairlearn's names, and how far groups are apart."""

import numpy as np
import pandas as pd

from biaslib.errors import BiaslibError
from biaslib.metrics._arrays import AnyArray, checked_binary
from biaslib.metrics.groups import GroupLabels, group_accuracy, group_codes

_PARITIES = {  # the rates that a disparity compares
    "demographic_parity": ["selection_rate"], "equal_opportunity": ["true_positive_rate"], "accuracy": ["accuracy"],
    "equalized_odds": ["true_positive_rate", "false_positive_rate"], "predictive_parity": ["precision"],
}  # fmt: skip


def group_rates(labels: AnyArray, answers: AnyArray, groups: GroupLabels) -> pd.DataFrame:
    """Selection, true positive, false positive and false negative rate, precision and accuracy of each group.

    `labels` and `answers` are (N,) bool or 0 and 1, `groups` as for `group_accuracy`; others are a `BiaslibError`. The
    table has a row a group and rate: `group`, `rate` (fairlearn's name; precision is the positive predictive value),
    `n`, the images that it is a share of (those labelled yes for a true positive rate, those answered yes for
    precision), and in [0, 1] `value` with Wilson's 95 % interval, `low` and `high`; NaN where n is 0 (fairlearn: 0).

    Example:
        >>> rates = group_rates(np.array([1, 1, 0, 1]), np.array([1, 0, 0, 1]), ["a", "a", "b", "b"])
        >>> rates[rates["rate"] == "true_positive_rate"][["group", "n", "value"]].to_numpy().tolist()
        [['a', 2, 0.5], ['b', 1, 1.0]]
    """
    given = {"labels": labels, "answers": answers}
    truth, said = (checked_binary(name, of, "threshold scores first") for name, of in given.items())
    if truth.ndim != 1 or truth.shape != said.shape:
        raise BiaslibError(f"labels and answers must both be (N,), not {truth.shape} and {said.shape}.")
    codes, names = group_codes(groups, len(truth))
    counted = rate_images(truth, said)
    rows = np.concatenate([codes[of] * len(counted) + at for at, (of, _) in enumerate(counted.values())])
    shares = group_accuracy(np.concatenate([hits[of] for of, hits in counted.values()]), rows).set_index("group")
    shares = shares.reindex(range(len(names) * len(counted))).fillna({"n": 0}).astype({"n": int})
    which = {"group": [name for name in names for _ in counted], "rate": [*counted] * len(names)}
    return pd.concat([pd.DataFrame(which), shares.rename(columns={"accuracy": "value"})], axis=1)


def rate_images(truth: np.ndarray, said: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Rate -> (N,) bool which images it is a share of, and which of them count; of labels and answers, (N,) bool."""
    every = np.ones_like(truth)
    return {
        "selection_rate": (every, said), "true_positive_rate": (truth, said), "false_positive_rate": (~truth, said),
        "false_negative_rate": (truth, ~said), "precision": (said, truth), "accuracy": (every, truth == said),
    }  # fmt: skip


def disparities(rates: pd.DataFrame) -> pd.DataFrame:
    """How far the groups of `group_rates` are apart: `difference`, largest less smallest, `ratio`, smallest by largest.

    By fairlearn's names: demographic_parity_ratio is `.loc["demographic_parity", "ratio"]`, which the four-fifths rule
    compares with 0.8: AIF360's disparate impact (or 1 over it, where the privileged group is selected less). Equalized
    odds take the worse of true and false positive rates. All in [0, 1]; NaN where a group does not have the rate, and
    ratios where all rates are 0. A `BiaslibError` is raised for fewer than two groups.
    """
    values = {str(rate): part["value"].to_numpy() for rate, part in rates.groupby("rate")}
    if min(map(len, values.values())) < 2:
        raise BiaslibError("There is one group only and nothing to compare it with: give at least two.")
    with np.errstate(invalid="ignore"):  # 0 / 0 where nobody has it
        apart = {rate: (np.ptp(of), -of.min() / of.max()) for rate, of in values.items()}
    worst = [np.max([apart[rate] for rate in of], axis=0) * (1, -1) for of in _PARITIES.values()]
    return pd.DataFrame(worst, index=pd.Index(_PARITIES, name="disparity"), columns=["difference", "ratio"])
