"""COCO's JSON becomes masks that an audit takes."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from biaslib import audit
from biaslib.errors import BiaslibError
from tests.audit.subjects import PLAIN, biased, draw
from tools import coco_to_masks

SQUARE = [[2.0, 1.0, 6.0, 1.0, 6.0, 4.0, 2.0, 4.0]]  # four columns, three rows


def annotations(tmp_path, *things, **changes):
    given = {
        "images": [{"id": 7, "file_name": "in/a.jpg", "width": 10, "height": 8}],
        "categories": [{"id": 1, "name": "lesion"}, {"id": 2, "name": "hair/ruler"}],
        "annotations": [{"image_id": 7, "category_id": 1, **thing} for thing in things],
    }
    (tmp_path / "coco.json").write_text(json.dumps(given | changes))
    return tmp_path / "coco.json"


def masks(tmp_path, *things, category="lesion"):
    coco_to_masks.convert(annotations(tmp_path, *things), tmp_path / "out")
    return np.asarray(Image.open(tmp_path / "out" / category / "in" / "a.png"))


def square():
    expected = np.zeros((8, 10), bool)
    expected[1:4, 2:6] = True
    return expected


@pytest.mark.parametrize(
    "thing",
    [
        {"segmentation": SQUARE, "bbox": [0, 0, 1, 1]},
        {"bbox": [2, 1, 4, 3]},
        {"segmentation": [], "bbox": [2, 1, 4, 3]},
        {"segmentation": {"size": [8, 10], "counts": [17, 3, 5, 3, 5, 3, 5, 3, 36]}, "iscrowd": 1},
    ],
)
def test_polygons_boxes_and_runs_are_drawn(tmp_path, thing):
    np.testing.assert_array_equal(masks(tmp_path, thing), square())


def test_a_pixel_is_inside_where_its_centre_is(tmp_path):
    triangle = masks(tmp_path, {"segmentation": [[0, 0, 8, 0, 0, 8]]})
    rows, columns = np.mgrid[:8, :10] + 0.5
    np.testing.assert_array_equal(triangle | (rows + columns == 8), rows + columns <= 8)


def test_things_of_a_category_are_one_mask_and_may_reach_over_the_edge(tmp_path):
    found = masks(tmp_path, {"segmentation": SQUARE}, {"bbox": [8, 6, 9, 9]}, {"bbox": [20, 20, 2, 2]})
    expected = square()
    expected[6:, 8:] = True
    np.testing.assert_array_equal(found, expected)


def test_categories_are_folders(tmp_path):
    found = masks(tmp_path, {"segmentation": SQUARE}, {"bbox": [0, 0, 10, 8], "category_id": 2}, category="hair ruler")
    assert found.all()


@pytest.mark.parametrize(
    ("things", "changes", "said"),
    [
        ([{"segmentation": {"size": [8, 10], "counts": "abc"}}], {}, "holds packed runs"),
        ([{"segmentation": SQUARE, "category_id": 9}], {}, "is no annotation file in COCO's JSON .KeyError: 9."),
        ([{"segmentation": {"counts": [3, 4]}}], {}, "ValueError: counted runs do not fill a picture of 10 x 8"),
        ([{}], {}, "is no annotation file in COCO's JSON .KeyError: 'bbox'."),
        ([{"segmentation": [[1, 2, 3]]}], {}, "is no annotation file in COCO's JSON .ValueError"),
        ([], {"images": 3}, "is no annotation file in COCO's JSON .TypeError"),
        (
            [{"segmentation": SQUARE}],
            {"images": [{"id": 7, "file_name": "../../a.jpg", "width": 10, "height": 8}]},
            "names a picture outside its folder",
        ),
    ],
)
def test_what_is_not_cocos_is_refused_and_nothing_is_written(tmp_path, things, changes, said):
    file = annotations(tmp_path, *things, **changes)
    with pytest.raises(BiaslibError, match=said):
        coco_to_masks.convert(file, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_something_is_left_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["coco_to_masks.py", str(annotations(tmp_path)), str(tmp_path)])
    with pytest.raises(SystemExit):
        coco_to_masks.main()
    assert "is not empty: name a new folder" in capsys.readouterr().err


def test_an_audit_takes_them_as_masks(tmp_path):
    labels = draw(tmp_path / "set", n=80)
    images = [
        {"id": number, "file_name": name, "width": 32, "height": 32} for number, name in enumerate(labels["file"])
    ]
    spots = [
        {"image_id": number, "category_id": 1, "bbox": [20, 24, 4, 4]} for number in np.flatnonzero(labels["red"] == 1)
    ]
    spots = [{**spot, "image_id": int(spot["image_id"])} for spot in spots]
    file = annotations(tmp_path, images=images, annotations=spots)
    assert coco_to_masks.convert(file, tmp_path / "regions") == len(spots)
    given = {"data": tmp_path / "set" / "images", "target": "green", "groups": "red", "permutations": 19, **PLAIN}
    tables = [
        audit.run(model=biased(), labels=labels, masks=folder, **given).tables["regions"]
        for folder in (tmp_path / "regions", tmp_path / "set" / "masks")
    ]
    # the drawn masks of pictures without a spot are empty, and here there are none
    pd.testing.assert_frame_equal(*(table.drop(columns="region") for table in tables))
