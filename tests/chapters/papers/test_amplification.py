"""The tables behind the chapter on real predictions, on generated copies of what was released."""

import re
from typing import get_args

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from biaslib.book import find_project
from biaslib.chapters.papers import amplification, reported
from biaslib.chapters.scene_models import HAIR, HAIR_ATTRIBUTES
from biaslib.datasets import coco_imsitu
from biaslib.metrics.amplification import Kind, bias_amplification
from tests import layouts

pytestmark = pytest.mark.filterwarnings("ignore::biaslib.datasets.DatasetWarning")


@pytest.fixture
def root(tmp_path, monkeypatch):
    layouts.coco_imsitu(tmp_path)
    monkeypatch.setenv("BIASLIB_DATA", str(tmp_path))
    return tmp_path


def drawn(n, seed):
    """A table under CelebA's names in which attributes go with the hair and with `Male`."""
    rng = np.random.default_rng(seed)
    hair = rng.integers(3, size=n)
    table = {name: rng.random(n) < 0.3 + 0.2 * (hair == 1) for name in HAIR_ATTRIBUTES}
    table |= {name: hair == i for i, name in enumerate(HAIR)}
    return pd.DataFrame(table)


def test_an_image_with_no_or_two_hair_colours_has_no_group():
    table = pd.DataFrame(
        {"Black_Hair": [1, 0, 0, 1], "Blond_Hair": [0, 1, 0, 1], "Brown_Hair": [0, 0, 0, 0], "Male": [0, 1, 1, 0]}
    ).astype(bool)
    assert amplification._group_of(table, "hair").tolist() == [0, 1, -1, -1]
    assert amplification._group_of(table, "Male").tolist() == [0, 1, 1, 0]


def test_the_group_is_no_attribute_of_itself():
    table = drawn(50, 0)
    keep = np.ones(50, bool)
    assert len(HAIR_ATTRIBUTES) == 23
    assert amplification._labels(table, "hair", keep).names == HAIR_ATTRIBUTES
    assert set(HAIR_ATTRIBUTES) - set(amplification._labels(table, "Male", keep).names) == {"Male"}


def test_predictions_without_an_error_amplify_nothing_but_chance():
    train, test = drawn(150, 0), drawn(40, 1)
    rows, kept = amplification._of_one_model(train, test, test, "hair", [0])
    values = rows.set_index(["kind", "sets", "sign"])["value"]
    assert kept == 40
    assert (values[["group_to_attribute", "attribute_to_group"]] == 0).all()
    assert values["undirected", "all", "absolute"] > 0.1  # few images in most sets
    np.testing.assert_array_equal(rows[["perfect", "baseline"]], rows[["value", "value"]])  # nothing to permute
    same, _ = amplification._of_one_model(test, test, test, "Male", [0])
    assert (same["value"] == 0).all()


def test_errors_that_follow_the_group_are_beyond_the_baseline_of_the_same_images(monkeypatch):
    monkeypatch.setitem(amplification._MEASURES, "faces", amplification._MEASURES["faces"][:1])  # singles, signed
    train, test = drawn(900, 0), drawn(600, 1)
    predicted = test.assign(Smiling=test["Smiling"] | test["Blond_Hair"])
    for seed in range(20):
        rows, _ = amplification._of_one_model(train, test, predicted, "hair", [seed])
        found = rows.set_index("kind").loc["group_to_attribute"]
        assert found["perfect"] == 0
        assert abs(found["baseline"]) < found["value"] / 3


@pytest.mark.slow
def test_the_sets_of_the_released_metric_are_measured_beside_all_sets():
    train, test, predicted = drawn(100, 0), drawn(25, 1), drawn(25, 2)
    rows, _ = amplification._of_one_model(train, test, predicted, "Male", [0])
    found = rows.set_index(["kind", "sets", "sign"])
    three = [amplification._labels(t, "Male", np.ones(len(t), bool)) for t in (train, test, predicted)]
    whole = {tuple(row) for row in three[0].attributes}  # whole label sets of training faces
    for kind in get_args(Kind):
        cells = bias_amplification(*three, kind=kind).table(None)
        names = np.array(three[0].names)
        member = [tuple(np.isin(names, list(attributes))) in whole for attributes in cells["attributes"]]
        row = found.loc[(kind, "observed", "absolute")]
        n_cells = cells.loc[member, "attributes"].nunique() * (1 if kind == "undirected" else 2)
        assert row["value"] == pytest.approx(cells.loc[member, "d"].abs().sum() / n_cells)
        assert row["n_sets"] < found.loc[(kind, "all", "absolute"), "n_sets"]
        signed = bias_amplification(*three, kind=kind, sets="observed", min_size=2, absolute=False)
        assert found.loc[(kind, "observed 2+", "signed"), "value"] == signed.mean


def test_released_values_of_celeba_stand_in_their_rows():
    table = reported.celeba_amplification().set_index(["kind", "sets", "sign"])
    assert len(table) == 16
    printed = table["printed"]
    assert printed["attribute_to_group", "single", "absolute"] == "0.831\u00a0±\u00a00.049"
    assert printed["group_to_attribute", "single", "absolute"] == "1.076\u00a0±\u00a00.030"
    assert printed["attribute_to_group", "single", "signed"] == "−0.273\u00a0±\u00a00.026"
    assert printed["group_to_attribute", "single", "signed"] == "0.587\u00a0±\u00a00.017"
    assert printed["undirected", "single", "signed"] == "0.565\u00a0±\u00a00.121"
    assert printed["undirected", "observed", "absolute"] == "23.147\u00a0±\u00a00.354"
    assert printed["mAP", "", ""] == "78.193\u00a0±\u00a00.050"


@pytest.mark.parametrize("page", ["balanced", "real_amplification"])
def test_pages_read_the_released_values_and_type_none(page):
    text = (find_project().notebooks / f"{page}.md").read_text(encoding="utf-8")
    assert "reported.celeba_amplification()" in text
    assert not re.search(r"0\.831|1\.076|23\.15|5\.465|78\.19", text)


def test_the_jackknife_of_a_mean_is_its_standard_error():
    values = np.random.default_rng(0).normal(size=40)
    left_out = np.array([np.delete(values, i).mean() for i in range(40)])
    span = amplification._jackknife(values.mean(), left_out, 40)
    expected = scipy.stats.t.interval(0.95, 39, values.mean(), values.std(ddof=1) / np.sqrt(40))
    assert (span.low, span.high) == pytest.approx(expected)


def test_wording_counts_captions(root):
    table = amplification._wording(0).set_index(["captioner", "group"])
    truth = pd.concat([coco_imsitu.coco_labels("val"), coco_imsitu.coco_labels("test")])
    said = coco_imsitu.coco_captioned("upweight", truth.index)
    women = (truth["group"] == 1).to_numpy()
    named = (said["group"] >= 0).to_numpy()
    row = table.loc[("upweight", 1)]
    assert row["n_named"] == (women & named).sum()
    assert row["other"] == pytest.approx((said["group"][women & named] == 0).mean())
    assert row["mentioned"] == 1  # the generated captions name every object


def test_captioners_are_measured_on_images_of_which_all_name_one_gender(root):
    table = amplification._captioners(4, 0).set_index(["captioner", "kind", "measure"])
    assert len(table) == 6 * 3 * 4
    assert len(set(table["n"])) == 1
    assert (table["low"] <= table["value"]).all()
    assert (table["value"] <= table["high"]).all()
    # every object is named: no group can change what is said of the objects
    assert (table.xs("group_to_attribute", level="kind")["value"] == 0).all()
    assert (table.xs("attribute_to_group", level="kind").xs("all", level="measure")["value"] > 0).all()


def test_ratios_stand_beside_what_the_labels_give(root):
    table = amplification._ratios().set_index(["corpus", "item"])
    counts = coco_imsitu.imsitu_verb_by_gender("val").set_index("verb").loc["driving"]
    assert table.loc[("imSitu", "driving"), "right"] == counts["man"] / counts.sum()
    images = coco_imsitu.coco_labels("val")
    assert table.loc[("COCO", "cup"), "right"] == pytest.approx(1 - images.loc[images["cup"], "group"].mean())


def test_constraints_by_hand():
    table = pd.DataFrame(
        {
            "corpus": ["COCO", "COCO"] * 2,
            "training": [0.8, 0.3, 0.6, 0.4],
            "before": [0.9, 0.1, 0.7, 0.3],
            "after": [0.85, 0.25, 0.6, 0.45],
            "right": [0.8, 0.3, 0.6, 0.4],
        }
    )
    found = amplification._constraints(table, 0).set_index("source")
    # towards the gender it goes with in training: 0.1, 0.2, 0.1, 0.1; after 0.05, 0.05, 0, -0.05
    assert found.loc["before", "signed"] == pytest.approx(0.125)
    assert found.loc["before", "absolute"] == pytest.approx(0.125)
    assert found.loc["after", "signed"] == pytest.approx(0.0125)
    assert found.loc["after", "within"] == 1
    assert found.loc["before", "within"] == 0
    assert found.loc["after", "cut"] == pytest.approx(0.9)
    assert found.loc["labels", ["signed", "absolute"]].tolist() == [0, 0]


def test_missing_files_are_named(root):
    assert "attention-iou/results" in amplification.missing()
    assert "coco-imsitu/captions_6models_val2014" not in amplification.missing()
