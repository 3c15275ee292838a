"""The arithmetic of what an audit along directions amounts to."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from scipy.special import expit

from biaslib import training
from biaslib.chapters import attribute_models
from biaslib.chapters.attribute_maps import Evaluation
from biaslib.chapters.attribute_models import Experiment
from biaslib.chapters.face_verdicts import beyond_random, parts, slopes, smallest_visible
from biaslib.errors import BiaslibError
from biaslib.statistics import holm
from biaslib.worlds.faces import Faces

pytestmark = pytest.mark.usefixtures("in_this_process")

MODELS = tuple(Experiment(attributes=("Smiling",), size=16, images=64, epochs=1, detail=1.0, seed=n) for n in (0, 1))


def test_a_slope_is_the_change_between_quartiles_in_standard_deviations():
    evaluation = Evaluation(images=20, detail=1.0)
    found = slopes(MODELS, evaluation, ["skin"])
    table, models = evaluation.factors(), attribute_models.trained(list(MODELS))
    low, high = table["skin"].quantile([0.25, 0.75]).astype(np.float32)
    said = [
        expit(training.predict(models[1], Faces().render(table.assign(skin=value), size=16).images)).mean()
        for value in (low, high)
    ]
    assert list(found.columns) == ["skin"]
    assert found["skin"][1] == pytest.approx((said[1] - said[0]) / ((high - low) / table["skin"].std(ddof=0)), rel=1e-3)


def test_changes_are_compared_with_the_root_mean_square_of_random_ones():
    found = beyond_random(np.array([[0.4, 0.0], [0.2, 0.1]]), np.array([[0.1, -0.1], [0.1, 0.1]]))
    # one generator's chance is .1, that of the mean of two is .1 / sqrt 2
    np.testing.assert_allclose(found["change"], [0.3, 0.05])
    np.testing.assert_allclose(found["chance"], 0.1 / 2**0.5)
    np.testing.assert_allclose(found["t"], [3 * 2**0.5, 0.5 * 2**0.5])
    np.testing.assert_allclose(found["p"], 2 * scipy.stats.t.sf(found["t"], 4))
    np.testing.assert_allclose(found["p_holm"], holm(found["p"]))


def test_a_change_of_the_smallest_visible_size_is_seen_four_times_in_five():
    rng = np.random.default_rng(1)
    seen, chance, size = 0, 0.1 / 2**0.5, 6
    true = smallest_visible(chance, 40, size)
    for _ in range(600):
        changes = rng.normal(0, 0.1, (2, size))
        changes[:, 0] += true
        # Bonferroni, as the first of Holm's steps
        seen += beyond_random(changes, rng.normal(0, 0.1, (2, 20)))["p"][0] < 0.05 / size
    assert 0.74 < seen / 600 < 0.86
    assert smallest_visible(2 * chance, 40, size) == pytest.approx(2 * true)
    assert smallest_visible(chance, 40, 1) < true


def test_where_nothing_differs_five_in_a_hundred_directions_are_taken_for_more():
    rng = np.random.default_rng(0)
    p = [beyond_random(rng.normal(size=(2, 1)), rng.normal(size=(2, 12)))["p"][0] for _ in range(2000)]
    assert 0.035 < np.mean(np.array(p) < 0.05) < 0.065
    assert scipy.stats.kstest(p, "uniform").pvalue > 1e-3


def test_the_verdict_does_not_depend_on_the_unit():
    rng = np.random.default_rng(1)
    changes, random = rng.normal(size=(2, 3)), rng.normal(size=(2, 12))
    pd.testing.assert_series_equal(beyond_random(changes, random)["p"], beyond_random(100 * changes, 100 * random)["p"])


def test_no_chance_is_undefined_and_no_control_is_refused():
    assert beyond_random(np.ones((1, 2)), np.zeros((1, 3)))["p"].isna().all()
    with pytest.raises(BiaslibError, match="same generators"):
        beyond_random(np.ones((2, 2)), np.ones((1, 3)))
    with pytest.raises(BiaslibError, match="same generators"):
        beyond_random(np.ones((1, 2)), np.ones((1, 0)))


def test_a_change_is_the_sum_of_its_parts():
    judged = pd.DataFrame(
        {"Eyeglasses": [0.5, 0.1], "Wearing_Hat": [0.2, 0.8], "Smiling": [0.1, 0.0], "skin": [1.0, 0.0]},
        index=["Eyeglasses", "Wearing_Hat"],
    )
    effects = {"Eyeglasses": 0.4, "Wearing_Hat": 0.05, "Smiling": 0.9, "skin": -0.02}
    found = parts(judged, effects, pd.Series({"Wearing_Hat": 0.08, "Eyeglasses": 0.3}))
    first = found.loc["Eyeglasses"]
    np.testing.assert_allclose(first, [0.4, 0.2, 0.09, 0.01 - 0.02, 0.3 - 0.28, 0.3])
    np.testing.assert_allclose(found[["own", "target", "leaked", "rest"]].sum(axis=1), found["total"])
    np.testing.assert_allclose(found.loc["Wearing_Hat", ["own", "target", "leaked"]], [0.04, 0.0, 0.04])
    with pytest.raises(BiaslibError, match="No exact effect is given for skin"):
        parts(judged, {name: 0.0 for name in ("Eyeglasses", "Wearing_Hat", "Smiling")}, found["total"])
