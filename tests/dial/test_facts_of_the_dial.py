"""What the pages on the dial say, held against its record."""

import re
from pathlib import Path

import pytest

from biaslib.book import recorded
from biaslib.dial import verdicts
from biaslib.dial.catalogue import METRICS
from biaslib.statistics import interval
from biaslib.statistics.proportions import share_interval

ROOT = Path(__file__).resolve().parents[2]


def page(name: str) -> str:
    return re.sub(r"\s+", " ", (ROOT / "notebooks" / f"{name}.md").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def values():
    return recorded.get("dial", recorded.ALL)["values"]


@pytest.fixture(scope="module")
def calm(values):
    """The audits of reference models."""
    return values["audits"][values["audits"]["strength"] == 0]


def test_there_are_enough_models(values):
    models = verdicts.from_record(values["numbers"]).drop_duplicates("model")
    photographed = models["world"] == "pet photos"  # each takes minutes
    counts = models[~photographed].groupby(["world", "strength"]).size()
    assert counts.xs(0.0, level="strength").min() >= 30
    assert counts.min() >= 10
    assert {"birds", "pets", "fruits", "digits", "faces", "scenes"} == set(models["world"][~photographed])
    assert models[photographed].groupby("strength").size().to_dict() == {0.0: 20, 0.6: 5, 0.8: 5, 0.9: 5, 1.0: 5}


def test_maps_detect_a_bias_later_with_another_network_and_answers_do_not(values):
    effects = verdicts.from_record(values["numbers"]).query("world == 'birds' and strength == 0.8")
    effects = effects.groupby("architecture")["effect"].mean()
    assert abs(effects["small"] - effects["small_mobilenet"]) < 0.05
    powers = verdicts.from_record(values["powers"]).query("world == 'birds' and models == 1 and images == 100")
    strong = powers[(powers["strength"] == 0.8) & (powers["metric"] != "Accuracy on data as biased")]
    family = strong["metric"].map(lambda name: METRICS[name].family)
    found = strong.pivot_table(index="architecture", columns=family, values="power")
    assert found["answers"].min() > 0.9
    assert found.loc["small", "attention"] > 0.7
    assert found.loc["small_mobilenet", "attention"] < 0.3
    assert "At one strength, mask scores detect much less with the second network." in page("dial")


def test_a_single_test_accuses_one_in_twenty_and_the_corrected_audit_not_more(calm):
    single = interval(calm["single"], bounds=(0, 1))  # clustered: a unit is a model
    assert len(calm) >= 120
    assert single.low <= 0.05 <= single.high <= 0.11
    corrected = share_interval(int(calm["pooled"].sum()), len(calm))
    assert corrected.low <= 0.05


def test_a_statistic_counts_once(values):
    table = verdicts.from_record(values["numbers"])
    assert "Correlation of answers and cue" not in set(table["metric"])
    in_birds = set(table.loc[table["world"] == "birds", "metric"])
    assert "RMA of the object, Grad-CAM" in in_birds
    assert not [name for name in in_birds if name.startswith("RMA of the cue")]
    assert "A statistic counts once" in page("dial")


def test_families_are_compared_on_metrics_that_every_world_has(values):
    powers = verdicts.on_usual_architecture(verdicts.from_record(values["powers"]))
    common = verdicts.everywhere(powers)
    assert common.groupby("metric")["world"].nunique().nunique() == 1
    assert {METRICS[name].family for name in common["metric"]} >= {"answers", "attention", "attribution"}
    assert "on the metrics that every world has" in page("dial")
    assert "verdicts.everywhere(equal)" in page("agreement")


def test_maps_that_do_not_know_the_model_detect_nothing(values):
    powers = verdicts.from_record(values["powers"])
    for name in ("edges", "centre"):
        of_null = powers[powers["metric"] == f"RMA of the object, {name}"]["power"]
        assert (of_null < 0.06).all()


def test_metrics_of_paper_c_are_said_not_to_follow_its_protocol():
    assert "The paper's own are of biased images" in page("dial")


def test_errors_of_the_second_clue_are_counted_apart_from_small_effects():
    assert "the accusation is of something with next to no effect" in page("blind_audit")
