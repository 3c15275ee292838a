"""Pieces a reader can move in the finished page: no kernel, no network, a picture for readers without scripts."""

import base64
import html
import json
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np

from biaslib.errors import BiaslibError
from biaslib.figures import theme
from biaslib.figures.pictures import check_images, check_maps, check_masks, check_titles, overlay
from biaslib.figures.pieces import HtmlFigure, asset, data_uri, frame

_SCRIPTS = {"explorer": ["page", "explorer"], "dial": ["page", "dial"]}
_SCRIPTS["map-editor"] = ["page", "attention_iou", "map_editor"]
_COLUMNS = 6  # pictures of a dial in a row; a phone shows four at most


def explorer(
    images: np.ndarray,
    maps: np.ndarray,
    *,
    settings: Sequence[str],
    setting_name: str = "bias",
    masks: np.ndarray | None = None,
    mask_name: str = "mask",
    table: Mapping[str, np.ndarray] | None = None,
    titles: Sequence[str] | None = None,
    alt: str,
    caption: str | None = None,
) -> HtmlFigure:
    """Image by image: a slider over the settings, the image under its map, the mask's outline, the image's numbers.

    `images` (N, H, W, 3) uint8 are embedded once, lossless. `maps` are (S, N, h, w), >= 0, one for every setting and
    image, kept to 8 bits, each map's maximum being the brightest; NaN counts as 0. `settings` are S words for the
    slider's stops ("50 %" ... "100 %"); `setting_name` says what it sets. The outline of `masks` (N, H, W) bool, which
    mark what `mask_name` says ("bird"), can be switched on and off. `table` names (S, N) numbers shown beside the
    image; NaN reads "n/a". Each image has one of N `titles`. `alt` and `caption` are as for `show`. A `BiaslibError`
    is raised for shapes that do not fit, negative maps, or an empty alt text.
    """
    images = check_images(images)
    levels = _quantise(check_maps(maps, len(settings), len(images)))
    words = check_titles(titles, [f"image {i + 1}" for i in range(len(images))])
    data = {
        "images": data_uri(np.concatenate(list(images))),
        "size": images.shape[1:3],
        "maps": _base64(levels),
        "grid": levels.shape[2:],
        "masks": None if masks is None else _base64(np.packbits(check_masks(masks, images))),
        "mask_name": mask_name,
        "settings": list(map(str, settings)),
        "setting_name": setting_name,
        "titles": words,
        "table": _readout(table or {}, (len(settings), len(images))),
        "lut": _base64(_lut()),
    }
    first = overlay(images[0], levels[0, 0].astype(float), limit=255.0, opacity=0.8, times=4)
    shown = f"{words[0]} with its map at {setting_name} {settings[0]}"
    return _piece("explorer", data, data_uri(first, lossless=False), shown, alt=alt, caption=caption)


def dial(
    images_by_setting: np.ndarray,
    settings: Sequence[str],
    *,
    setting_name: str = "bias",
    notes: Sequence[str] | None = None,
    alt: str,
    caption: str | None = None,
    name: str | None = None,
) -> HtmlFigure:
    """A contact sheet whose pictures change with a slider: the same rows at another strength, or on another ground.

    `images_by_setting` is (S, N, H, W, 3) uint8, embedded as one JPEG a setting, for looking at. `settings` are S words
    for the slider's stops, of which it opens on the first; `setting_name` says what it sets. Of S `notes` one stands
    under the slider. `alt`, `caption`, `name` are as for `show`. Shapes that do not fit, or no alt: a `BiaslibError`.
    """
    frames = np.asarray(images_by_setting)
    if frames.ndim != 5 or len(frames) != len(settings) or len(frames) == 0:
        raise BiaslibError(f"images_by_setting must have shape ({len(settings)}, N, H, W, 3), not {frames.shape}.")
    if notes is not None and len(notes) != len(settings):
        raise BiaslibError(f"{len(settings)} settings but {len(notes)} notes: give one for each.")
    columns = min(_COLUMNS, frames.shape[1])
    sheets = [data_uri(_sheet(check_images(images), columns), lossless=False) for images in frames]
    data = {
        "sheets": sheets,
        "size": frames.shape[2:4],
        "columns": columns,
        "pictures": frames.shape[1],
        "settings": list(map(str, settings)),
        "setting_name": setting_name,
        "notes": list(notes or []),
    }
    shown = f"{alt} {setting_name}: {settings[0]}."
    return _piece("dial", data, sheets[0], shown, alt=alt, caption=caption, name=name)


def map_editor(*, caption: str | None = None, name: str | None = None) -> HtmlFigure:
    """Two 7 x 7 maps to paint, with Attention-IoU, its parts and invariances as they change; options as for `show`."""
    y, x = np.mgrid[:7, :7] - 3.0
    blobs = np.stack([np.exp(-(y**2 + (x - shift) ** 2) / (2 * 1.2**2)) for shift in (0.0, 1.0)])
    blobs = np.where(blobs < 0.03, 0.0, blobs.round(2))
    data = {"size": 7, "a": blobs[0].ravel().tolist(), "m": blobs[1].ravel().tolist(), "lut": _base64(_lut())}
    first, second = _lut()[_quantise(blobs)]
    pair = np.concatenate([first, np.full((7, 1, 3), 127, np.uint8), second], axis=1)
    picture = data_uri(pair.repeat(24, axis=0).repeat(24, axis=1))
    alt = "Two maps that can be painted, with their Attention-IoU, its parts and its invariances."
    return _piece("map-editor", data, picture, "The two maps.", alt=alt, caption=caption, name=name)


def _piece(kind: str, data: Mapping[str, Any], picture: str, shown: str, *, alt: str, **around: Any) -> HtmlFigure:
    # a "<" inside the data would end the script that carries it
    text = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    body = (
        f'<div class="biaslib-fallback"><img class="dark-light" src="{picture}" alt="{html.escape(shown)}">'
        f'<p class="biaslib-note">Its controls need a browser that runs scripts.</p></div>'
        f'<script type="application/json" class="biaslib-data">{text}</script>'
    )
    framed = frame(body, alt=alt, kind=kind, sheets=("figures.css", "interactive.css"), **around)
    return HtmlFigure(framed + "".join(f"<script>{asset(f'{name}.js')}</script>" for name in _SCRIPTS[kind]), alt)


def _quantise(maps: np.ndarray) -> np.ndarray:
    known = np.nan_to_num(maps)
    top = known.max(axis=(-2, -1), keepdims=True)
    return np.rint(255 * known / np.where(top > 0, top, 1)).astype(np.uint8)


def _readout(table: Mapping[str, np.ndarray], shape: tuple[int, int]) -> list[dict[str, Any]]:
    rows = []
    for name, given in table.items():
        values = theme.as_float(given, name)
        if values.shape != shape:
            raise BiaslibError(f"table entry {name!r} must have shape {shape}, not {values.shape}.")
        known = values[np.isfinite(values)].tolist()
        # shares and probabilities are drawn on 0 ... 1, so that a small change looks small
        limits = [0.0, 1.0] if all(0 <= value <= 1 for value in known) else [min(known), max(known)]
        listed = np.where(np.isfinite(values), values.round(6), np.array(None)).tolist()
        rows.append({"name": name, "values": listed, "range": limits})
    return rows


def _sheet(images: np.ndarray, columns: int) -> np.ndarray:
    """All images side by side, row by row, black where the last row has none."""
    _, height, width, _ = images.shape
    cells = np.pad(images, [(0, -len(images) % columns), (0, 0), (0, 0), (0, 0)])
    return cells.reshape(-1, columns, height, width, 3).swapaxes(1, 2).reshape(-1, columns * width, 3)


def _lut() -> np.ndarray:
    return (mpl.colormaps[theme.HEAT](np.arange(256))[:, :3] * 255 + 0.5).astype(np.uint8)


def _base64(values: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()
