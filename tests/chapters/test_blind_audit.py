import numpy as np
import pandas as pd
import pytest

from biaslib import worlds
from biaslib.chapters import blind_audit
from biaslib.dial import trials
from biaslib.dial.measuring import Case, balanced
from biaslib.dial.trials import PLACES, Trial
from biaslib.errors import BiaslibError
from biaslib.metrics import Labels
from biaslib.statistics import Interval

ZOO = trials.grid(["birds", "pets"], strengths=[0.0, 1.0], models=2, references=3)
NOBODY = Labels(np.zeros((1, 1), bool), np.zeros(1, int), ("none",))


def model(answers, *, trial=None):
    """A model of birds that gives these answers on the balanced test images; its other measures are empty."""
    trial = trial or Trial(world="birds", strength=0.5, test_images=len(answers), explained=1)
    table = balanced(trial)
    probability = np.repeat(np.asarray(answers, float)[:, None], 2, axis=1)
    truth, cue = (table[name].to_numpy(bool) for name in (trial.drawn_by.target, trial.drawn_by.cue))
    return Case(
        trial,
        truth,
        cue,
        probability,
        {},
        np.ones((len(answers), 4, 4)),
        {},
        NOBODY,
        NOBODY,
        NOBODY,
        truth[:1],
        truth[:1],
    )


@pytest.fixture(scope="module")
def table():
    return balanced(Trial(world="birds", strength=0.5, test_images=400, explained=1))


def test_every_candidate_is_a_column_of_its_world_and_the_cue_is_one():
    for world, columns in blind_audit.CANDIDATES.items():
        drawn = worlds.get(world).factors(40, strength=0.0, seed=0)
        assert set(columns.values()) <= set(drawn.columns)
        assert worlds.get(world).cue in columns.values()
        assert worlds.get(world).target not in columns.values()
        assert columns[blind_audit.cue_of(Trial(world=world, strength=1.0))] == worlds.get(world).cue
    assert set(blind_audit.CANDIDATES) < set(PLACES)


def test_each_number_is_one_model_and_all_numbers_are_all_models():
    dealt = blind_audit.assign(ZOO, range(len(ZOO)), seed=3)
    assert set(dealt) == set(ZOO)
    assert dealt != ZOO  # the number does not give the strength away
    assert blind_audit.assign(ZOO, [4, 1], seed=3) == [dealt[4], dealt[1]]
    assert blind_audit.assign(ZOO, range(len(ZOO)), seed=4) != dealt


@pytest.mark.parametrize("numbers", [[0, 10], [-1], [2, 2]])
def test_a_number_without_a_model_of_its_own_is_refused(numbers):
    with pytest.raises(BiaslibError, match="different whole numbers from 0 to 9"):
        blind_audit.assign(ZOO, numbers)


def test_a_model_that_answers_by_a_candidate_is_seen_to(table):
    facing = table["facing"].to_numpy() > 0
    found = blind_audit.cue_dependence(model(facing)).set_index("candidate")
    row = found.loc["facing right"]
    assert row["gap"].estimate == 1
    assert row["p_holm"] < 1e-6
    others = found.drop(index="facing right")
    assert (others["p_holm"] > 0.05).all()


def test_gaps_by_hand(table):
    truth = table["waterbird"].to_numpy(bool)
    tone = table["tone"].to_numpy()
    warm = tone > np.median(tone)
    wrong = truth & ~warm  # only waterbirds without a warm plumage are missed
    row = blind_audit.cue_dependence(model(truth & ~wrong)).set_index("candidate").loc["a warm plumage"]
    agree = warm == truth
    assert row["gap"].estimate == pytest.approx(wrong.sum() / (~agree).sum())
    assert row["gap"].low < row["gap"].estimate < row["gap"].high


def test_who_is_always_right_follows_nothing(table):
    found = blind_audit.cue_dependence(model(table["waterbird"].to_numpy(bool)))
    assert [gap.estimate for gap in found["gap"]] == [0] * len(found)


def test_the_gap_is_the_effect_on_the_answers(table):
    wet = table["background"].to_numpy(bool)
    answers = np.where(np.arange(len(wet)) % 4 == 0, wet, table["waterbird"].to_numpy(bool))  # a quarter follow it
    gap = blind_audit.cue_dependence(model(answers)).set_index("candidate").loc["water behind the bird", "gap"]
    assert gap.estimate == pytest.approx(0.25, abs=0.05)
    assert gap.low < 0.25 < gap.high


def test_the_score_of_a_guess():
    effects = pd.DataFrame({"candidate": ["a", "b"], "effect": [Interval(0.3, 0.2, 0.4, 9), Interval(0.0, 0, 0, 9)]})
    width = blind_audit.SAID_NOTHING[1] - blind_audit.SAID_NOTHING[0]
    assert blind_audit.score({"a": (0.2, 0.4)}, effects).tolist() == pytest.approx([0.2, width])
    assert blind_audit.score({}, effects).tolist() == pytest.approx([width + 40 * 0.28, width])
    assert blind_audit.score({"b": (0.1, 0.2)}, effects)[1] == pytest.approx(0.1 + 40 * 0.1)
    with pytest.raises(BiaslibError, match="A guess is about a, b, not about c"):
        blind_audit.score({"c": (0.0, 0.1)}, effects)


def test_the_truth_is_what_the_model_does_with_edited_pictures(monkeypatch, tmp_path):
    """A stand-in that answers by the picture's mean brightness: light moves it, and facing does not."""
    trial = Trial(world="birds", strength=1.0, size=32, test_images=20, explained=10)
    monkeypatch.setenv("BIASLIB_STORE", str(tmp_path))
    monkeypatch.setattr(blind_audit.recipes, "load", lambda recipe: None)

    def bright(_, images):
        light = images.mean(axis=(1, 2, 3)) / 25.0
        return np.stack([np.zeros(len(images)), light - 4.0], axis=1)

    monkeypatch.setattr(blind_audit.training, "predict", bright)
    found = dict(zip(blind_audit.CANDIDATES["birds"], blind_audit._probabilities(trial), strict=True))
    table = balanced(trial)
    for words, column in (("water behind the bird", "background"), ("bright light", "light")):
        ends = (0, 1) if column == "background" else np.quantile(table[column], (0.25, 0.75))
        for side, end in enumerate(ends):
            values = np.full(len(table), end).astype(table[column].dtype)
            images = trial.drawn_by.render(table.assign(**{column: values}), size=32).images
            expected = 1 / (1 + np.exp(-bright(None, images)[:, 1]))
            np.testing.assert_allclose(found[words][:, side], expected)
    moved = {words: np.abs(values[:, 1] - values[:, 0]).mean() for words, values in found.items()}
    assert moved["bright light"] > 10 * moved["facing right"]


def test_a_table_of_effects_has_an_interval_for_each_candidate(monkeypatch):
    trial = Trial(world="birds", strength=1.0)
    kept = np.zeros((6, 50, 2))
    kept[1, :, 1] = np.linspace(0.2, 0.4, 50)
    monkeypatch.setattr(blind_audit._probabilities, "many", lambda _: [kept])
    found = blind_audit.effects([trial])[0]
    assert isinstance(found, pd.DataFrame)
    assert list(found["candidate"]) == list(blind_audit.CANDIDATES["birds"])
    effect = found["effect"][1]
    assert isinstance(effect, Interval)
    assert effect.estimate == pytest.approx(0.3)
    assert effect.low < 0.3 < effect.high
