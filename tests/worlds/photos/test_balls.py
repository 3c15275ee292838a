"""Balls in photos: free places, exact masks, nothing changed elsewhere."""

import numpy as np
import pandas as pd
import pytest

from biaslib.errors import BiaslibError
from biaslib.samples import Samples
from biaslib.worlds import photos
from biaslib.worlds.photos.balls import GAP, RADIUS


def some_photos(n=6, size=48, seed=0):
    """Noise with a box in it, somewhere."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (n, size, size, 3), dtype=np.uint8)
    masks = np.zeros((n, size, size), bool)
    for mask in masks:
        top, left = rng.integers(0, size // 2, 2)
        mask[top : top + size // 2, left : left + size // 3] = True
    return Samples(images, pd.DataFrame({"cat": np.arange(n) % 2 == 0}), {"animal": masks})


def test_a_ball_never_overlaps_and_never_leaves_the_picture():
    samples = some_photos(n=60)
    occupied = samples.masks["animal"]
    table = photos.plain_corners(samples.images, occupied=occupied, seed=3, radius=(0.1, 0.2))
    free = table["ball_x"].notna().to_numpy()
    assert 0 < free.sum() < 60
    assert table[~free][["ball_x", "ball_y", "ball_size"]].isna().all(axis=None)
    placed = table[free]
    assert placed["ball_size"].between(0.1, 0.2).all()
    for side in ("ball_x", "ball_y"):
        assert (placed[side] - placed["ball_size"] >= GAP - 1e-9).all()
        assert (placed[side] + placed["ball_size"] <= 1 - GAP + 1e-9).all()
    drawn, ball = photos.put(samples.images[free], placed, keep=occupied[free])
    assert not (ball & occupied[free]).any()
    assert ball.any(axis=(1, 2)).all()
    np.testing.assert_array_equal(drawn[occupied[free]], samples.images[occupied & free[:, None, None]])


def test_the_place_in_a_photo_depends_on_the_seed_and_the_photo_only():
    samples = some_photos()
    table = photos.plain_corners(samples.images, seed=3)
    pd.testing.assert_frame_equal(table, photos.plain_corners(samples.images, seed=3))
    other = samples.images.copy()
    other[1] = other[1, ::-1]
    changed = photos.plain_corners(other, seed=3)
    pd.testing.assert_frame_equal(table.drop(index=1), changed.drop(index=1))
    assert not np.allclose(table["ball_x"], photos.plain_corners(samples.images, seed=4)["ball_x"])


def test_the_ball_is_a_disc_and_nothing_changes_farther_than_its_shadow():
    size = 96
    images = np.full((1, size, size, 3), 120, np.uint8)
    row = {"ball_kind": 2, "ball_x": 0.4, "ball_y": 0.6, "ball_size": 0.12, "ball_seed": 5}
    drawn, ball = photos.put(images, pd.DataFrame([row]))
    x, y = (np.arange(size) + 0.5)[None] / size, (np.arange(size) + 0.5)[:, None] / size
    away = np.hypot(x - 0.4, y - 0.6)
    assert ball[0][away < 0.12 * 0.96 - 0.01].all()
    assert not ball[0][away > 0.12].any()
    assert ball.sum() == pytest.approx(np.pi * (0.96 * 0.12 * size) ** 2, rel=0.03)
    changed = (drawn[0] != images[0]).any(axis=-1)
    assert not changed[away > 1.5 * 0.12 + 1 / size].any()
    beside_shadow = changed & ~ball[0]
    assert (drawn[0][beside_shadow & (y > 0.73)] <= 120).all()  # the ground gets darker, never brighter
    assert beside_shadow[(y > 0.7) & (x > 0)].sum() > 20


def test_a_ball_is_darker_in_a_dark_photo():
    row = {"ball_kind": 1, "ball_x": 0.5, "ball_y": 0.5, "ball_size": 0.2, "ball_seed": 1}
    means = []
    for grey in (5, 250):
        drawn, ball = photos.put(np.full((1, 64, 64, 3), grey, np.uint8), pd.DataFrame([row]))
        means.append(drawn[ball].mean())
    assert means[0] < 0.85 * means[1]


def test_insert_balls_keeps_the_others_as_they_are_and_gives_exact_masks_and_boxes():
    samples = some_photos()
    where = samples.labels["cat"].to_numpy()
    planted = photos.insert_balls(samples, where, seed=1)
    np.testing.assert_array_equal(planted.images[~where], samples.images[~where])
    assert planted.labels["ball"].tolist() == where.tolist()
    assert planted.masks["ball"].any(axis=(1, 2)).tolist() == where.tolist()
    total = sum(planted.masks[region].astype(int) for region in ("animal", "ball", "background"))
    assert (total == 1).all()
    everywhere = photos.insert_balls(samples, np.ones(6, bool), seed=1)
    np.testing.assert_array_equal(everywhere.images[where], planted.images[where])
    boxes = photos.boxes_of_masks(planted.masks["ball"])
    assert np.isnan(boxes[~where]).all()
    inside = photos.masks_of_boxes(boxes[where], 48)
    assert (inside | ~planted.masks["ball"][where]).all()


def test_a_photo_without_room_is_counted_and_named():
    samples = some_photos()
    full = samples.masks["animal"].copy()
    full[[2, 4]] = True
    crowded = Samples(samples.images, samples.labels, {"animal": full})
    with pytest.raises(
        BiaslibError, match=r"2 of 3 photos have no corner .* 'animal' \(rows 2, 4\): allow smaller balls"
    ):
        photos.insert_balls(crowded, samples.labels["cat"].to_numpy())
    photos.insert_balls(crowded, ~samples.labels["cat"].to_numpy())  # dogs have room


def test_plain_corners_choose_the_corner_without_pattern():
    size = 64
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (3, size, size, 3), dtype=np.uint8)
    corners = [(0, 0), (0, 1), (1, 1)]
    for image, (right, low) in zip(images, corners, strict=True):
        rows, columns = (slice(32, 64) if low else slice(0, 32)), (slice(32, 64) if right else slice(0, 32))
        image[rows, columns] = 90
    table = photos.plain_corners(images, seed=2)
    assert [(int(x > 0.5), int(y > 0.5)) for x, y in zip(table["ball_x"], table["ball_y"], strict=True)] == corners
    photos.put(images, table)  # all inside
    occupied = np.zeros((3, size, size), bool)
    occupied[0, :40, :40] = True  # the plainest corner, and a little of both beside it
    occupied[1] = True
    free = photos.plain_corners(images, occupied=occupied, seed=2)
    assert tuple(free.loc[0, ["ball_x", "ball_y"]] > 0.5) != corners[0]
    assert free["ball_x"].isna().tolist() == [False, True, False]
    assert free.loc[2].equals(table.loc[2])
    _, ball = photos.put(images[:1], free[:1])
    assert not (ball & occupied[:1]).any()


BALL = {"ball_kind": 0, "ball_x": 0.5, "ball_y": 0.5, "ball_size": 0.1, "ball_seed": 0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ball_size": 0.45, "ball_x": 0.3}, r"the ball of row 0 \(radius 0.45 around 0.3, 0.5\) is not inside"),
        ({"ball_size": 0.7}, r"'ball_size' must be a number in \[0.01, 0.5\]"),  # larger than the picture
        ({"ball_x": np.nan}, "'ball_x' must be a number"),
        ({"ball_kind": 9}, "'ball_kind' must be a whole number"),
    ],
)
def test_impossible_balls_are_refused(change, message):
    with pytest.raises(BiaslibError, match=message):
        photos.put(np.zeros((1, 32, 32, 3), np.uint8), pd.DataFrame([BALL | change]))


def test_wrong_inputs_get_one_clear_sentence():
    samples = some_photos()
    yes = np.ones(6, bool)
    with pytest.raises(BiaslibError, match="no mask 'dog' to keep the ball away from"):
        photos.insert_balls(samples, yes, beside="dog")
    with pytest.raises(BiaslibError, match="there are no masks at all"):
        photos.insert_balls(Samples(samples.images, samples.labels), yes)
    with pytest.raises(BiaslibError, match="where must be 6 bools"):
        photos.insert_balls(samples, yes[:3])
    with pytest.raises(BiaslibError, match="these are 32 x 40: resize or"):
        photos.put(np.zeros((1, 32, 40, 3), np.uint8), pd.DataFrame([BALL]))
    with pytest.raises(BiaslibError, match="6 pictures but 1 balls"):
        photos.put(samples.images, pd.DataFrame([BALL]))
    for options, message in (
        ({"radius": (0.2, 0.1)}, "smallest <= largest"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
    ):
        with pytest.raises(BiaslibError, match=message):
            photos.plain_corners(samples.images, **options)
    assert RADIUS[0] < RADIUS[1]
    assert GAP > 0


def test_boxes_and_masks_by_hand():
    masks = np.zeros((2, 4, 4), bool)
    masks[0, 1:3, 2] = True
    boxes = photos.boxes_of_masks(masks)
    np.testing.assert_array_equal(boxes[0], [0.5, 0.25, 0.75, 0.75])
    assert np.isnan(boxes[1]).all()
    np.testing.assert_array_equal(photos.masks_of_boxes(boxes[:1], 4)[0], masks[0])
    touched = photos.masks_of_boxes(np.array([[0.3, 0.3, 0.6, 0.4]]), 4)[0]  # parts of pixels count
    assert touched.sum() == 2
    for wrong in ([[0.5, 0.2, 0.4, 0.6]], [[0, 0, 1.2, 1]], [[np.nan] * 4]):
        with pytest.raises(BiaslibError, match="row 0 is"):
            photos.masks_of_boxes(np.array(wrong), 4)
    with pytest.raises(BiaslibError, match=r"shape \(N, 4\)"):
        photos.masks_of_boxes(np.zeros((2, 3)), 4)
