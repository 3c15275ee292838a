"""The numbers and claims that the papers print, and how those of Attention-IoU compare with its files."""

from types import SimpleNamespace

import pandas as pd
import pytest

from biaslib.attribution import METHODS
from biaslib.chapters.papers import reported
from biaslib.chapters.papers.attention_iou import LOCALISED
from biaslib.chapters.perturbation import RANDOM


def test_table_1_is_whole_and_biased_networks_lose_what_the_paper_says():
    table = reported.printed("schaaf-accuracy")
    assert len(table) == 16
    assert not table.duplicated(["use_case", "network", "trained", "tested"]).any()
    wide = table.pivot_table("accuracy", ["use_case", "network", "trained"], "tested")
    drop = (wide["biased"] - wide["unbiased"]).xs("biased", level="trained")
    assert (drop.min().round(2), drop.max().round(2)) == (0.17, 0.25)  # "between 17 and 25 percent points"


def test_p_values_are_those_of_tables_2_and_4():
    table = reported.printed("schaaf-p-values")
    assert table.groupby("use_case").size().to_dict() == {"fruits": 80, "pets": 48}
    assert not table.duplicated(list(table.columns[:-1])).any()
    balls = table[table["object"] == "Ball"]
    assert (balls["p"] == 0).all()  # "for Ball the p-values are always zero"
    apples = table[(table["object"] == "Apple") & (table["p"] > 0)]
    assert set(apples["method"]) == {"Grad-CAM"}  # "except for a single case (GC + RRA)": it is two
    assert len(apples) == 2
    one = table.set_index(["network", "object", "method", "measure"])["p"]
    assert one["MobileNet", "Cat", "Integrated gradients", "rra"] == 0.91
    assert one["EfficientNet", "Peach", "Score-CAM", "rra"] == 0.00
    assert one["MobileNet", "Pineapple", "Grad-CAM", "rma"] == 0.94
    assert one["EfficientNet", "Dog", "ε-LRP", "rra"] == 0.89


def test_networks_are_set_beside_those_they_are_named_after_and_no_others():
    names = ("small MobileNet", "MobileNetV1 × 0.75", "efficientnet_b0", "resnet18")
    assert [reported.family(name) for name in names] == ["MobileNet", "MobileNet", "EfficientNet", None]


def test_cells_of_tables_3_and_5_read_off_the_page():
    table = reported.printed("schaaf-aopc").set_index(["use_case", "network", "trained", "method", "classes"])["aopc"]
    assert table["pets", "EfficientNet", "biased", "Integrated gradients", "Cat"] == 0.72
    assert table["pets", "MobileNet", "biased", "Score-CAM", "Dog"] == 0.13
    assert table["pets", "EfficientNet", "unbiased", "Grad-CAM", "Dog"] == 0.35
    assert table["pets", "MobileNet", "unbiased", "Random", "all"] == 0.17
    assert table["fruits", "EfficientNet", "biased", "ε-LRP", "Apple"] == 0.03
    assert table["fruits", "MobileNet", "unbiased", "Integrated gradients", "Apple"] == 0.85
    assert table["fruits", "MobileNet", "unbiased", "Score-CAM", "Rest"] == 0.53


def test_every_cell_is_there_under_the_words_of_the_page():
    table = reported.printed("schaaf-aopc")
    assert len(table) == 2 * 4 * 9
    assert set(table["method"]) == {*METHODS, RANDOM}
    assert table.groupby("use_case")["classes"].unique().map(set).to_dict() == {
        "pets": {"Cat", "Dog", "all"},
        "fruits": {"Apple", "Rest", "all"},
    }
    assert table["aopc"].between(0, 1).all()
    assert not table.duplicated(["use_case", "network", "trained", "method", "classes"]).any()


def test_quoted_numbers_come_from_the_tables(computed):
    numbers = reported.claim_numbers(computed)
    value = {
        claim.words: numbers[name] for claim in reported.paper_claims() if claim.paper for name in claim.condition.names
    }
    assert len(value) == 21
    assert pd.Series(value).notna().all()
    heatmap = computed["attributes"].set_index("attribute").loc["Mustache", "heatmap"]
    assert value["Mustache: heatmap score"] == heatmap
    wavy = computed["subgroup_trends"].query("attribute == 'Wavy_Hair' and group == 'all'")["tau"].item()
    assert value["Wavy Hair: Kendall's |τ|, score and MCC"] == abs(wavy)


def test_a_value_of_the_tables_has_its_interval(computed):
    found = reported.spans(computed, {"hat": "attributes: Wearing_Hat, heatmap", "trend": "trends: mask_wga, tau"})
    row = computed["attributes"].set_index("attribute").loc["Wearing_Hat"]
    assert (found["hat"].estimate, found["hat"].low, found["hat"].high) == tuple(
        row[["heatmap", "heatmap_low", "heatmap_high"]]
    )
    trend = computed["trends"].set_index("name").loc["mask_wga"]
    assert (found["trend"].estimate, found["trend"].low, found["trend"].high) == tuple(trend[["tau", "low", "high"]])


def test_every_claim_has_a_mark_and_its_numbers(computed):
    numbers = reported.claim_numbers(computed)
    table = reported.claims_table(numbers)
    assert set(table["record"]) <= {"replicated", "not replicated", "too small to tell", "not tested"}
    assert (table.loc[table["record"] == "not tested", "remark"] != "").all()  # and why
    assert table["the paper says"].is_unique
    profiles = computed["profiles"].set_index(["attribute", "region"])
    blond, wavy = (profiles.loc[(name, "eyes")] for name in ("Blond_Hair", "Wavy_Hair"))
    found = numbers["profiles: Blond_Hair eyes, mean minus Wavy_Hair eyes"]
    assert found.estimate == blond["mean"] - wavy["mean"]
    assert (found.low, found.high) == (blond["low"] - wavy["high"], blond["high"] - wavy["low"])
    others = computed["attributes"].set_index("attribute")["heatmap"].drop(["Male", "Wearing_Lipstick"])
    best = numbers["attributes: Wearing_Lipstick, heatmap minus highest other"]
    assert best.estimate == pytest.approx(
        computed["attributes"].set_index("attribute").loc["Wearing_Lipstick", "heatmap"] - others.max()
    )


def test_likeness_by_hand():
    rows = [
        {"attribute": name, "region": region, "mean": value, "low": value - 0.01, "high": value + 0.01}
        for name, value in (("Male", 0.5), ("Blond_Hair", 0.3), ("Wavy_Hair", 0.6))
        for region in LOCALISED
    ]
    found = reported._of_profiles(pd.DataFrame(rows))
    assert found["likeness"]["Wavy_Hair"] == pytest.approx(
        {"distance": 0.1, "distance_low": 0.08, "distance_high": 0.12}
    )
    assert found["hair_colours"]["eyes"]["difference"] == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("found", "holds"),
    [(0.7265, True), (0.725, True), (0.715, True), (0.7149, False), (0.73, False)],  # rounded, or cut off
)
def test_a_quoted_number_may_be_rounded_or_cut_off(found, holds):
    low, high = reported._bounds(SimpleNamespace(paper="0.72", decimals="2", low="", high=""))
    assert (low < found < high) == holds
