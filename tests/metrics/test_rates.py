import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.optimize import brentq
from sklearn.metrics import accuracy_score, precision_score
from statsmodels.stats.proportion import confint_proportions_2indep

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


def bounds(a, b):
    """Ends of the ratio of two rates, (value, low, high) each: Donner and Zou's equation, solved by searching."""

    def off(ratio, distance_a, distance_b):
        return (a[0] - ratio * b[0]) ** 2 - distance_a**2 - ratio**2 * distance_b**2

    middle = a[0] / b[0]
    low = brentq(off, 0, middle, args=(a[0] - a[1], b[2] - b[0]))
    return low, brentq(off, middle, 1e3, args=(a[2] - a[0], b[0] - b[1]))


def test_ends_of_two_groups_are_newcombes_and_donner_and_zous():
    for hits, n in (((40, 70), (100, 120)), ((50, 61), (100, 120)), ((3, 7), (9, 11))):
        answers = np.concatenate([np.arange(size) < hit for hit, size in zip(hits, n, strict=True)])
        rates = group_rates(answers, answers, np.repeat(["a", "b"], n))
        row = disparities(rates).loc["demographic_parity"]
        selected = rates[rates["rate"] == "selection_rate"][["value", "low", "high"]].to_numpy()
        low, high = confint_proportions_2indep(hits[1], n[1], hits[0], n[0], method="newcomb")
        assert [row["difference_low"], row["difference_high"]] == pytest.approx([max(low, 0), high], abs=1e-9)
        low, high = bounds(*selected)
        assert [row["ratio_low"], row["ratio_high"]] == pytest.approx([min(low, 1 / high), min(high, 1)], abs=1e-6)


def test_ends_of_several_groups_are_those_of_the_pairs_that_reach_furthest():
    rates = group_rates(*drawn(300, groups=4))
    whole, names = disparities(rates), rates["group"].unique()
    pairs = [disparities(rates[rates["group"].isin(pair)]) for pair in itertools.combinations(names, 2)]
    for way, most, least in (("difference", np.max, np.max), ("ratio", np.min, np.min)):
        for end, of in (("", most), ("_low", least), ("_high", most)):
            # equalized odds are the worse of two rates pair by pair, too
            together = of([pair[way + end] for pair in pairs], axis=0)
            np.testing.assert_allclose(whole[way + end], together, rtol=0, atol=1e-12)


def test_ends_hold_the_truth_about_as_often_as_they_say():
    rng, held = np.random.default_rng(0), np.zeros(2)
    for _ in range(400):
        answers = np.concatenate([rng.random(80) < 0.6, rng.random(60) < 0.4])
        row = disparities(group_rates(answers, answers, ["a"] * 80 + ["b"] * 60)).loc["demographic_parity"]
        held += [row["difference_low"] <= 0.2 <= row["difference_high"], row["ratio_low"] <= 2 / 3 <= row["ratio_high"]]
    assert ((held / 400 > 0.92) & (held / 400 < 0.98)).all()


def test_ends_where_nobody_is_selected_in_one_group():
    answers = np.array([0] * 20 + [1] * 5 + [0] * 15)
    row = disparities(group_rates(answers, answers, ["a"] * 20 + ["b"] * 20)).loc["demographic_parity"]
    assert row["ratio"] == row["ratio_low"] == 0
    assert 0 < row["ratio_high"] < 1
    assert 0 < row["difference_low"] < 0.25 < row["difference_high"]
