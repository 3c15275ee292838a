from importlib import resources

import numpy as np
import pandas as pd
import pytest

from biaslib.audit.report import reliability
from biaslib.book import recorded
from biaslib.dial import verdicts
from biaslib.dial.catalogue import EXACT, METRICS
from biaslib.dial.trials import Trial, grid
from biaslib.errors import BiaslibError
from biaslib.statistics import kendall
from biaslib.statistics.detection import detection_power

NAMES = ("Worst-group accuracy", "Accuracy gap", "Mask score of the cue", EXACT.name)


def table(seed=0, reference=8, models=5, shift=6.0):
    """Values of models that are drawn from normal distributions, `shift` standard deviations apart at full strength."""
    rng = np.random.default_rng(seed)
    rows = []
    for world in ("birds", "pets"):
        model = 0
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


def test_false_positives_come_at_the_level_and_the_correction_keeps_the_family_there():
    found = [verdicts.false_positive_counts(table(seed)) for seed in range(60)]
    every = pd.concat(found)
    single = every[every["metric"] != "any"]
    assert single["false_positives"].sum() / single["audits"].sum() == pytest.approx(0.05, abs=0.02)
    families = every[every["metric"] == "any"]
    assert families["corrected"].sum() / families["audits"].sum() < 0.08
    assert families["false_positives"].sum() > 2 * families["corrected"].sum()
    assert EXACT.name not in set(every["metric"])
    rates = verdicts.false_positive_rates(every).set_index("metric")
    assert rates.loc["any", "false_positives"].n == families["audits"].sum()


def test_models_far_out_are_reported_and_their_distance_is_in_standard_deviations():
    far = verdicts.against_reference(table(shift=40.0))
    assert (far[far["strength"] == 1]["p"] < 0.05).all()
    one = far[(far["world"] == "birds") & (far["metric"] == NAMES[0])]
    reference = one[one["strength"] == 0]["risk_score"]
    biased = one[one["strength"] == 1].iloc[0]
    assert biased["distance"] == pytest.approx((biased["risk_score"] - reference.mean()) / reference.std())


def test_tau_is_kendalls_of_the_risk_score():
    numbers = table()
    taus = verdicts.truthfulness(numbers).set_index("metric")
    part = numbers[(numbers["metric"] == NAMES[0]) & (numbers["world"] == "pets")]
    assert taus.loc[NAMES[0], "pets"].estimate == pytest.approx(kendall(-part["value"], part["effect"]).estimate)
    assert taus.loc[NAMES[0], "across"].estimate > 0.5


def test_powers_are_those_of_the_rule(monkeypatch):
    """A metric whose values are known: power from means and spreads, whatever the images."""
    trials = grid(["birds"], strengths=[1.0], models=3, twins=4)
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


def test_the_table_that_audits_carry_is_that_of_the_recorded_dial():
    values = recorded.get("dial")["values"]
    made = verdicts.reliability_table(values["numbers"], values["powers"])
    assert list(made["table"]) == ["gaps", "correlations", "amplification", "attention", "regions"]
    with resources.files("biaslib.audit").joinpath("reliability.csv").open(encoding="utf-8") as file:
        pd.testing.assert_frame_equal(pd.read_csv(file), made, rtol=1e-9)
    shown = reliability(set(made["table"]))
    gap = shown.iloc[0]["unbiased accused"]
    assert gap.n == int((values["numbers"]["strength"] == 0).sum())
    assert 0 <= gap.low <= gap.estimate <= gap.high <= 1
    assert shown["birds"].str.contains("from|at no strength|not measured").all()


def test_only_what_was_measured_is_told_of():
    assert list(reliability({"gaps": pd.DataFrame()})["measure"]) == ["gap in accuracy"]
    assert reliability({}).empty
