from importlib import resources
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from biaslib.audit.report import reliability
from biaslib.book import recorded
from biaslib.dial import verdicts
from biaslib.dial.catalogue import EXACT, METRICS, Metric
from biaslib.dial.trials import Trial, grid
from biaslib.errors import BiaslibError
from biaslib.statistics.detection import detection_power
from tests.of_pages import functions
from tools.reliability import reliability_table

NAMES = ("Worst-group accuracy", "Accuracy gap", "Mask score of the cue", EXACT.name)


def table(seed=0, reference=8, models=5, shift=6.0):
    """Values of models that are drawn from normal distributions, `shift` standard deviations apart at full strength."""
    rng = np.random.default_rng(seed)
    rows, model = [], 0
    for world in ("birds", "pets"):
        for strength in (0.0, 0.5, 1.0):
            for number in range(models if strength else reference):
                for name in NAMES:
                    risk = rng.normal(shift * strength, 1.0)
                    value = risk if METRICS[name].side == "above" else -risk
                    row = (world, "small", strength, number, model, name, METRICS[name].family, value, risk, strength)
                    rows.append(row)
                model += 1
    columns = [
        "world",
        "architecture",
        "strength",
        "seed",
        "model",
        "metric",
        "family",
        "value",
        "risk_score",
        "effect",
    ]
    return pd.DataFrame(rows, columns=columns)


def test_a_record_gives_the_numbers_back():
    exact = table()
    numbers = exact.assign(value=exact["value"].round(4), risk_score=exact["risk_score"].round(4))
    again = verdicts.from_record(verdicts.as_record(exact))
    keys = ["world", "model", "metric"]
    left, right = (part.sort_values(keys).reset_index(drop=True) for part in (numbers, again))
    pd.testing.assert_frame_equal(left, right[left.columns], check_dtype=False)


def test_a_record_gives_the_powers_back():
    rows = [("birds", "small", "Accuracy gap", s, 100, k, s / k, 9) for s in (0.5, 1.0) for k in (1, 2)]
    columns = ["world", "architecture", "metric", "strength", "images", "models", "power", "draws"]
    powers = pd.DataFrame(rows, columns=columns)
    again = verdicts.from_record(verdicts.as_record(powers))
    order = ["models", "strength"]
    left, right = (part.sort_values(order).reset_index(drop=True) for part in (powers.drop(columns="draws"), again))
    pd.testing.assert_frame_equal(left, right[left.columns], check_dtype=False)
    assert set(right["family"]) == {"answers"}


def test_drawn_worlds_stand_apart_from_photographs_and_further_networks():
    rows = pd.DataFrame({"world": ["birds", "birds", "pet photos"], "architecture": ["small", "small_mobilenet", "x"]})
    rows.loc[2] = next((name, place.training.architecture) for name, place in verdicts.PLACES.items() if place.photos)
    assert list(verdicts.drawn(rows)["world"]) == ["birds"]
    assert len(verdicts.on_usual_architecture(rows)) == 2


@pytest.mark.slow
def test_alarms_come_at_the_level_and_the_pooled_rank_keeps_the_audit_there():
    found = pd.concat([verdicts.audits(table(seed, reference=20)) for seed in range(40)])
    calm = found[found["strength"] == 0]
    assert set(found["metrics"]) == {3}  # the exact effect is no test
    assert calm["single"].mean() == pytest.approx(0.05, abs=0.02)
    assert calm["any"].mean() > 0.09
    assert calm["holm"].mean() < 0.09
    assert calm["pooled"].mean() == pytest.approx(1 / 20)  # one of twenty, by construction
    assert found.loc[found["strength"] == 1, "pooled"].mean() > 0.9
    counts = verdicts.false_positive_counts(table(reference=20))
    assert set(counts["audits"]) == {20}
    assert set(counts["metric"]) == set(NAMES)
    rates = verdicts.false_positive_rates(counts)
    assert rates["Accuracy gap"].n == 40


def test_a_null_map_is_no_test_of_an_audit():
    numbers = table()
    more = numbers[numbers["metric"] == NAMES[0]].assign(metric="RMA of the object, edges", risk_score=1.0)
    both = pd.concat([numbers, more])
    assert set(verdicts.audits(both)["metrics"]) == {3}
    assert "RMA of the object, edges" not in set(verdicts.everywhere(both)["metric"])


def test_a_power_has_an_interval_over_models_and_a_rise():
    found = functions("dial")["power_spans"](table(shift=3.0, reference=30, models=10))
    part = found[(found["world"] == "birds") & (found["metric"] == NAMES[0])].set_index("strength")
    low, high = part.loc[0.5, "power"], part.loc[1.0, "power"]
    assert low.low < low.estimate < low.high
    assert (low.n, low.estimate < high.estimate) == (10, True)
    rise = part.loc[1.0, "rise"]
    assert rise.estimate == pytest.approx(high.estimate - low.estimate)
    assert rise.low < rise.estimate < rise.high
    assert np.isnan(part.loc[0.5, "rise"].estimate)


def test_models_far_out_are_reported_and_their_distance_is_in_standard_deviations():
    far = verdicts.against_reference(table(shift=40.0))
    assert (far[far["strength"] == 1]["p"] < 0.05).all()
    one = far[(far["world"] == "birds") & (far["metric"] == NAMES[0])]
    reference = one[one["strength"] == 0]["risk_score"]
    biased = one[one["strength"] == 1].iloc[0]
    assert biased["distance"] == pytest.approx((biased["risk_score"] - reference.mean()) / reference.std())


def test_powers_are_those_of_the_rule(monkeypatch):
    """A metric whose values are known: power from means and spreads, whatever the images."""
    trials = grid(["birds"], strengths=[1.0], models=3, references=4)
    values = np.array([0.0, 1.0, 2.0, 3.0, 5.0, 6.0, 7.0])
    known = np.broadcast_to(values, (4, 3, 7))
    monkeypatch.setattr(verdicts._redraw, "many", lambda keys: [
        known if key[1] == "Accuracy gap" else np.full((4, 3, 7), np.nan) for key in keys
    ])  # fmt: skip
    found = verdicts.powers(trials, draws=3)
    assert set(found["metric"]) == {"Accuracy gap"}
    expected = detection_power(
        shift=4.5, n_reference=4, models=3, spread=1.0, reference_spread=np.std(values[:4], ddof=1)
    )
    three = found[(found["models"] == 3) & (found["images"] == 100)].iloc[0]
    assert three["power"] == pytest.approx(expected)
    monkeypatch.setattr(verdicts, "POWER", expected - 0.01)
    smallest = verdicts.detection_thresholds(found)
    assert smallest.set_index(["images", "models"]).loc[(100, 3), "strength"] == 1.0


def test_power_needs_models_of_every_strength():
    alone = [Trial(world="birds", strength=0.0), Trial(world="birds", strength=1.0)]
    with pytest.raises(BiaslibError, match="two models or more of strength 0 and of each other one in birds"):
        verdicts.powers(alone)


def test_a_metric_of_ones_own_has_its_numbers(monkeypatch):
    trials = grid(["birds"], strengths=[1.0], models=2, references=3, test_images=20, explained=10)
    truth = np.arange(20) % 2 == 1
    cases = [SimpleNamespace(trial=trial, truth=truth, effect=np.zeros(20), seen=trial.seed) for trial in trials]
    monkeypatch.setattr(verdicts, "METRICS", {})
    mine = Metric("mine", "yours", "", "below", "nothing more", 1, lambda case, rows: case.seen + rows.mean())
    found = verdicts.numbers(cases, [mine])
    assert list(found["value"]) == [9.5, 10.5, 11.5, 9.5, 10.5]
    assert list(found["risk_score"]) == [-9.5, -10.5, -11.5, -9.5, -10.5]
    assert list(verdicts.numbers(cases, [mine], images=2)["value"][:2]) == [0.5, 1.5]


def test_the_table_that_audits_carry_is_that_of_the_recorded_dial():
    values = recorded.get("dial", recorded.ALL)["values"]
    made = reliability_table(values["numbers"], values["powers"])
    assert list(made["table"]) == ["gaps", "amplification", "attention", "regions"]
    with resources.files("biaslib.audit").joinpath("reliability.csv").open(encoding="utf-8") as file:
        pd.testing.assert_frame_equal(pd.read_csv(file), made, rtol=1e-9)
    shown = reliability(set(made["table"]))
    gap = shown.iloc[0]["unbiased accused"]
    usual = verdicts.on_usual_architecture(values["numbers"])
    assert gap.n == int((usual["strength"] == 0).sum())
    assert 0 <= gap.low <= gap.estimate <= gap.high <= 1
    assert shown["birds"].str.contains("from|at no strength|not measured").all()


def test_only_what_was_measured_is_told_of():
    assert list(reliability({"gaps": pd.DataFrame()})["measure"]) == ["gap in accuracy"]
    assert reliability({}).empty
