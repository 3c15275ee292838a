"""COCO and imSitu: labels, captions and ratios, on generated copies of the released files."""

import json

import pandas as pd
import pytest

from biaslib import datasets
from biaslib.datasets import coco_imsitu
from biaslib.errors import BiaslibError
from tests import layouts

pytestmark = pytest.mark.filterwarnings("ignore::biaslib.datasets.DatasetWarning")


@pytest.fixture
def root(tmp_path, monkeypatch):
    layouts.coco_imsitu(tmp_path)
    monkeypatch.setenv("BIASLIB_DATA", str(tmp_path))
    return tmp_path


def test_coco_labels_are_the_files_rows(root):
    table = coco_imsitu.coco_labels("val")
    rows = json.loads((root / "coco-imsitu/object_multilabel__val.data.json").read_text())
    assert table.index.tolist() == [row["image_id"] for row in rows]
    assert table["group"].tolist() == [row["gender"].index(1) for row in rows]
    assert table[list(layouts.COCO_OBJECTS)].to_numpy().astype(int).tolist() == [row["objects"] for row in rows]
    assert set(table.index).isdisjoint(coco_imsitu.coco_labels("test").index)


def test_captions_are_read_in_the_order_asked_for(root):
    truth = coco_imsitu.coco_labels("test")
    order = truth.index[::-1]
    said = coco_imsitu.coco_captioned("equalizer", order)
    assert said.index.tolist() == order.tolist()
    # the generated captions name every object, and mostly the labelled gender
    names = list(layouts.COCO_OBJECTS)
    pd.testing.assert_frame_equal(said[names], truth.loc[order, names])
    named = said["group"] >= 0
    assert 0.85 < named.mean() < 1
    assert 0.8 < (said["group"] == truth.loc[order, "group"])[named].mean() < 1


def test_verbs_are_counted_by_gender(root):
    table = coco_imsitu.imsitu_verb_by_gender("train").set_index("verb")
    assert table.to_numpy().sum() == 60
    # i % 5 <= 1 is a man, i % 3 == 0 is cooking: of every 15 images 0 and 6 are both, four times over
    assert table.loc["cooking"].tolist() == [8, 12]
    assert table.index.tolist() == ["cooking", "driving", "shaving"]


def test_ratios_keep_their_order(root):
    for item, name in (("object", "COCO"), ("verb", "imSitu")):
        found = coco_imsitu.gender_ratios(name)
        raw = pd.read_csv(root / f"coco-imsitu/{name}_gender_ratio_dev_res.csv")
        assert list(found.columns) == [item, "training", "before", "after"]
        assert found["after"].tolist() == raw["gender_ratio_after_RBA"].tolist()


def test_missing_files_name_source_and_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("BIASLIB_DATA", str(tmp_path))
    for call in (coco_imsitu.coco_objects, lambda: coco_imsitu.gender_ratios("COCO")):
        with pytest.raises(BiaslibError, match=r"is missing.*Balanced-Datasets.*coco-imsitu/"):
            call()


@pytest.mark.parametrize(
    ("file", "content", "call"),
    [
        ("object_multilabel__val.data.json", "[{", lambda: coco_imsitu.coco_labels("val")),
        ("object_multilabel__val.data.json", "[]", lambda: coco_imsitu.coco_labels("val")),
        (
            "object_multilabel__val.data.json",
            '[{"image_id": 1, "objects": [0, 1], "gender": [1, 0]}]',
            lambda: coco_imsitu.coco_labels("val"),
        ),
        (
            "object_multilabel__val.data.json",
            '[{"image_id": 1, "objects": [0, 1, 0, 0, 0, 1], "gender": [1, 1]}]',
            lambda: coco_imsitu.coco_labels("val"),
        ),
        ("object_multilabel__object_id.map.json", '{"id2object": {"7": "cup"}}', coco_imsitu.coco_objects),
        (
            "captions_6models_val2014/balanced.json",
            '[{"image_id": 1, "caption": "a"}, {"image_id": 1, "caption": "b"}]',
            lambda: coco_imsitu._captions("balanced"),
        ),
        (
            "verb_classification__test.data.json",
            '[{"image_name": "a", "verb": 9, "gender": 0}]',
            lambda: coco_imsitu.imsitu_verb_by_gender("test"),
        ),
        (
            "COCO_gender_ratio_dev_res.csv",
            "object,training_ratio\ncup,0.5\n",
            lambda: coco_imsitu.gender_ratios("COCO"),
        ),
        (
            "imSitu_gender_ratio_dev_res.csv",
            "verb,training_ratio,gender_ratio_before_RBA,gender_ratio_after_RBA\ncooking,0.5,1.5,0.1\n",
            lambda: coco_imsitu.gender_ratios("imSitu"),
        ),
    ],
)
def test_damaged_files_are_named(root, file, content, call):
    (root / "coco-imsitu" / file).write_text(content)
    with pytest.raises(BiaslibError, match=f"{file.split('/')[-1]} is damaged"):
        call()


def test_unknown_names_are_refused(root):
    with pytest.raises(BiaslibError, match="must be one of val, test, not 'train'"):
        coco_imsitu.coco_labels("train")
    with pytest.raises(BiaslibError, match="not 'gpt'"):
        coco_imsitu._captions("gpt")
    with pytest.raises(BiaslibError, match="train, val, test, not 'dev'"):
        coco_imsitu.imsitu_verb_by_gender("dev")
    with pytest.raises(BiaslibError, match="no caption of image 5"):
        coco_imsitu.coco_captioned("balanced", pd.Index([5000]))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A man riding a horse.", 0),
        ("two GIRLS and a dog", 1),
        ("a man and a woman", -1),
        ("a person feeding a giraffe.", -1),
        ("a snowman beside a human", -1),
        ("", -1),
    ],
)
def test_gender_is_named_by_whole_words(text, said):
    assert coco_imsitu.captioned_gender([text]).tolist() == [said]


def mentioned(text, names):
    row = coco_imsitu.captioned_objects([text], names).iloc[0]
    return {name for name in names if row[name]}


def test_objects_are_named_by_name_plural_or_another_word():
    names = ["bicycle", "knife", "bus", "tv", "wine_glass", "sheep", "couch"]
    assert mentioned("Bikes near two buses", names) == {"bicycle", "bus"}
    assert mentioned("knives and wine glasses", names) == {"knife", "wine_glass"}
    assert mentioned("sheep watching television on sofas", names) == {"sheep", "tv", "couch"}
    assert mentioned("a busy penknife in couches", names) == {"couch"}


def test_longer_terms_are_read_first_and_words_are_not_used_twice():
    names = ["dog", "hot_dog", "bear", "teddy_bear", "cat"]
    assert mentioned("a hot dog", names) == {"hot_dog"}
    assert mentioned("a teddy bear beside a dog", names) == {"teddy_bear", "dog"}
    assert mentioned("a bear and a teddy bear", names) == {"bear", "teddy_bear"}


def test_columns_follow_the_names_and_rows_the_captions():
    table = coco_imsitu.captioned_objects(["a dog", "a cat", "nothing"], ["cat", "dog"])
    assert list(table.columns) == ["cat", "dog"]
    assert table.to_numpy().tolist() == [[False, True], [True, False], [False, False]]


def test_no_word_means_two_of_the_papers_objects():
    terms = [term for name in coco_imsitu.PAPER_OBJECTS for term in coco_imsitu._terms(name)]
    assert len(terms) == len(set(terms))


def test_no_objects_is_an_error():
    with pytest.raises(BiaslibError, match="no object to look for"):
        coco_imsitu.captioned_objects(["a dog"], [])


def test_photographs_whose_captions_name_one_gender_come_with_their_objects(tmp_path):
    layouts.coco_photos(tmp_path)
    train = datasets.load("coco", "train", size=16, root=tmp_path)
    assert len(train) == 54  # of 60, as every tenth image's captions name nobody's gender
    assert train.labels.columns.tolist() == [*coco_imsitu.PAPER_OBJECTS, "group"]
    third = train.labels.iloc[2]  # image 3, by the rule of the layout
    assert third["group"] == 1
    numbers = {(3 + k * k) % 51 for k in range(12)}
    assert {i for i, name in enumerate(coco_imsitu.PAPER_OBJECTS) if third[name]} == numbers
    red, blue = (train.images[train.labels["group"] == group][:, 8, 8].mean(axis=0) for group in (0, 1))
    assert red[0] > 150 > red[2]
    assert blue[2] > 150 > blue[0]
    halves = [datasets.load("coco", split, size=16, root=tmp_path) for split in ("val", "test")]
    assert sum(map(len, halves)) == 54
    assert min(map(len, halves)) > 10


def test_cocos_missing_and_damaged_files_are_one_sentence(tmp_path):
    with pytest.raises(BiaslibError, match=r"captions_train2014\.json is missing: it belongs to COCO 2014"):
        datasets.load("coco", "train", size=16, root=tmp_path)
    with pytest.raises(BiaslibError, match="must be one of train, val, test, not 'dev'"):
        datasets.load("coco", "dev", size=16, root=tmp_path)
    layouts.coco_photos(tmp_path)
    (tmp_path / "coco" / "annotations" / "captions_train2014.json").write_text('{"annotations": [{"id": 1}]}')
    with pytest.raises(BiaslibError, match=r"captions_train2014\.json is damaged"):
        datasets.load("coco", "train", size=16, root=tmp_path)
