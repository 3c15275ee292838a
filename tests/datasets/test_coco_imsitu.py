"""COCO and imSitu: labels, captions and ratios, on generated copies of the released files."""

import json

import pandas as pd
import pytest

from biaslib.datasets import coco, imsitu
from biaslib.errors import BiaslibError
from tests import layouts

pytestmark = pytest.mark.filterwarnings("ignore::biaslib.datasets.DatasetWarning")


@pytest.fixture
def root(tmp_path):
    layouts.coco_imsitu(tmp_path)
    return tmp_path


def test_coco_labels_are_the_files_rows(root):
    table = coco.annotated("val", root)
    rows = json.loads((root / "coco-imsitu/object_multilabel__val.data.json").read_text())
    assert table.index.tolist() == [row["image_id"] for row in rows]
    assert table["group"].tolist() == [row["gender"].index(1) for row in rows]
    assert table[list(layouts.COCO_OBJECTS)].to_numpy().astype(int).tolist() == [row["objects"] for row in rows]
    assert set(table.index).isdisjoint(coco.annotated("test", root).index)


def test_captions_are_read_in_the_order_asked_for(root):
    truth = coco.annotated("test", root)
    order = truth.index[::-1]
    said = coco.predicted("equalizer", order, root)
    assert said.index.tolist() == order.tolist()
    # the generated captions name every object, and mostly the labelled gender
    names = list(layouts.COCO_OBJECTS)
    pd.testing.assert_frame_equal(said[names], truth.loc[order, names])
    named = said["group"] >= 0
    assert 0.85 < named.mean() < 1
    assert 0.8 < (said["group"] == truth.loc[order, "group"])[named].mean() < 1


def test_verbs_are_counted_by_gender(root):
    table = imsitu.verb_by_gender("train", root).set_index("verb")
    assert table.to_numpy().sum() == 60
    # i % 5 <= 1 is a man, i % 3 == 0 is cooking: of every 15 images 0 and 6 are both, four times over
    assert table.loc["cooking"].tolist() == [8, 12]
    assert imsitu.verbs(root) == ["cooking", "driving", "shaving"]


def test_ratios_keep_their_order(root):
    for module, item, name in ((coco, "object", "COCO"), (imsitu, "verb", "imSitu")):
        found = module.gender_ratios(root)
        raw = pd.read_csv(root / f"coco-imsitu/{name}_gender_ratio_dev_res.csv")
        assert list(found.columns) == [item, "training", "before", "after"]
        assert found["after"].tolist() == raw["gender_ratio_after_RBA"].tolist()


def test_missing_files_name_source_and_what_to_do(tmp_path):
    for call in (coco.objects, coco.gender_ratios, imsitu.verbs):
        with pytest.raises(BiaslibError, match=r"is missing.*Balanced-Datasets.*coco-imsitu/"):
            call(tmp_path)


@pytest.mark.parametrize(
    ("file", "content", "call"),
    [
        ("object_multilabel__val.data.json", "[{", lambda root: coco.annotated("val", root)),
        ("object_multilabel__val.data.json", "[]", lambda root: coco.annotated("val", root)),
        (
            "object_multilabel__val.data.json",
            '[{"image_id": 1, "objects": [0, 1], "gender": [1, 0]}]',
            lambda root: coco.annotated("val", root),
        ),
        (
            "object_multilabel__val.data.json",
            '[{"image_id": 1, "objects": [0, 1, 0, 0, 0, 1], "gender": [1, 1]}]',
            lambda root: coco.annotated("val", root),
        ),
        ("object_multilabel__object_id.map.json", '{"id2object": {"7": "cup"}}', coco.objects),
        (
            "captions_6models_val2014/balanced.json",
            '[{"image_id": 1, "caption": "a"}, {"image_id": 1, "caption": "b"}]',
            lambda root: coco.captions("balanced", root),
        ),
        (
            "verb_classification__test.data.json",
            '[{"image_name": "a", "verb": 9, "gender": 0}]',
            lambda root: imsitu.annotated("test", root),
        ),
        ("COCO_gender_ratio_dev_res.csv", "object,training_ratio\ncup,0.5\n", coco.gender_ratios),
        (
            "imSitu_gender_ratio_dev_res.csv",
            "verb,training_ratio,gender_ratio_before_RBA,gender_ratio_after_RBA\ncooking,0.5,1.5,0.1\n",
            imsitu.gender_ratios,
        ),
    ],
)
def test_damaged_files_are_named(root, file, content, call):
    (root / "coco-imsitu" / file).write_text(content)
    with pytest.raises(BiaslibError, match=f"{file.split('/')[-1]} is damaged"):
        call(root)


def test_unknown_names_are_refused(root):
    with pytest.raises(BiaslibError, match="val and test, not of 'train'"):
        coco.annotated("train", root)
    with pytest.raises(BiaslibError, match="not 'gpt'"):
        coco.captions("gpt", root)
    with pytest.raises(BiaslibError, match="train, val, test, not 'dev'"):
        imsitu.annotated("dev", root)
    with pytest.raises(BiaslibError, match="no caption of image 5"):
        coco.predicted("balanced", pd.Index([5000]), root)
