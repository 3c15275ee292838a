"""Plots of pictures: contact sheets, maps over images, strips along a dial."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from biaslib.errors import BiaslibError, check_number, refused
from biaslib.figures import theme
from biaslib.figures.pieces import SMOOTH

_WIDTH = theme.WIDTH * 72  # of a figure, in points
_GAP = 4.0  # points between two pictures
_LINE = 14.0  # points that a line of words takes
_PLOT = 0.3 * _WIDTH  # height of a plot under a strip of pictures, in points
_BESIDE = (34.0, 112.0)  # points left of it, for numbers, and right, for the names of lines


def contact_sheet(images: np.ndarray, *, columns: int, titles: Sequence[str] | None = None) -> Figure:
    """All images, (N, H, W, 3) uint8, in rows of `columns`, with N `titles` over them; others are a `BiaslibError`."""
    return _sheet(list(check_images(images)), columns=columns, titles=titles, foot=0.0)[0]


def maps_over_images(
    images: np.ndarray,
    maps: np.ndarray,
    *,
    columns: int,
    titles: Sequence[str] | None = None,
    masks: np.ndarray | None = None,
    label: str = "attention",
) -> Figure:
    """Each image (N, H, W, 3) uint8 under its map: dark and clear where that is 0, bright and dense where it is large.

    One scale for all pictures, stated under them with a `label` of what the maps measure: the largest value of all is
    the brightest. Maps are (N, h, w), >= 0, upsampled bilinearly; NaN counts as 0. There are `columns` >= 1 pictures in
    a row, with one of N `titles` over each; the outlines of `masks` (N, H, W) bool are drawn in white. A `BiaslibError`
    is raised for shapes that do not fit, negative maps, columns below 1, or titles that are not N.
    """
    images = check_images(images)
    maps = check_maps(maps, len(images))
    top = float(np.nanmax(maps, initial=0.0))
    pictures = [overlay(image, heat, limit=top) for image, heat in zip(images, maps, strict=True)]
    figure, ax, corners, (w, h) = _sheet(pictures, columns=columns, titles=titles, foot=_LINE + 8)
    for mask, (x, y) in zip([] if masks is None else check_masks(masks, images), corners, strict=False):
        if mask.any() and not mask.all():
            xs, ys = ((np.arange(n) + 0.5) / n for n in reversed(mask.shape))
            ax.contour(x + xs * w, y + ys * h, mask.astype(float), levels=[0.5], colors=["white"], linewidths=0.9)
    bottom = figure.get_figheight() * 72
    # the picture of the scale shows what a value looks like where it is drawn, not what it hides
    _put(ax, np.linspace(0, 1, 64)[None], 0, bottom - _LINE + 2, 90, 8)
    _say(ax, 98, bottom - 1.5, f"{label}: 0 to {top:.2g}, one scale for all pictures")
    return figure


def image_strip(
    rows: Mapping[str, np.ndarray],
    *,
    labels: Sequence[str],
    axis_label: str = "",
    smooth: bool = True,
    margins: tuple[float, float] = (0.0, 0.0),
    foot: float = 0.0,
) -> Figure:
    """Pictures along a dial: one column a setting, one row a subject.

    `rows` are the words over each row and its K pictures: images (K, H, W, 3) uint8, or maps (K, h, w), >= 0, on one
    scale in their row, which `smooth=False` shows as the square cells they are made of. Over each column stands one of
    K `labels`, over these `axis_label`, what the dial is. `margins` are empty points left and right, `foot` below. A
    `BiaslibError` is raised for no row, or a row that does not have K pictures.
    """
    if not rows:
        raise BiaslibError("a strip needs at least one row of pictures.")
    checked = {name: _check_row(name, row, len(labels), smooth) for name, row in rows.items()}
    left, right = margins
    step = (_WIDTH - left - right) / len(labels)
    w = step - _GAP
    heights = [w * row.shape[1] / row.shape[2] for row in checked.values()]
    head = _LINE + 4 + (_LINE if axis_label else 0)
    total = head + sum(h + _LINE + 8 for h in heights) + foot
    figure, ax = _canvas(total)
    for k, label in enumerate(labels):
        _say(ax, left + k * step + step / 2, head - 4, label, ha="center", color=theme.INK, fontsize=10.0)
    if axis_label:
        _say(ax, left + _GAP / 2, _LINE, axis_label)
    y = head
    for (name, row), h in zip(checked.items(), heights, strict=True):
        _say(ax, left + _GAP / 2, y + _LINE, name)
        for k, picture in enumerate(row):
            _put(ax, picture, left + k * step + _GAP / 2, y + _LINE + 3, w, h)
        y += h + _LINE + 8
    return figure


def image_strip_with_axes(
    rows: Mapping[str, np.ndarray], *, labels: Sequence[str], **strip: Any
) -> tuple[Figure, Axes]:
    """An `image_strip`, with its options, over empty axes, given too, whose x = 0 ... K-1 are its columns' centres."""
    left, right = _BESIDE
    figure = image_strip(rows, labels=labels, margins=_BESIDE, foot=_PLOT + 48, **strip)
    total = figure.get_figheight() * 72
    place = (left / _WIDTH, 22 / total, (_WIDTH - left - right) / _WIDTH, _PLOT / total)
    with mpl.rc_context(theme.STYLE):
        ax = figure.add_axes(place, axes_class=theme.HouseAxes)
    ax.set_xlim(-0.5, len(labels) - 0.5)
    ax.set_xticks(range(len(labels)), list(labels))
    ax.grid(axis="x", visible=False)
    return figure, ax


def overlay(image: np.ndarray, heat: np.ndarray, *, limit: float, opacity: float = 0.85, times: int = 1) -> np.ndarray:
    """One image (H, W, 3) uint8 under one map (h, w), as (times H, times W, 3) uint8; `limit` is shown brightest."""
    height, width = image.shape[0] * times, image.shape[1] * times
    base = np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.BICUBIC), dtype=np.float32)
    share = np.clip(_upsample(heat, height, width) / limit if limit > 0 else np.zeros((height, width)), 0, 1)
    colour = mpl.colormaps[theme.HEAT](share)[..., :3] * 255
    weight = (opacity * share**0.7)[..., None]
    return (base * (1 - weight) + colour * weight + 0.5).astype(np.uint8)


def _upsample(heat: np.ndarray, height: int, width: int) -> np.ndarray:
    """A map (h, w) at (height, width), bilinear between the centres of its cells; NaN counts as 0."""
    cells = Image.fromarray(np.nan_to_num(heat, nan=0.0).astype(np.float32))
    return np.asarray(cells.resize((width, height), Image.Resampling.BILINEAR))


def check_images(images: np.ndarray) -> np.ndarray:
    """The images, where they are (N, H, W, 3) uint8 and at least one; a BiaslibError where not."""
    images = np.asarray(images)
    if images.ndim != 4 or images.shape[-1] != 3 or images.dtype != np.uint8 or len(images) == 0:
        raise refused("arrays that are no images", dtype=images.dtype, shape=images.shape)
    return images


def check_maps(maps: np.ndarray, *leading: int) -> np.ndarray:
    """The maps as floats, where they are (*leading, h, w) and nowhere negative; a BiaslibError where not."""
    maps = theme.as_float(maps, "maps")
    if maps.ndim != len(leading) + 2 or maps.shape[: len(leading)] != leading:
        raise BiaslibError(f"maps must have shape ({', '.join(map(str, leading))}, h, w), not {maps.shape}.")
    if (maps < 0).any():
        raise BiaslibError("maps must be >= 0 to be shown as heat; take their positive part or their square first.")
    return maps


def check_masks(masks: np.ndarray, images: np.ndarray) -> np.ndarray:
    """The masks, where they are bool and of the images' size; a BiaslibError where not."""
    masks = np.asarray(masks)
    if masks.shape != images.shape[:3] or masks.dtype != np.bool_:
        raise refused("arrays that are no masks", shape=images.shape[:3], dtype=masks.dtype, found=masks.shape)
    return masks


def check_titles(titles: Sequence[str] | None, default: Sequence[str]) -> list[str]:
    """The titles, where there is one for each default, or these; a BiaslibError where not."""
    titles = default if titles is None else titles
    if len(titles) != len(default):
        raise BiaslibError(f"{len(default)} pictures but {len(titles)} titles: give one for each.")
    return list(map(str, titles))


@mpl.rc_context(theme.STYLE)
def _canvas(height: float) -> tuple[Figure, Axes]:
    """A figure `height` points high, and axes over all of it whose unit is the point and whose y runs down."""
    figure = Figure(figsize=(_WIDTH / 72, height / 72))
    ax = figure.add_axes((0, 0, 1, 1), xlim=(0, _WIDTH), ylim=(height, 0))
    theme.bare(ax)
    return figure, ax


def _put(ax: Axes, picture: np.ndarray, x: float, y: float, w: float, h: float) -> None:
    limits = ax.get_xlim(), ax.get_ylim()
    image = ax.imshow(picture, extent=(x, x + w, y + h, y), interpolation="none", aspect="auto", cmap=theme.HEAT)
    image.set_gid(SMOOTH)
    ax.set(xlim=limits[0], ylim=limits[1])


@mpl.rc_context(theme.STYLE)
def _say(ax: Axes, x: float, y: float, text: str, **style: Any) -> None:
    ax.text(x, y, text, **{"color": theme.MUTED, "fontsize": 9.0, "va": "bottom", **style})


def _sheet(
    pictures: list[np.ndarray], *, columns: int, titles: Sequence[str] | None, foot: float
) -> tuple[Figure, Axes, list[tuple[float, float]], tuple[float, float]]:
    check_number("columns", columns, 1, whole=True)
    words = check_titles(titles, [""] * len(pictures))
    head = _LINE + 2 if titles is not None else 0.0
    w = (_WIDTH - _GAP * (columns - 1)) / columns
    h = w * pictures[0].shape[0] / pictures[0].shape[1]
    lines = -(-len(pictures) // columns)
    figure, ax = _canvas(lines * (h + head + _GAP) - _GAP + foot)
    corners = [((i % columns) * (w + _GAP), (i // columns) * (h + head + _GAP) + head) for i in range(len(pictures))]
    for picture, title, (x, y) in zip(pictures, words, corners, strict=True):
        _put(ax, picture, x, y, w, h)
        _say(ax, x, y - 3, title)
    return figure, ax, corners, (w, h)


def _check_row(name: str, row: np.ndarray, n: int, smooth: bool) -> np.ndarray:
    """The row's images; of maps pictures about 96 pixels high, smooth between the cells' centres or in squares."""
    row = np.asarray(row)
    if len(row) != n:
        raise BiaslibError(f"row {name!r} has {len(row)} pictures but there are {n} labels: give one for each.")
    if row.ndim == 3:
        maps = np.nan_to_num(check_maps(row, n))
        shares = maps / (maps.max(initial=0.0) or 1.0)
        if smooth:
            width = round(96 * maps.shape[2] / maps.shape[1])
            fine = np.stack([_upsample(share, 96, width) for share in shares])
        else:
            times = -(-96 // maps.shape[1])
            fine = shares.repeat(times, axis=1).repeat(times, axis=2)
        return (mpl.colormaps[theme.HEAT](np.clip(fine, 0, 1))[..., :3] * 255 + 0.5).astype(np.uint8)
    return check_images(row)
