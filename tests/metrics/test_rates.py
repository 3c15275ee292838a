import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import accuracy_score, precision_score

from biaslib.errors import BiaslibError
from biaslib.metrics import disparities, group_accuracy, group_rates

LABELS = np.array([1, 1, 1, 0, 0, 1, 0, 0, 0, 1])
ANSWERS = np.array([1, 1, 0, 1, 0, 1, 0, 0, 0, 0])
GROUPS = np.array(list("aaaaabbbbb"))


def drawn(n=2000, groups=3, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, groups, n)
    labels = rng.random(n) < 0.3 + 0.1 * group
    answers = labels ^ (rng.random(n) < 0.05 + 0.08 * group)
    return labels, answers, np.array([f"group {name}" for name in group])


def table(rates, column="value"):
    return rates.set_index(["group", "rate"])[column]


def test_rates_by_hand():
    rates = group_rates(LABELS, ANSWERS, GROUPS)
    assert list(rates.columns) == ["group", "rate", "n", "value", "low", "high"]
    values, counts = table(rates), table(rates, "n")
    assert values["a"].to_dict() == pytest.approx(
        {
            "selection_rate": 3 / 5, "true_positive_rate": 2 / 3, "false_positive_rate": 1 / 2,
            "false_negative_rate": 1 / 3, "precision": 2 / 3, "accuracy": 3 / 5,
        }
    )  # fmt: skip
    assert counts["b"].to_dict() == {
        "selection_rate": 5, "true_positive_rate": 2, "false_positive_rate": 3, "false_negative_rate": 2,
        "precision": 1, "accuracy": 5,
    }  # fmt: skip


def test_intervals_are_those_of_group_accuracy():
    rates = group_rates(LABELS, ANSWERS, GROUPS)
    known = group_accuracy(LABELS == ANSWERS, GROUPS)
    own = rates[rates["rate"] == "accuracy"]
    np.testing.assert_array_equal(own[["n", "value", "low", "high"]], known[["n", "accuracy", "low", "high"]])


def test_a_rate_of_no_images_is_undefined_and_never_0():
    rates = group_rates([1, 1, 0, 0], [0, 0, 0, 0], ["only yes", "only yes", "only no", "only no"])
    values, counts = table(rates), table(rates, "n")
    for group, rate in (
        ("only yes", "false_positive_rate"),
        ("only no", "true_positive_rate"),
        ("only no", "false_negative_rate"),
        ("only yes", "precision"),
    ):
        assert np.isnan(values[group, rate])
        assert counts[group, rate] == 0
    assert values["only no", "false_positive_rate"] == 0
    apart = disparities(rates)
    assert apart.loc["demographic_parity", "difference"] == 0
    # nobody is selected: there is no ratio, and no group has both kinds of labels
    assert np.isnan(apart.loc["demographic_parity", "ratio"])
    assert apart.loc[["equal_opportunity", "equalized_odds", "predictive_parity"]].isna().all(axis=None)
    assert apart.loc["accuracy", "difference"] == 1


@pytest.mark.parametrize("seed", range(5))
def test_rates_and_disparities_are_fairlearns(seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from fairlearn import metrics as fairlearn
    labels, answers, groups = drawn(groups=2 + seed, seed=seed)
    named = {
        name: getattr(fairlearn, name)
        for name in ("selection_rate", "true_positive_rate", "false_positive_rate", "false_negative_rate")
    } | {"precision": precision_score, "accuracy": accuracy_score}
    frame = fairlearn.MetricFrame(metrics=named, y_true=labels, y_pred=answers, sensitive_features=groups)
    rates = group_rates(labels, answers, groups)
    by_group = rates.pivot_table("value", "group", "rate")[list(named)]
    np.testing.assert_allclose(
        by_group, frame.by_group.loc[by_group.index, list(named)].astype(float), rtol=0, atol=1e-12
    )
    apart = disparities(rates)
    asked = {"y_true": labels, "y_pred": answers, "sensitive_features": groups}
    for disparity in ("demographic_parity", "equal_opportunity", "equalized_odds"):
        for way in ("difference", "ratio"):
            theirs = getattr(fairlearn, f"{disparity}_{way}")(**asked)
            assert apart.loc[disparity, way] == pytest.approx(theirs, rel=0, abs=1e-12)
    for disparity, rate in (("predictive_parity", "precision"), ("accuracy", "accuracy")):
        assert apart.loc[disparity, "difference"] == pytest.approx(frame.difference()[rate], rel=0, abs=1e-12)
        assert apart.loc[disparity, "ratio"] == pytest.approx(frame.ratio()[rate], rel=0, abs=1e-12)


def test_the_ratio_of_selection_rates_is_disparate_impact_where_the_privileged_are_selected_more():
    labels, answers, groups = drawn(groups=2)
    selected = {name: answers[groups == name].mean() for name in ("group 0", "group 1")}
    ratio = disparities(group_rates(labels, answers, groups)).loc["demographic_parity", "ratio"]
    assert selected["group 0"] < selected["group 1"]
    assert ratio == pytest.approx(selected["group 0"] / selected["group 1"], abs=1e-12)


def test_neither_order_nor_kind_of_the_arrays_matters():
    rates = group_rates(LABELS, ANSWERS, GROUPS)
    order = np.random.default_rng(0).permutation(len(LABELS))
    pd.testing.assert_frame_equal(rates, group_rates(LABELS[order], ANSWERS[order] == 1, GROUPS[order]))
    pd.testing.assert_frame_equal(rates, group_rates(torch.tensor(LABELS), torch.tensor(ANSWERS), list(GROUPS)))
    named = group_rates(LABELS, ANSWERS, [("old", one) for one in GROUPS])
    assert named["group"].tolist() == [("old", one) for one in rates["group"]]
    pd.testing.assert_frame_equal(disparities(named), disparities(rates))


def test_what_is_no_table_of_answers_is_refused():
    with pytest.raises(BiaslibError, match=r"answers must hold 0 and 1 only .*: threshold scores first"):
        group_rates(LABELS, ANSWERS / 3, GROUPS)
    with pytest.raises(BiaslibError, match=r"must both be \(N,\), not \(10,\) and \(9,\)"):
        group_rates(LABELS, ANSWERS[:9], GROUPS)
    with pytest.raises(BiaslibError, match="10 images but 9 group labels"):
        group_rates(LABELS, ANSWERS, GROUPS[:9])
    with pytest.raises(BiaslibError, match="one group only and nothing to compare"):
        disparities(group_rates(LABELS, ANSWERS, ["a"] * 10))
