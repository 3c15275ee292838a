"""The recorded run on the real files: what the page shows where the data are not."""

import numpy as np
import pytest

from biaslib.book import recorded
from biaslib.chapters.papers import reported
from biaslib.datasets import celeba, published


@pytest.fixture(scope="module")
def tables():
    record = recorded.get("released_predictions", "real")
    assert record is not None
    return record["values"]["tables"]


@pytest.mark.parametrize(
    ("attribute", "mcc"),
    [("Wearing_Lipstick", 0.884), ("Eyeglasses", 0.260), ("Blond_Hair", 0.346), ("Mustache", 0.507)],
)
def test_correlations_with_male(tables, attribute, mcc):
    found = tables["attributes"].set_index("attribute").loc[attribute, "mcc"]
    assert round(found, 3) == mcc


def test_worst_group_accuracies_are_those_the_authors_typed_in(tables):
    found = tables["attributes"].set_index("attribute")["wga"]
    assert round(found["Smiling"], 4) == 0.8559
    assert round(found["Wavy_Hair"], 4) == 0.5806
    printed = published.printed_values()["worst_group_accuracy"].set_index("attribute")["mean"]
    assert np.abs(found - printed).max() < 5.1e-5


def test_trends_over_training_sets(tables):
    tau = tables["subgroup_trends"].set_index(["attribute", "group"])["tau"]
    assert round(tau["Blond_Hair", "all"], 3) == -0.085
    assert round(tau["Wavy_Hair", "all"], 3) == -0.793


def test_mask_scores_of_birds(tables):
    birds = tables["waterbirds"].set_index(["backbone", "bias"])
    assert birds.loc[[("resnet", 50), ("resnet", 100)], "bird"].round(3).tolist() == [0.830, 0.532]
    assert birds.loc[[("resnet", 50), ("resnet", 100)], "background"].round(3).tolist() == [0.507, 0.823]
    assert birds.loc[[("efficientnet", 50), ("efficientnet", 100)], "bird"].round(3).tolist() == [0.766, 0.397]


def test_all_attributes_and_all_regions_are_there(tables):
    assert tables["attributes"]["attribute"].tolist() == list(celeba.ATTRIBUTES)
    assert len(tables["regions"]) == 17


def test_verdicts_on_the_quoted_numbers(tables):
    quoted = reported.quoted(tables)
    wrong = set(quoted.loc[quoted["agrees"] == "no", "number"])
    assert wrong == {
        "Blond Hair: Kendall's |τ|, score and MCC",
        "Wavy Hair: Kendall's |τ|, score and MCC",
        "Waterbirds, 50 %: bird mask score",
        "Waterbirds, 100 %: bird mask score",
        "All 40 attributes: average precision",
    }
    taus = quoted.set_index("number")["difference"]
    assert taus["Wavy Hair: Kendall's |τ|, score and MCC"] == pytest.approx(0.008, abs=0.001)  # not 1.58
    span = quoted.set_index("number").loc["Blond Hair: Kendall's |τ|, score and MCC"]
    assert span["low"] == 0 < span["recomputed"] < span["high"]
    files = reported.sentences(tables).set_index("says")
    weak = files.loc["There is no strong correlation between WGA and the mask score"]
    assert weak["files"].endswith("p = 0.027")
    bound = reported.sentences(tables).set_index("says").loc["The WGAs beside the bars are those of the models shown"]
    assert "at 60 %: 0.822 against 0.785; at 70 %: 0.843 against 0.784" in bound["files"]


def test_page_needs_no_data_to_say_it(tables):
    assert set(tables) == {
        "attributes", "attributes_efficientnet", "regions", "mustache", "subgroups", "subgroup_trends", "trends",
        "waterbirds", "precision", "uniform",
    }  # fmt: skip
    assert recorded.get("released_predictions", "real")["parameters"] == {
        "min_share": 0.01,
        "resamples": 1000,
        "seed": 0,
    }
