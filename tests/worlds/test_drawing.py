import numpy as np
import pytest

from biaslib.worlds import drawing


def test_coverage_by_hand():
    distance = np.array([-1.0, -0.25, 0.0, 0.1, 0.25, 3.0], np.float32)
    np.testing.assert_allclose(drawing.coverage(distance, 0.5), [1, 1, 0.5, 0.3, 0, 0], atol=1e-6)


@pytest.mark.parametrize("size", [32, 64, 200])
def test_a_disc_covers_its_exact_area_at_every_size(size):
    x, y = drawing.grid(size)
    radius = 0.31
    share = drawing.coverage(drawing.Frame(x, y).circle((0.47, 0.52), radius), 1 / size).mean()
    assert share == pytest.approx(np.pi * radius**2, rel=2e-3)


def test_an_ellipse_covers_its_exact_area_however_it_is_turned():
    x, y = drawing.grid(128)
    angles = drawing.column([0.0, 0.4, 1.3])
    distance = drawing.Frame(x, y).ellipse((0.5, 0.5), (drawing.column([0.35] * 3), drawing.column([0.15] * 3)), angles)
    share = drawing.coverage(distance, 1 / 128).mean(axis=(1, 2))
    np.testing.assert_allclose(share, np.pi * 0.35 * 0.15, rtol=5e-3)


def test_a_turned_ellipse_points_down_to_the_right_for_a_positive_angle():
    x, y = drawing.grid(64)
    one = drawing.column([1.0])
    inside = drawing.Frame(x, y).ellipse((0.5, 0.5), (0.4 * one, 0.1 * one), 0.7854 * one)[0] < 0
    assert inside[44, 44]
    assert not inside[20, 44]


def test_limb_is_the_distance_to_the_nearest_of_many_discs():
    x, y = drawing.grid(24)
    start, end, radius = (0.2, 0.7), (0.8, 0.3), 0.1
    distance, along = drawing.Frame(x, y).limb(start, end, (radius, radius))
    t = np.linspace(0, 1, 2001)[:, None, None]
    discs = np.hypot(x - (0.2 + 0.6 * t), y - (0.7 - 0.4 * t)) - radius
    np.testing.assert_allclose(distance[0], discs.min(axis=0), atol=1e-4)
    np.testing.assert_allclose(along[0], t[discs.argmin(axis=0), 0, 0], atol=1e-3)


def test_a_box_is_as_far_as_the_nearest_point_of_it_and_its_corners_are_round():
    x, y = np.float32([[0.5, 0.9, 0.9, 0.5, 0.68]]), np.float32([[0.5, 0.5, 0.7, 0.35, 0.57]])
    sharp = drawing.Frame(x, y).box((0.5, 0.5), (0.2, 0.1))
    np.testing.assert_allclose(sharp, [[-0.1, 0.2, np.hypot(0.2, 0.1), 0.05, -0.02]], atol=1e-6)
    round_ = drawing.Frame(x, y).box((0.5, 0.5), (0.2, 0.1), 0.1)
    np.testing.assert_allclose(
        round_, [[-0.1, 0.2, np.hypot(0.3, 0.2) - 0.1, 0.05, np.hypot(0.08, 0.07) - 0.1]], atol=1e-6
    )


def test_a_polygon_covers_its_exact_area():
    x, y = drawing.grid(128)
    share = drawing.coverage(drawing.Frame(x, y).polygon([(0.2, 0.1), (0.9, 0.3), (0.4, 0.8)]), 1 / 128).mean()
    area = 0.5 * abs((0.9 - 0.2) * (0.8 - 0.1) - (0.4 - 0.2) * (0.3 - 0.1))
    assert share == pytest.approx(area, rel=5e-3)


def test_join_is_the_union_away_from_the_crease_and_fills_it():
    a, b = np.array([-1.0, 0.3, 0.2]), np.array([1.0, 0.9, 0.2])
    np.testing.assert_allclose(drawing.join(a, b, 0.4), [-1.0, 0.3, 0.1])


def test_ramp_runs_both_ways():
    values = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(drawing.ramp(values, 1.0, 3.0), [0, 0, 0.5, 1, 1])
    np.testing.assert_allclose(drawing.ramp(values, 3.0, 1.0), [1, 1, 0.5, 0, 0])


def test_uniform_is_uniform_repeatable_and_differs_between_seeds_and_streams():
    seeds = np.arange(2000, dtype=np.uint32)
    a = drawing.uniform(seeds, 3, 16)
    assert a.min() >= 0
    assert a.max() < 1
    np.testing.assert_allclose(np.histogram(a, bins=10, range=(0, 1))[0] / a.size, 0.1, atol=0.01)
    np.testing.assert_array_equal(drawing.uniform(seeds[::-1], 3, 16)[::-1], a)
    # Neighbouring seeds, streams and places must not resemble each other.
    for other in (drawing.uniform(seeds + np.uint32(1), 3, 16), drawing.uniform(seeds, 4, 16), np.roll(a, 1, axis=1)):
        assert abs(np.corrcoef(a.ravel(), other.ravel())[0, 1]) < 0.03


def _slow_noise(seed: int, stream: int, x: float, y: float, cells: tuple[int, int]) -> float:
    columns, rows = cells
    knots = drawing.uniform(np.array([seed]), stream, (rows + 1) * (columns + 1)).reshape(columns + 1, rows + 1)
    i, j = int(x * columns), int(y * rows)
    s, t = ((v - int(v)) ** 2 * (3 - 2 * (v - int(v))) for v in (x * columns, y * rows))
    left = knots[i, j] * (1 - t) + knots[i, j + 1] * t
    right = knots[i + 1, j] * (1 - t) + knots[i + 1, j + 1] * t
    return left * (1 - s) + right * s


@pytest.mark.parametrize("per_picture", [False, True])
def test_noise_agrees_with_one_pixel_at_a_time(per_picture):
    seeds = np.array([5, 4_000_000_000], np.uint32)
    x, y = drawing.grid(12)
    if per_picture:
        y = y * drawing.column([1.0, 0.5])
    field = drawing.noise(seeds, 7, x, y, (5, 3))
    for n, row, col in ((0, 0, 0), (0, 11, 5), (1, 6, 11), (1, 2, 3)):
        expected = _slow_noise(seeds[n], 7, x[0, 0, col], y[n if per_picture else 0, row, 0], (5, 3))
        assert field[n, row, col] == pytest.approx(expected, abs=1e-5)


def test_clouds_stay_in_range_and_vary():
    x, y = drawing.grid(64)
    field = drawing.noise(np.arange(20), 1, x, y, (4, 4), 3)
    assert field.shape == (20, 64, 64)
    assert field.min() >= 0
    assert field.max() <= 1
    assert field.std() > 0.08


def test_paint_by_hand_and_rounding_to_bytes():
    canvas = np.zeros((1, 3, 1, 3), np.float32)
    drawing.paint(canvas, drawing.rgb((1.0, 0.5, 2.0)), np.array([[[0.0, 0.5, 1.0]]], np.float32))
    np.testing.assert_allclose(canvas[0, :, 0], [[0, 0.5, 1], [0, 0.25, 0.5], [0, 1, 2]])
    assert drawing.to_uint8(canvas)[0, 0].tolist() == [[0, 0, 0], [128, 64, 255], [255, 128, 255]]


@pytest.mark.parametrize(("n", "size"), [(0, 64), (1, 500), (77, 64), (33, 224)])
def test_chunks_cover_every_picture_once(n, size):
    assert [i for rows in drawing.chunks(n, size) for i in range(rows.start, rows.stop)] == list(range(n))
