"""The recorded run on the real files: what the page shows where the data are not."""

import pytest

from biaslib.book import recorded
from biaslib.chapters.papers import reported


@pytest.fixture(scope="module")
def tables():
    record = recorded.get("real_amplification", "real")
    assert record is not None
    return record["values"]["tables"]


def test_all_models_all_sets_and_both_groupings_are_there(tables):
    faces = tables["faces"]
    assert set(faces["models"]) == {20}
    assert faces.groupby(["grouping", "kind"]).size().tolist() == [5] * 6
    assert (faces.query("sets == 'all'")["n_sets"] > 200_000).all()


def test_a_faultless_prediction_is_further_from_training_than_the_models(tables):
    found = tables["faces"].set_index(["grouping", "kind", "sets", "sign"]).loc["hair", "undirected", "all", "absolute"]
    assert found["perfect"] > found["high"]


def test_captions_of_images_labelled_woman_name_the_other_gender_more_often(tables):
    wording = tables["wording"].set_index(["captioner", "group"])
    assert wording.loc[[("baseline_ft", 0), ("baseline_ft", 1)], "other"].round(3).tolist() == [0.057, 0.418]
    assert wording.loc[[("equalizer", 0), ("equalizer", 1)], "other"].round(3).tolist() == [0.075, 0.179]


def test_constraints_lower_amplification(tables):
    cut = tables["constraints"].query("source == 'after'").set_index("corpus")["cut"]
    assert cut.round(3).to_dict() == {"COCO": 0.317, "imSitu": 0.522}


def test_networks_trained_here_exaggerate_single_attributes_where_no_errors_change_nothing():
    record = recorded.get("real_amplification", "real")
    assert record is not None
    own = record["values"]["trained"]
    joint = own["joint"].set_index(["kind", "sets", "sign"])
    assert set(joint["models"]) == {6}
    single = joint.loc[("group_to_attribute", "single", "signed")]
    assert single["perfect"] == 0 < single["low"]
    every = joint.loc[("undirected", "all", "absolute")]
    assert every["n_never_predicted"] > 0.2 * every["n_sets"]  # a set that is never said counts as no change
    assert own["joint_quality"].set_index("what").loc["Black_Hair", "low"] > 0.8


def test_the_sign_of_single_attributes_agrees_with_the_release():
    record = recorded.get("real_amplification", "real")
    assert record is not None
    assert "dirty" not in record["commit"]
    joint = record["values"]["trained"]["joint"].set_index(["kind", "sets", "sign"])
    released = reported.celeba_amplification().set_index(["kind", "sets", "sign"])
    key = ("attribute_to_group", "single", "signed")
    assert 100 * joint.loc[key, "low"] < released.loc[key, "value"] < 100 * joint.loc[key, "high"] < 0
    assert (joint.xs("observed", level="sets")["n_sets"] < 3867).all()
