"""What the pages on the dial say, held against its record."""

import re
from pathlib import Path

import pytest

from biaslib.book import recorded
from biaslib.dial import verdicts
from biaslib.dial.catalogue import METRICS

ROOT = Path(__file__).resolve().parents[2]


def page(name: str) -> str:
    return re.sub(r"\s+", " ", (ROOT / "notebooks" / f"{name}.md").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def values():
    return recorded.get("dial", "standard")["values"]


def test_families_are_compared_on_metrics_that_every_world_has(values):
    powers = verdicts.from_record(values["powers"])
    audit = powers[(powers["images"] == verdicts.AUDIT_IMAGES) & (powers["models"] == 1)]
    found = verdicts.family_powers(audit[audit["metric"] != "Accuracy on data as biased"]).round(2)
    assert found[["answers", "attention", "attribution", "amplification"]].tolist() == [0.74, 0.60, 0.62, 0.56]
    # over whatever worlds a metric has, attention would lead attribution by 12 points
    unlike = audit.groupby(audit["metric"].map(lambda name: METRICS[name].family))["power"].mean().round(2)
    assert unlike["attention"] - unlike["attribution"] > 0.1
    assert "Averaged over all biased settings in which a metric can be computed" not in page("dial")
    assert "verdicts.family_powers" in page("dial")


def test_holm_is_not_said_to_hold_where_its_interval_reaches_far_above_the_level(values):
    rates = verdicts.false_positive_rates(
        verdicts.false_positive_counts(verdicts.from_record(values["numbers"]))
    ).set_index("metric")
    corrected = rates.loc["any", "corrected"]
    assert round(corrected.estimate, 3) == 0.125
    assert corrected.high > 0.25
    assert "Choose your metric before you look, or correct." not in page("dial")
    assert "Holm's correction is not shown to bring the rate down to one in twenty here" in page("dial")


def test_one_statistic_under_two_names_is_named(values):
    table = verdicts.from_record(values["numbers"]).pivot_table(
        index=["world", "model"], columns="metric", values="value"
    )
    birds = table.loc["birds"]
    whole = birds["RMA of the object, Grad-CAM"] + birds["RMA of the cue, Grad-CAM"]
    assert (whole - 1).abs().max() < 1e-3
    assert table["Accuracy gap"].corr(table["Correlation of answers and cue"], method="kendall") > 0.99
    assert "one statistic under two names" in page("agreement")


def test_metrics_of_paper_c_are_said_not_to_follow_its_protocol():
    assert "the paper's own are of biased images" in page("dial")


def test_unmeasured_error_of_the_second_clue_is_not_claimed():
    assert "Not all of that is error" not in page("blind_audit")
