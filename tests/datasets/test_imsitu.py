import json

import pytest

from biaslib import datasets
from biaslib.errors import BiaslibError
from tests import layouts

pytestmark = pytest.mark.filterwarnings("ignore::biaslib.datasets.DatasetWarning")


def test_people_come_with_verb_place_and_group_where_the_words_decide_them(tmp_path):
    layouts.imsitu(tmp_path)
    train = datasets.load("imsitu", "train", size=16, root=tmp_path)
    # only women are tattooed, so the verb goes
    assert train.labels.columns.tolist() == ["verb cooking", "verb resting", "verb running", "indoors", "group"]
    annotated = json.loads((tmp_path / "imsitu" / "train.json").read_text())
    first = {name: [image["frames"][0][role] for role in ("agent", "place")] for name, image in annotated.items()}
    kept = [
        (name.split("_")[0], agent == "woman", place == "kitchen")
        for name, (agent, place) in first.items()
        if agent != "chef" and place in ("kitchen", "field") and not name.startswith("tattooing")
    ]
    assert 0 < len(kept) < 72
    rows = train.labels.to_dict("records")
    assert [(bool(row["group"]), row["indoors"]) for row in rows] == [row[1:] for row in kept]
    assert all(row[f"verb {verb}"] and sum(row.values()) <= 3 for row, (verb, *_) in zip(rows, kept, strict=True))
    red, blue = (train.images[train.labels["group"] == group][:, 8, 8].mean(axis=0) for group in (0, 1))
    assert red[0] > 150 > red[2]
    assert blue[2] > 150 > blue[0]


def test_validation_and_test_have_the_verbs_of_training(tmp_path):
    layouts.imsitu(tmp_path)
    parts = [datasets.load("imsitu", split, size=16, root=tmp_path).labels for split in ("train", "val", "test")]
    assert len({tuple(part.columns) for part in parts}) == 1
    assert min(map(len, parts)) > 30


def test_a_place_both_inside_and_outside_is_left_out(tmp_path):
    layouts.imsitu(tmp_path)
    file = tmp_path / "imsitu" / "train.json"
    images = json.loads(file.read_text())
    before = len(datasets.load("imsitu", "train", size=16, root=tmp_path))
    for frames in (image["frames"] for image in images.values()):
        frames[1]["place"] = "field"
    file.write_text(json.dumps(images))
    after = datasets.load("imsitu", "train", size=16, root=tmp_path)
    assert not after.labels["indoors"].any()
    assert len(after) != before


def test_missing_and_damaged_files_are_one_sentence(tmp_path):
    with pytest.raises(BiaslibError, match=r"train\.json is missing: it belongs to imSitu"):
        datasets.load("imsitu", "train", size=16, root=tmp_path)
    with pytest.raises(BiaslibError, match="must be one of train, val, test, not 'dev'"):
        datasets.load("imsitu", "dev", size=16, root=tmp_path)
    layouts.imsitu(tmp_path)
    space = tmp_path / "imsitu" / "imsitu_space.json"
    for wrong in ("{", "{}", '{"nouns": {}}', '{"nouns": []}'):
        space.write_text(wrong)
        with pytest.raises(BiaslibError, match=r"train\.json is damaged"):
            datasets.load("imsitu", "train", size=16, root=tmp_path)
