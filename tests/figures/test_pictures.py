"""Plots of pictures: as many as were given, where they belong, on one stated scale."""

import re

import numpy as np
import pytest

from biaslib import figures
from biaslib.errors import BiaslibError
from biaslib.figures.pictures import _upsample as upsample

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 16, 16, 3), dtype=np.uint8)
MAPS = np.random.default_rng(1).random((5, 4, 4))
MASKS = np.zeros((5, 16, 16), dtype=bool)
MASKS[:4, 4:9, 4:9] = True  # the last image has no region


def test_a_contact_sheet_has_every_image_row_by_row():
    fig = figures.contact_sheet(IMAGES, columns=3, titles=list("abcde"))
    (ax,) = fig.axes
    assert len(ax.images) == 5
    assert [text.get_text() for text in ax.texts] == list("abcde")
    lefts = [image.get_extent()[0] for image in ax.images]
    assert lefts[:2] == lefts[3:]
    assert lefts[0] < lefts[1] < lefts[2]
    assert all(np.array_equal(image.get_array(), pixels) for image, pixels in zip(ax.images, IMAGES, strict=True))


def test_pictures_stand_upright_and_square_inside_the_figure():
    fig = figures.contact_sheet(IMAGES, columns=2)
    (ax,) = fig.axes
    for image in ax.images:
        left, right, bottom, top = image.get_extent()
        assert right - left == pytest.approx(bottom - top)  # y runs down: the top has the smaller number
        assert right <= ax.get_xlim()[1] + 1e-6
        assert bottom <= ax.get_ylim()[0] + 1e-6


def test_pictures_are_smooth_png_in_the_svg():
    html = figures.show(figures.contact_sheet(IMAGES, columns=5), alt="five").html
    assert html.count('href="data:image/png;base64,') == 5
    assert "pixelated" not in html


def test_maps_over_images_states_its_scale_and_outlines_masks():
    fig = figures.maps_over_images(IMAGES, MAPS, columns=5, masks=MASKS, label="relevance")
    (ax,) = fig.axes
    assert len(ax.images) == 5 + 1  # and the scale
    assert f"relevance: 0 to {MAPS.max():.2g}, one scale for all pictures" in [text.get_text() for text in ax.texts]
    html = figures.show(fig, alt="maps").html
    assert len(re.findall(r"stroke: #ffffff", html)) == 4


def test_overlay_keeps_the_image_where_the_map_is_zero_and_shows_the_limit_bright():
    heat = np.zeros((4, 4))
    assert np.array_equal(figures.overlay(IMAGES[0], heat, limit=1.0), IMAGES[0])
    bright = figures.overlay(IMAGES[0], heat + 1, limit=1.0, opacity=1.0)
    assert np.all(bright == bright[0, 0])
    assert np.array_equal(bright, figures.overlay(IMAGES[0], heat + 7, limit=1.0, opacity=1.0))
    assert np.array_equal(figures.overlay(IMAGES[0], heat, limit=0.0), IMAGES[0])


def test_upsampling_keeps_the_mean_and_the_place():
    large = upsample(MAPS[0], 16, 16)
    assert large.mean() == pytest.approx(MAPS[0].mean(), rel=0.02)
    assert np.unravel_index(large.argmax(), large.shape)[0] // 4 == np.unravel_index(MAPS[0].argmax(), (4, 4))[0]
    assert upsample(np.full((2, 2), np.nan), 4, 4).tolist() == np.zeros((4, 4)).tolist()


def test_a_strip_has_a_picture_for_every_setting_and_row():
    fig = figures.image_strip({"bird": IMAGES, "map": MAPS}, labels=["50", "60", "70", "80", "90"], axis_label="bias")
    (ax,) = fig.axes
    assert len(ax.images) == 10
    assert [text.get_text() for text in ax.texts] == ["50", "60", "70", "80", "90", "bias", "bird", "map"]


def test_a_strip_can_show_maps_as_their_cells():
    rough = (
        figures.image_strip_with_axes({"map": MAPS}, labels=list("abcde"), smooth=False)[0]
        .axes[0]
        .images[0]
        .get_array()
    )
    cells = np.asarray(rough).reshape(4, 24, 4, 24, 3)
    assert np.array_equal(cells, np.broadcast_to(cells[:, :1, :, :1], cells.shape))
    fine = figures.image_strip({"map": MAPS}, labels=list("abcde")).axes[0].images[0].get_array()
    assert len(np.unique(np.asarray(fine).reshape(-1, 3), axis=0)) > 16


def test_the_axes_under_a_strip_line_up_with_its_columns():
    fig, below = figures.image_strip_with_axes({"bird": IMAGES}, labels=list("abcde"))
    pictures = fig.axes[0]
    for k, image in enumerate(pictures.images):
        left, right, *_ = image.get_extent()
        centre = pictures.transData.transform(((left + right) / 2, 0))[0]
        assert centre == pytest.approx(below.transData.transform((k, 0))[0], abs=0.01)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: figures.contact_sheet(IMAGES[0], columns=2), "images"),
        (lambda: figures.contact_sheet(IMAGES[:0], columns=2), "images"),
        (lambda: figures.contact_sheet(IMAGES / 255, columns=2), "uint8"),
        (lambda: figures.contact_sheet(IMAGES, columns=0), "columns"),
        (lambda: figures.contact_sheet(IMAGES, columns=2, titles=["a"]), "titles"),
        (lambda: figures.maps_over_images(IMAGES, MAPS[:2], columns=2), "maps"),
        (lambda: figures.maps_over_images(IMAGES, MAPS - 1, columns=2), ">= 0"),
        (lambda: figures.maps_over_images(IMAGES, MAPS, columns=2, masks=MASKS[:, :4]), "masks"),
        (lambda: figures.maps_over_images(IMAGES, MAPS, columns=2, masks=MASKS * 1.0), "bool"),
        (lambda: figures.image_strip({}, labels=["a"]), "row"),
        (lambda: figures.image_strip({"bird": IMAGES}, labels=["a"]), "'bird'"),
    ],
)
def test_a_wrong_shape_is_named(call, message):
    with pytest.raises(BiaslibError, match=message):
        call()


def test_two_renders_of_a_sheet_are_the_same_to_the_byte():
    htmls = {figures.show(figures.contact_sheet(IMAGES, columns=3), alt="five").html for _ in range(2)}
    assert len(htmls) == 1
