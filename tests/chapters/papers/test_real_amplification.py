"""The recorded run on the real files: what the page shows where the data are not."""

import pytest

from biaslib.book import recorded


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


def test_captions_of_images_labelled_woman_name_the_other_gender_more_often(tables):
    wording = tables["wording"].set_index(["captioner", "group"])
    assert wording.loc[[("baseline_ft", 0), ("baseline_ft", 1)], "other"].round(3).tolist() == [0.057, 0.418]
    assert wording.loc[[("equalizer", 0), ("equalizer", 1)], "other"].round(3).tolist() == [0.075, 0.179]


def test_constraints_lower_amplification(tables):
    cut = tables["constraints"].query("source == 'after'").set_index("corpus")["cut"]
    assert cut.round(3).to_dict() == {"COCO": 0.317, "imSitu": 0.522}
