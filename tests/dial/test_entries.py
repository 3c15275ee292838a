"""Metrics of others: what they may see, and what is refused."""

import numpy as np
import pytest
from torch import nn

from biaslib import dial, training
from biaslib.dial import entries, repairing
from biaslib.dial.entries import TIERS, Seen
from biaslib.dial.measuring import measured
from biaslib.dial.trials import Trial
from biaslib.errors import BiaslibError

pytestmark = pytest.mark.usefixtures("in_this_process", "store_of_the_module")

TINY = {"world": "birds", "images": 64, "epochs": 1, "size": 32, "test_images": 40, "explained": 4}
NAMES = [name for _, names in TIERS for name in names]


@pytest.fixture
def cases():
    return measured([Trial(strength=0.0, seed=seed, **TINY) for seed in range(3)])


def written(tmp_path, body, head="name='Mine', tier=0, side='above'"):
    file = tmp_path / "mine.py"
    file.write_text(f"from biaslib import dial\n\n@dial.metric({head})\ndef mine(case):\n    {body}\n")
    return file


def test_a_case_shows_what_its_tier_may_see(cases):
    case, seen = cases[0], Seen(cases[0], 5, cases)
    given = np.where(case.cue, case.probability[:, 1], case.probability[:, 0])
    np.testing.assert_array_equal(seen.score, given)
    np.testing.assert_array_equal(seen.answer, given > 0.5)
    np.testing.assert_array_equal(seen.truth, case.truth)
    assert seen.mask("object").shape == (40, 32, 32)
    assert seen.pictures.shape == (40, 32, 32, 3)
    assert len(seen.map) == 40
    assert isinstance(seen.network, nn.Module)
    assert not seen.network.training
    logits = training.predict(seen.network, seen.pictures)
    np.testing.assert_allclose(seen.score_of(logits), given, atol=1e-5)
    assert [other._case.trial.seed for other in seen.references] == [1, 2]  # never itself
    assert len(seen.train.groups) == 64


@pytest.mark.parametrize("tier", range(6))
def test_what_is_of_a_higher_tier_is_refused_with_the_tier_to_ask_for(cases, tier):
    seen = Seen(cases[0], tier, cases)
    for number, (_, names) in enumerate(TIERS):
        for name in names:
            if number <= tier:
                getattr(seen, name)
            else:
                with pytest.raises(BiaslibError, match=rf"asks for '{name}' .*: enter it with tier={number}, or do"):
                    getattr(seen, name)
    with pytest.raises(AttributeError, match="A case has no 'effect': it has truth, answer"):
        seen.effect  # noqa: B018
    for hidden in ("probability", "biased_truth"):
        assert not hasattr(seen, hidden)


def test_a_file_enters_its_metrics_each_time_it_is_read(tmp_path, cases):
    file = written(tmp_path, "return case.score.mean()", "name='Mean score', tier=0, side='below', passes=2")
    for _ in range(2):
        (entry,) = entries.read([file])
        assert (entry.name, entry.tier, entry.side, entry.passes) == ("Mean score", 0, "below", 2.0)
    assert entry.of(cases[0]).shape == (1,)
    assert len(entry.seconds) == 1


def test_a_number_an_image_counts_by_the_rows_that_are_asked_for(cases):
    entry = entries.Entry("Scores", 0, "above", 1.0, lambda case: np.where(case.truth, case.score, np.nan))
    metric, rows = entry.as_metric(cases), np.array([0, 0, 3, 5])
    score = np.where(cases[1].truth, Seen(cases[1], 0).score, np.nan)[rows]
    assert metric.value(cases[1], rows) == pytest.approx(np.nanmean(score), nan_ok=True)
    assert (metric.sign, metric.family, metric.needs) == (1.0, "tier 0", "answers and labels of the target")
    metric.value(cases[1], np.arange(40))
    assert len(entry.seconds) == 1  # a model is asked about once
    nothing = entries.Entry("Nothing", 0, "above", 1.0, lambda case: np.full(40, np.nan)).as_metric(cases)
    assert np.isnan(nothing.value(cases[0], rows))


def test_unbiased_models_are_those_of_the_world(cases):
    asked = []
    entry = entries.Entry("Distance", 4, "above", 1.0, lambda case: asked.append(len(case.references)) or 0.0)
    metric = entry.as_metric([*cases, measured([Trial(strength=1.0, **TINY)])[0]])
    metric.value(cases[0], np.arange(40))
    assert asked == [2]


@pytest.mark.parametrize(
    ("body", "head", "said"),
    [
        ("return 1", "name='Mine', tier=6, side='above'", r"tier must be a whole number in \[0, 5\], not 6"),
        ("return 1", "name='Mine', tier=1, side='up'", "side must be one of above, below, not 'up'"),
        ("return 1", "name='Mine', tier=1", r"cannot be run as Python \(TypeError: .*'side'"),
        ("retrun 1", "name='Mine', tier=0, side='above'", r"cannot be run as Python \(SyntaxError"),
    ],
)
def test_an_entry_that_is_not_one_is_refused(tmp_path, body, head, said):
    with pytest.raises(BiaslibError, match=said):
        entries.read([written(tmp_path, body, head)])


def test_a_file_without_an_entry_and_a_name_given_twice_are_refused(tmp_path):
    empty = tmp_path / "empty.py"
    empty.write_text("x = 1\n")
    with pytest.raises(BiaslibError, match=r"enters no metric: put @dial\.metric\(\.\.\.\) over its function"):
        entries.read([empty])
    with pytest.raises(BiaslibError, match=r"There is no file .*none\.py: mend its path"):
        entries.read([tmp_path / "none.py"])
    file = written(tmp_path, "return 1")
    with pytest.raises(BiaslibError, match=r"empty\.py enters no metric"):
        entries.read([file, empty])
    other = tmp_path / "other.py"
    other.write_text(file.read_text().replace("Mine", "Other"))
    assert [entry.name for entry in entries.read([file, other])] == ["Mine", "Other"]
    (tmp_path / "there").mkdir()
    with pytest.raises(BiaslibError, match="Two of the files have one name: rename one"):
        entries.read([file, written(tmp_path / "there", "return 2", "name='Another', tier=0, side='above'")])
    file.write_text(2 * file.read_text())
    with pytest.raises(BiaslibError, match="'Mine' is the name of two metrics"):
        entries.read([file])


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda case: 1 / 0, r"stopped with ZeroDivisionError \(division by zero\): mend its function"),
        (lambda case: np.ones(7), r"gives an array of shape \(7,\): return one number for the model, or one for each"),
        (lambda case: case.truth[:, None], r"gives an array of shape \(40, 1\): .*, of shape \(40,\)"),
        (lambda case: "many", "stopped with ValueError"),
        (lambda case: case.cue, r"asks for 'cue' \(labels of the cue\), and it is of tier 0"),
    ],
)
def test_what_is_no_number_of_a_model_is_refused(cases, function, said):
    with pytest.raises(BiaslibError, match=said):
        entries.Entry("Mine", 0, "above", 1.0, function).of(cases[0])


def test_a_packages_metric_is_found_by_its_entry_point(tmp_path, monkeypatch):
    class Point:
        @staticmethod
        def load():
            dial.metric(name="Theirs", tier=1, side="below")(lambda case: 0.0)

    monkeypatch.setattr(entries.importlib.metadata, "entry_points", lambda group: [Point] * (group == "biaslib.dial"))
    assert [entry.name for entry in entries.read([written(tmp_path, "return 1")])] == ["Mine", "Theirs"]


def test_the_door_opens_to_two_names_alone():
    assert dial.metric is entries.metric
    assert dial.repair is repairing.repair
    with pytest.raises(AttributeError, match="has no attribute 'metrics'"):
        dial.metrics  # noqa: B018
