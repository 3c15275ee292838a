"""Which audits report a model, and their shares along the true effect."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from biaslib import figures
from biaslib.chapters import verdict

MODELS = pd.DataFrame(
    {
        "case": ["pets"] * 4 + ["fruits"] * 2,
        "strength": [0.0, 0.5, 1.0, 1.0, 0.0, 1.0],
        "effect": [0.0, 0.05, 0.4, 0.9, 0.0, 0.8],
    }
)
PETS = pd.DataFrame(
    {"no map | accuracy gap": [0.5, 0.5, 0.05, 0.05], "A | cue_rma": [0.05, 0.1, 0.05, 0.05], "B | cue_rma": [1.0] * 4}
)
FRUITS = pd.DataFrame({"no map | accuracy gap": [0.05, np.nan], "A | object_rma": [0.3, 0.05]})
VALUES = {"references": 19, "models": MODELS, "p": {"pets": PETS, "fruits": FRUITS}}


def test_a_model_is_reported_up_to_five_percent_or_the_smallest_p():
    assert verdict.is_reported(0.05, 19)
    assert verdict.is_reported(0.05, 39)
    assert not verdict.is_reported(0.1, 19)
    assert verdict.is_reported(0.1, 9)
    assert not verdict.is_reported(0.2, 9)
    found = verdict.audits(VALUES)
    assert len(found) == 16
    assert found["biased"].tolist() == (found["strength"] > 0).tolist()
    of_a = found.query("pair == 'A | cue_rma'")
    assert of_a["reported"].tolist() == [1, 0, 1, 1]
    assert of_a["effect"].tolist() == [0.0, 0.05, 0.4, 0.9]
    gap = found.query("method == 'no map' and case == 'fruits'")
    assert gap["reported"].tolist() == [1, 0]  # without a number nothing is reported
    few = verdict.audits(VALUES | {"references": 6, "p": {"fruits": (FRUITS * 0 + 1 / 7).round(4)}})
    assert few["reported"].sum() == 3


def test_the_share_has_the_interval_of_as_many_draws_as_models():
    found = verdict.audits(VALUES)
    one = verdict.share(found.query("pair == 'A | cue_rma'"))
    expected = binomtest(3, 4).proportion_ci(method="wilson")
    np.testing.assert_allclose([one.estimate, one.low, one.high], [0.75, expected.low, expected.high])
    both = verdict.share(found.query("metric == 'cue_rma'"))
    assert (both.estimate, both.n) == (0.375, 4)  # eight audits, four models
    assert np.isnan(verdict.share(found.query("case == 'birds'")).estimate)


def test_one_kind_of_audits_less_another():
    found = verdict.audits(VALUES)
    difference = verdict.less(found.query("metric == 'cue_rma'"), found.query("metric == 'accuracy gap'"))
    assert difference.estimate == pytest.approx(np.mean([0.5, 0, -0.5, -0.5]))
    assert difference.n == 4
    assert verdict.best_and_worst(found) == ("A | cue_rma", "B | cue_rma")


def test_groups_by_effect_begin_with_unbiased_models():
    found = verdict.audits(VALUES).query("pair == 'A | cue_rma'")
    assert [step["effect"].tolist() for step in verdict.by_effect(found, 1)] == [[0.0], [0.05], [0.4], [0.9]]
    assert [step["effect"].tolist() for step in verdict.by_effect(found, 2)] == [[0.0], [0.05, 0.4], [0.9]]
    assert [len(step) for step in verdict.by_effect(found, 9)] == [1, 3]
    assert [len(step) for step in verdict.by_effect(found.query("not biased"), 2)] == [1]


def test_the_groups_do_not_depend_on_the_order_of_the_rows():
    found = verdict.audits(VALUES).query("metric == 'cue_rma'")
    turned = verdict.by_effect(found.iloc[::-1], 2)
    for step, other in zip(verdict.by_effect(found, 2), turned, strict=True):
        pd.testing.assert_frame_equal(step, other.iloc[::-1])


def test_the_curve_has_a_thick_line_of_all_methods_and_a_thin_one_of_each():
    found = verdict.audits(VALUES).query("metric == 'cue_rma'")
    figure, axes = figures.new()
    verdict.curve(axes, found, 1, colour="blue", words="mass on the ball")
    dotted, *thin, thick = axes.lines
    assert set(dotted.get_ydata()) == {0.05}
    assert [line.get_ydata().tolist() for line in thin] == [[1, 0, 1, 1], [0, 0, 0, 0]]
    np.testing.assert_allclose(thick.get_ydata(), [0.5, 0, 0.5, 0.5])
    np.testing.assert_allclose(thick.get_xdata(), [0, 0.05, 0.4, 0.9])
    assert axes.get_title(loc="left") == "mass on the ball"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "0.5", "1"]
    (values,) = figure.biaslib_values
    assert values["n"].tolist() == [1, 1, 1, 1]


def test_squares_name_their_methods_and_metrics():
    found = verdict.audits(VALUES).query("pair == 'A | cue_rma'")
    _, axes = figures.new()
    verdict.squares(axes, found, ["A", "B"], 1, str.upper)
    assert [text.get_text() for text in axes.texts] == ["CUE_RMA"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["A", "B"]
    assert len(axes.collections[-1].get_paths()) == 4
