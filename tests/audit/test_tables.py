"""Outlines in COCO's JSON are masks of an audit."""

import json

import numpy as np
import pandas as pd
import pytest
from matplotlib import path
from PIL import Image

from biaslib import audit
from biaslib.audit.pictures import Preprocessing, find_masks
from biaslib.audit.tables import read_outlines
from biaslib.errors import BiaslibError
from tests.audit.subjects import PLAIN, biased, draw

SQUARE = [[2.0, 1.0, 6.0, 1.0, 6.0, 4.0, 2.0, 4.0]]  # four columns, three rows


def annotations(tmp_path, *things, **changes):
    given = {
        "images": [
            {"id": 7, "file_name": "in/a.jpg", "width": 10, "height": 8},
            {"id": 8, "file_name": "./b.jpg", "width": 10, "height": 17},
        ],
        "categories": [{"id": 1, "name": "lesion"}, {"id": 2, "name": "hair/ruler"}, {"id": 3, "name": "lesion"}],
        "annotations": [{"image_id": 7, "category_id": 1, **thing} for thing in things],
    }
    (tmp_path / "coco.json").write_text(json.dumps(given | changes))
    return tmp_path / "coco.json"


def mask(tmp_path, *things, region="lesion"):
    return read_outlines(annotations(tmp_path, *things), ["in/a.jpg"])[region][0].drawn()


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
        {"segmentation": [[]], "bbox": [2, 1, 4, 3]},
        {"segmentation": [[], *SQUARE]},
        {"segmentation": {"size": [8, 10], "counts": [17, 3, 5, 3, 5, 3, 5, 3, 36]}, "iscrowd": 1},
    ],
)
def test_polygons_boxes_and_runs_are_drawn(tmp_path, thing):
    np.testing.assert_array_equal(mask(tmp_path, thing), square())


def test_runs_of_any_length_are_drawn(tmp_path):
    rng = np.random.default_rng(0)
    for density in (0.01, 0.2, 0.9, 0.0, 1.0):
        inside = rng.random((8, 10)) < density
        column = np.concatenate([[False], inside.T.ravel()])
        counts = np.diff([0, *np.flatnonzero(np.diff(column)), 80]).tolist()
        np.testing.assert_array_equal(mask(tmp_path, {"segmentation": {"counts": counts}}), inside)


def test_a_pixel_is_inside_a_polygon_where_its_centre_is(tmp_path):
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:8, :10] + 0.5
    centres = np.stack([columns.ravel(), rows.ravel()], axis=1)
    for _ in range(20):
        corners = rng.uniform(-3, 13, (3, 2))
        expected = path.Path(corners).contains_points(centres).reshape(8, 10)
        np.testing.assert_array_equal(mask(tmp_path, {"segmentation": [corners.ravel().tolist()]}), expected)
    moved = np.array(SQUARE) + 0.4
    np.testing.assert_array_equal(mask(tmp_path, {"segmentation": moved.tolist()}), square())
    # two parts of one thing, and what lies in both
    assert mask(tmp_path, {"segmentation": [*SQUARE, [4, 0, 8, 0, 8, 8, 4, 8]]}).sum() == 12 + 32 - 6


def test_things_of_a_category_are_one_mask_and_may_reach_over_the_edge(tmp_path):
    found = mask(tmp_path, {"segmentation": SQUARE}, {"bbox": [8, 6, 9, 9], "category_id": 3}, {"bbox": [20, 20, 2, 2]})
    expected = square()
    expected[6:, 8:] = True
    np.testing.assert_array_equal(found, expected)


def test_categories_are_regions_and_other_images_are_passed_over(tmp_path):
    things = [
        {"segmentation": SQUARE},
        {"bbox": [0, 0, 10, 8], "category_id": 2},
        {"image_id": 8, "bbox": [0, 0, 1, 1]},
    ]
    file = annotations(tmp_path, *things)
    found = read_outlines(file, ["c.jpg", "in/a.jpg"])
    assert {region: [one is not None for one in of] for region, of in found.items()} == {
        "lesion": [False, True], "hair/ruler": [False, True]
    }  # fmt: skip
    assert found["hair/ruler"][1].drawn().all()
    assert list(find_masks(file, tmp_path, ["b.jpg"])) == ["lesion"]
    with pytest.raises(BiaslibError, match=r"No mask in .*coco\.json belongs to an image: .* its file_name is that of"):
        find_masks(file, tmp_path, ["c.jpg"])


def test_an_outline_is_cut_as_its_picture_is(tmp_path):
    outline = read_outlines(annotations(tmp_path, {"bbox": [0, 2, 5, 3]}), ["in/a.jpg"])["lesion"][0]
    np.testing.assert_array_equal(Preprocessing(size=8).mask(outline), outline.drawn()[:, 1:9])


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        ({"segmentation": {"counts": [3, 4]}}, "ValueError: its runs do not fill 10 x 8 pixels"),
        ({"segmentation": {"counts": [-20, 100]}}, "ValueError: "),
        ({"segmentation": {"size": [10, 8], "counts": [17, 63]}}, "ValueError: its runs do not fill 10 x 8 pixels"),
        ({"segmentation": {"size": [8, 10]}}, "KeyError: 'counts'"),
        ({}, "KeyError: 'bbox'"),
        ({"bbox": [1, 2]}, "ValueError: not enough values to unpack"),
        ({"segmentation": [[1, 2, 3]]}, "ValueError: cannot reshape"),
        ({"segmentation": [[1, 2, float("nan"), 3]]}, "ValueError: a corner lies nowhere"),
        ({"segmentation": [["a", "b"]]}, "ValueError: "),
    ],
)
def test_an_outline_that_cannot_be_drawn_is_refused_in_one_sentence(tmp_path, thing, said):
    with pytest.raises(BiaslibError, match=rf"The outlines of in/a\.jpg are not COCO's \({said}.*\): mend them\."):
        mask(tmp_path, thing)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"images": 3}, "TypeError"),
        ({"images": [{"id": 1}]}, "KeyError: 'file_name'"),
        ({"images": [{"id": 7, "file_name": "in/a.jpg", "width": 1e400, "height": 8}]}, "OverflowError"),
        ({"annotations": [{"image_id": 7, "category_id": 9}]}, "KeyError: 9"),
        ({"annotations": [{"image_id": 1, "category_id": 1}]}, "KeyError: 1"),
        (
            {"images": [{"id": 7, "file_name": name, "width": 10, "height": 8} for name in ("in/a.jpg", "b.jpg")]},
            "ValueError: the id 7 stands twice in images",
        ),
        (
            {"images": [{"id": at, "file_name": "./in/a.jpg", "width": 10, "height": 8} for at in (7, 8)]},
            "ValueError: the file_name in/a.jpg stands twice in images",
        ),
        (
            {"categories": [{"id": 1, "name": name} for name in ("lesion", "hair")]},
            "ValueError: the id 1 stands twice in categories",
        ),
        (
            {"annotations": [{"image_id": 7, "category_id": 1, "segmentation": {"size": [8, 10], "counts": "92?"}}]},
            "ValueError: runs are packed into text: unpack them with pycocotools",
        ),
    ],
)
def test_what_is_not_cocos_is_refused_in_one_sentence(tmp_path, changes, said):
    file = annotations(tmp_path, **changes)
    with pytest.raises(BiaslibError, match=rf"coco\.json is not in COCO's JSON \({said}.*: mend it, or give a folder"):
        read_outlines(file, ["in/a.jpg"])


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\x89PNG", b"[" * 100_000])
def test_another_file_is_refused_in_one_sentence(tmp_path, content):
    (tmp_path / "masks.json").write_bytes(content)
    with pytest.raises(BiaslibError, match=r"masks\.json is not in COCO's JSON"):
        find_masks(tmp_path / "masks.json", tmp_path, ["a.png"])


def test_an_outline_of_another_size_and_of_a_turned_picture_is_refused(tmp_path):
    file = annotations(tmp_path, {"bbox": [0, 0, 1, 1]})
    (tmp_path / "in").mkdir()
    Image.new("RGB", (9, 8)).save(tmp_path / "in" / "a.jpg")
    with pytest.raises(BiaslibError, match=r"1 of the masks are not as large .* \(in/a\.jpg 10 x 8 for 9 x 8\)"):
        find_masks(file, tmp_path, ["in/a.jpg"])
    exif = Image.Exif()
    exif[0x0112] = 3
    Image.new("RGB", (10, 8)).save(tmp_path / "in" / "a.jpg", exif=exif)
    with pytest.raises(BiaslibError, match="1 of the images are turned by their EXIF orientation"):
        find_masks(file, tmp_path, ["in/a.jpg"])


def test_a_value_of_label_maps_has_no_meaning_beside_outlines(tmp_path, refusal):
    labels = draw(tmp_path, n=4)
    images = [{"id": 0, "file_name": labels["file"][0], "width": 32, "height": 32}]
    file = annotations(tmp_path, {"image_id": 0, "bbox": [0, 0, 9, 9]}, images=images)
    said = refusal(tmp_path, model="tests.audit.subjects:biased", masks=file, mask_value=1, target="red", group="green")
    assert said == f"A mask value is for label maps, and {file} holds outlines: leave it out."


def test_an_audit_takes_outlines_as_it_takes_masks(tmp_path):
    labels = draw(tmp_path, n=80)
    images = [{"id": at, "file_name": name, "width": 32, "height": 32} for at, name in enumerate(labels["file"])]
    spots = [{"image_id": int(at), "bbox": [20, 24, 4, 4]} for at in np.flatnonzero(labels["red"] == 1)]
    file = annotations(tmp_path, *spots, images=images, categories=[{"id": 1, "name": "spot"}])
    given = {"labels": labels, "data": tmp_path / "images", "target": "green", "groups": "red", "permutations": 19}
    found, drawn = (
        audit.run(model=biased(), masks=masks, unwanted=["spot"], **given, **PLAIN)
        for masks in (file, tmp_path / "masks")
    )
    # the drawn masks of pictures without a spot are empty, and here there are none
    pd.testing.assert_frame_equal(found.tables["regions"], drawn.tables["regions"])
    assert [finding.of for finding in found.findings if finding.kind == "region"] == ["spot"]
    assert found.settings["masks"] == "spot (unwanted)"
    wider = [{**spot, "bbox": [20, 24, 5, 4]} for spot in spots]
    moved = annotations(tmp_path, *wider, images=images, categories=[{"id": 1, "name": "spot"}])
    assert audit.run(model=biased(), masks=moved, unwanted=["spot"], **given, **PLAIN).key != found.key
