import numpy as np
import pandas as pd
import pytest
import scipy.stats

from biaslib.dial import ranks
from biaslib.dial.catalogue import EXACT
from biaslib.errors import BiaslibError

WORST, GAP, RMA = "Worst-group accuracy", "Accuracy gap", "RMA of the cue, Grad-CAM"
MASK = "Mask score of the cue"
FAMILY = {WORST: "answers", GAP: "answers", RMA: "attribution", MASK: "attention", EXACT.name: "counterfactual"}


def table(values, *, world="birds", strengths=None, first=0):
    """Rows as of `verdicts.numbers`, from metric -> risk score of each model."""
    return pd.DataFrame(
        [
            {
                "world": world, "architecture": "small", "strength": 0.0 if strengths is None else strengths[model],
                "seed": model, "model": first + model, "metric": metric, "family": FAMILY[metric], "value": value,
                "risk_score": value, "effect": values[EXACT.name][model],
            }
            for metric, row in values.items() for model, value in enumerate(row) if np.isfinite(value)
        ]
    )  # fmt: skip


def drawn(n=12, seed=0, metrics=(WORST, GAP, RMA, MASK, EXACT.name), **options):
    rng = np.random.default_rng(seed)
    common = rng.normal(size=n)
    return table({name: np.round(common + rng.normal(size=n), 1) for name in metrics}, **options)


def test_tau_by_hand():
    # pairs: (0, 1) agree, (0, 2) disagree, (1, 2) disagree
    found = ranks.rank_agreement(table({EXACT.name: [1, 2, 3], GAP: [5, 6, 4]}))
    assert found.loc[EXACT.name, GAP] == pytest.approx(-1 / 3)
    assert found.loc[GAP, GAP] == 1
    assert list(found.index) == [EXACT.name, GAP]  # the true effect first


def test_what_differs_by_rounding_alone_is_a_tie():
    assert 0.1 + 0.2 > 0.3
    found = ranks.rank_agreement(table({EXACT.name: [1, 2, 3], GAP: [0.1 + 0.2, 0.3, 0.4]}))
    assert found.loc[EXACT.name, GAP] == pytest.approx(scipy.stats.kendalltau([1, 2, 3], [3, 3, 4]).statistic)


def test_tau_is_scipys_also_with_ties_and_missing_models():
    some = drawn()
    some = some[~((some["metric"] == RMA) & some["model"].isin([2, 5]))]
    found, wide = ranks.rank_agreement(some), some.pivot_table(index="model", columns="metric", values="risk_score")
    for first in found.index:
        for second in found.columns:
            both = wide[[first, second]].dropna().to_numpy()
            assert found.loc[first, second] == pytest.approx(scipy.stats.kendalltau(*both.T).statistic)


def test_the_whole_is_the_mean_of_the_worlds_that_have_both():
    here, there = drawn(), drawn(seed=1, world="pets", metrics=(WORST, GAP, EXACT.name), first=100)
    found = ranks.rank_agreement(pd.concat([here, there]))
    each = [ranks.rank_agreement(one).loc[GAP, EXACT.name] for one in (here, there)]
    assert found.loc[GAP, EXACT.name] == pytest.approx(np.mean(each))
    assert found.loc[GAP, RMA] == pytest.approx(ranks.rank_agreement(here).loc[GAP, RMA])


def test_no_order_depends_on_the_scale_of_a_metric():
    some = drawn()
    stretched = some.assign(
        risk_score=np.where(some["metric"] == GAP, np.exp(3 * some["risk_score"]), some["risk_score"])
    )
    pd.testing.assert_frame_equal(ranks.rank_agreement(some), ranks.rank_agreement(stretched))


def test_a_weight_is_a_model_that_many_times():
    some = drawn(n=6)
    weights = np.array([1, 3, 0, 2, 1, 1])
    copies = pd.concat(
        [
            some[some["model"] == model].assign(model=100 * model + k)
            for model, n in enumerate(weights)
            for k in range(n)
        ]
    )
    found = ranks._tau(ranks._worlds_of(some)[0], weights)
    np.testing.assert_allclose(found, ranks._tau(ranks._worlds_of(copies)[0]))


def test_what_only_the_strength_orders_is_gone_at_the_same_strength():
    # between strengths both rise; within one they are opposed
    some = table({EXACT.name: [0, 1, 10, 11], GAP: [1, 0, 11, 10]}, strengths=[0, 0, 1, 1])
    assert ranks.rank_agreement(some).loc[GAP, EXACT.name] == pytest.approx(2 / 6)
    assert ranks.rank_agreement(some, kind="same strength").loc[GAP, EXACT.name] == -1


def test_partial_tau_is_the_correlation_of_residuals_of_the_signs():
    one = ranks._worlds_of(drawn(n=15))[0]
    found = ranks._partial_tau(ranks._tau(one))
    held, *others = one.signs
    # no ties here but by chance: a least-squares fit of the signs of all pairs, taken both ways
    residuals = [row - held * (row @ held) / (held @ held) for row in others]
    for i, first in enumerate(residuals, start=1):
        for j, second in enumerate(residuals, start=1):
            assert found[i, j] == pytest.approx(first @ second / np.sqrt((first @ first) * (second @ second)))
    assert np.isnan(found[0]).all()


def test_a_metric_that_is_the_truth_has_no_agreement_beyond_it():
    some = table({EXACT.name: [1, 2, 3, 4], GAP: [1, 2, 3, 4], RMA: [2, 1, 3, 4]})
    assert np.isnan(ranks.rank_agreement(some, kind="given the effect").loc[GAP, RMA])


def test_a_metric_that_says_the_same_of_all_agrees_with_none():
    found = ranks.rank_agreement(table({EXACT.name: [1, 2, 3], GAP: [1, 1, 1], RMA: [1, 2, 3]}))
    assert found.loc[GAP].isna().all()
    assert found.loc[RMA, EXACT.name] == 1


def test_medians_of_families_with_intervals_that_hold_them():
    some = drawn(n=16, strengths=np.repeat([0.0, 0.5, 1.0, 0.2], 4))
    found = ranks.between_families(some, resamples=60).set_index(["first", "second"])
    taus = ranks.rank_agreement(some)
    assert found.loc[("answers", "answers"), "pairs"] == 1
    assert found.loc[("answers", "answers"), "tau"].estimate == pytest.approx(taus.loc[WORST, GAP])
    of_truth = found.loc[("truth", "answers"), "tau"]
    assert of_truth.estimate == pytest.approx(taus.loc[EXACT.name, [WORST, GAP]].median())
    assert of_truth.low < of_truth.estimate < of_truth.high
    assert of_truth.n == 16
    assert ("truth", "truth") not in found.index  # no pair of metrics
    given = ranks.between_families(some, kind="given the effect", resamples=3)
    assert "truth" not in set(given["first"])


def test_the_same_seed_draws_the_same_models():
    some = drawn(n=9, strengths=np.repeat([0.0, 0.5, 1.0], 3))
    first, second = (ranks.between_families(some, resamples=20, seed=3) for _ in range(2))
    pd.testing.assert_frame_equal(first, second)


def test_wrong_input_is_named():
    with pytest.raises(
        BiaslibError, match="kind must be one of all models, same strength, given the effect, not 'all'"
    ):
        ranks.rank_agreement(drawn(), kind="all")
    with pytest.raises(BiaslibError, match="lacks 'Sensitivity, exact counterfactuals'"):
        ranks.rank_agreement(drawn(metrics=(WORST, EXACT.name)).query("metric == @WORST"))
