"""What a figure, a table or an interactive piece becomes on a page: one self-sufficient stretch of HTML.

A matplotlib figure becomes SVG that belongs to its page: the page's ink, font and width, and no name that clashes.
"""

import base64
import hashlib
import html
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any
from xml.dom import minidom

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from PIL import Image

from biaslib.errors import BiaslibError
from biaslib.figures import theme
from biaslib.statistics import Interval

# A name given to an artist travels into the SVG as the id of its group; these two carry a message to `_rendered`.
_TOOLTIP = "biaslib-tip:"
SMOOTH = "biaslib-smooth"

_INKS = {theme.INK: "ink", to_hex("black"): "ink", theme.MUTED: "muted", theme.GRID: "grid", theme.PAPER: "paper"}
_HUES = {colour: name for name, colour in theme.COLOURS.items()}
_WORDS = {colour: f"{name}-label" for name, colour in theme.LABEL_COLOURS.items()}
_VARIABLES = {**_INKS, **_HUES, **_WORDS}
_SMALLEST_LETTERS = 9.0  # pixels, on a phone
_HEX = re.compile(r"#[0-9a-fA-F]{6}\b")
# matplotlib names its own font, in the long or in the short form
_FAMILY = re.compile(r"font-family: [^;]+;? ?")
_FONT = re.compile(r"font: ((?:[a-z]+ |\d+ )*)([\d.]+px) [^;]+")


@dataclass(frozen=True)
class HtmlFigure:
    """HTML for a notebook's output and for the book's page."""

    html: str  #: the whole piece, its style and script included; nothing in it needs a network or a kernel
    alt: str  #: what it shows, in words

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return f"[{self.alt}]"


def show(figure: Figure, *, alt: str, caption: str | None = None, name: str | None = None) -> HtmlFigure:
    """Puts a matplotlib figure on the page as inline SVG, and closes it; two renders are the same to the byte.

    A figure made by `new` follows the page's light and dark. `alt` is what a reader who cannot see it should know,
    `caption` the sentence under it, `name` an anchor that links can point to (`#name`). A `BiaslibError` is raised for
    an empty alt text or a name that is no anchor.
    """
    described = f'tabindex="0" role="img" aria-label="{html.escape(alt)}"'  # a phone scrolls it, also by its keys
    body = f'<div class="biaslib-scroll" {described}>{_rendered(figure, salt=f"{name}|{alt}")}</div>'
    if values := getattr(figure, "biaslib_values", []):
        body += download(pd.concat(values, ignore_index=True), name=name or "values")
    framed = frame(body, alt=alt, caption=caption, name=name, classes="biaslib-drawing", labelled=False)
    figure.clear()
    return HtmlFigure(framed, alt)


def tooltip(artist: Artist, text: str | Sequence[str]) -> None:
    """A text at an artist, or at each point of a scatter, while the pointer rests there; empty: a `BiaslibError`."""
    texts = text if isinstance(text, str) else list(text)
    if not texts or not all(texts):
        raise BiaslibError("a tooltip needs a text; leave the tooltip away where there is nothing to say.")
    artist.set_gid(_TOOLTIP + json.dumps(texts))


def frame(
    body: str,
    *,
    alt: str,
    caption: str | None,
    name: str | None = None,
    classes: str = "",
    kind: str = "",
    labelled: bool = True,
    sheets: tuple[str, ...] = ("figures.css",),
) -> str:
    """The `<figure>` around a piece, with style, caption and a text for who cannot see it, unless the body says it."""
    if not alt or not alt.strip():
        raise BiaslibError("alt must say what the figure shows; write the sentence you would say on the telephone.")
    mark = f"biaslib-caption-{_digest(body + (caption or ''))}"
    said = {"name": name and check_name(name), "caption": words(caption) if caption else "", "mark": mark}
    style = "".join(map(asset, sheets))
    template = theme.TEMPLATES.get_template("figure.html.j2")
    return template.render(body=body, alt=alt, kind=kind, classes=classes, labelled=labelled, style=style, **said)


def download(values: pd.DataFrame, *, name: str) -> str:
    """The link to a piece's raw values as a CSV file, in which an interval has a column for each of its parts."""
    raw: dict[str, list[Any]] = {}
    for i, column in enumerate(map(str, values.columns)):
        raw[column] = each = list(values.iloc[:, i])
        if any(isinstance(value, Interval) for value in each):
            for title, part in ((column, "estimate"), *((f"{column} {end}", end) for end in ("low", "high", "n"))):
                raw[title] = [getattr(value, part, None) for value in each]
    text = base64.b64encode(pd.DataFrame(raw).to_csv(index=False, lineterminator="\n").encode()).decode()
    address = f"data:text/csv;charset=utf-8;base64,{text}"
    link = f'href="{address}" download="{check_name(name)}.csv"'
    return f'<p class="biaslib-download"><a {link}>Values as a table (CSV)</a></p>'


def remember_values(figure: Figure, values: pd.DataFrame) -> None:
    """Keeps what a plot on this figure shows, for the table that `show` offers under it."""
    figure.biaslib_values = [*getattr(figure, "biaslib_values", []), values]  # type: ignore[attr-defined]


def words(text: str) -> str:
    """A caption as HTML: escaped, and what stands between backticks set as code."""
    shown = re.sub("`([^`]+)`", r"<code>\1</code>", html.escape(text))
    if raw_markup(shown):
        raise BiaslibError(f"the caption {text!r} holds a link or a lone backtick: name the page in words.")
    return shown


def raw_markup(text: str) -> bool:
    """Whether a text that is shown as it stands holds a backtick, or a link as Markdown writes it."""
    return "`" in text or "](" in text


def svg_file(framed: str) -> str | None:
    """The drawing of a piece as an SVG file of its own, in the colours of a light page; None where it is no drawing."""
    drawing = re.search(r"<svg .*?</svg>", framed, flags=re.DOTALL)
    if "biaslib-drawing" not in framed or drawing is None:
        return None
    fonts = "Inter, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"
    values = {"font": fonts, **{name: colour for colour, name in _VARIABLES.items() if colour != to_hex("black")}}
    text = re.sub(r"var\(--biaslib-([a-z-]+)\)", lambda match: values[match[1]], drawing[0])
    return text.replace("currentColor", theme.INK).replace("<svg ", f'<svg font-family="{fonts}" ', 1)


@cache
def asset(name: str) -> str:
    """A style sheet or script that lies beside this module, without the white space between its lines."""
    text = resources.files("biaslib.figures").joinpath(name).read_text(encoding="utf-8")
    if name == "figures.css":
        text = theme.css("figures") + text
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


def check_name(name: str) -> str:
    """The name, where it can be an anchor and a file name; a BiaslibError where not."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
        raise BiaslibError(f"name {name!r} must start with a letter and hold letters, digits, - and _ only.")
    return name


def data_uri(pixels: np.ndarray, *, lossless: bool = True) -> str:
    """(H, W), (H, W, 3) or (H, W, 4) uint8 as the data URI of a PNG, or of a small JPEG that is only looked at."""
    kind, options = ("png", {}) if lossless else ("jpeg", {"quality": 82, "subsampling": 0})
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format=kind, optimize=True, **options)
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def _rendered(figure: Figure, *, salt: str) -> str:
    """The figure as one `<svg>` for the inside of a page, the same bytes from the same figure and salt."""
    buffer = io.StringIO()
    with mpl.rc_context(theme.STYLE | {"svg.hashsalt": salt}):
        # the four entries would hold the date and matplotlib's address
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    # Without its document type: that one names an address, and nothing here may depend on one.
    source = re.sub(r"<!DOCTYPE[^>]*>", "", buffer.getvalue())
    root = minidom.parseString(source).documentElement
    assert root is not None
    # matplotlib's <style> speaks to every element of the page it lands in
    for node in [*root.getElementsByTagName("metadata"), *root.getElementsByTagName("style")]:
        _parent(node).removeChild(node)
    _add_tooltips(root)
    # pixels drawn as squares suit a 7 x 7 map and spoil a picture
    for image in root.getElementsByTagName("image"):
        if image.getAttribute("id").startswith(SMOOTH) or _parent(image).getAttribute("id").startswith(SMOOTH):
            image.removeAttribute("style")
    _follow_theme(root)
    return _flatten(root, prefix=f"b{_digest(salt + source)}-")


def _parent(node: minidom.Element) -> minidom.Element:
    assert isinstance(node.parentNode, minidom.Element)
    return node.parentNode


def _add_tooltips(root: minidom.Element) -> None:
    document = root.ownerDocument
    assert document is not None
    for group in root.getElementsByTagName("*"):
        tip = group.getAttribute("id")
        texts = json.loads(tip.removeprefix(_TOOLTIP)) if tip.startswith(_TOOLTIP) else []
        if isinstance(texts, str):
            marks, texts = [group], [texts]
        else:
            marks = [mark for mark in group.getElementsByTagName("*") if mark.tagName in ("use", "path")]
            marks = [mark for mark in marks if _parent(mark).tagName != "defs"] if texts else []
        for mark, text in zip(marks, texts, strict=True):
            title = document.createElement("title")
            title.appendChild(document.createTextNode(text))
            mark.insertBefore(title, mark.firstChild)


def _follow_theme(root: minidom.Element) -> None:
    def variable(match: re.Match[str]) -> str:
        name = _VARIABLES.get(match.group().lower())
        return f"var(--biaslib-{name})" if name else match.group()

    for node in root.getElementsByTagName("*"):
        style = node.getAttribute("style")
        if style:
            style = _FONT.sub(r"font: \1\2 var(--biaslib-font)", _FAMILY.sub("", style))
            node.setAttribute("style", _HEX.sub(variable, style))


def _flatten(root: minidom.Element, *, prefix: str) -> str:
    _, _, width, _ = root.getAttribute("viewBox").split()
    for name in {"width", "height", "version", "xmlns:xlink"} & set(root.attributes.keys()):
        root.removeAttribute(name)
    root.setAttribute("fill", "currentColor")  # matplotlib leaves black out: it is SVG's default
    root.setAttribute("aria-hidden", "true")  # the figure around it carries the text for those who cannot see it
    sizes = [float(size) for node in root.getElementsByTagName("text")
             for size in re.findall(r"([\d.]+)px", node.getAttribute("style"))]  # fmt: skip
    least = _SMALLEST_LETTERS * float(width) / min(sizes, default=_SMALLEST_LETTERS)
    root.setAttribute("style", f"--biaslib-width:{1.5 * float(width):.0f}px;--biaslib-least:{least:.0f}px")
    text = root.toxml().replace("xlink:href", "href").replace("base64, ", "base64,").replace("base64,\n", "base64,")
    text = re.sub(r' transform="rotate\(-?0 [^"]*"', "", text)
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', text))
    ids = {name: f' id="{prefix}{name}"' for name in used}
    text = re.sub(r'(<[^<>]*?) id="([^"]*)"', lambda match: match[1] + ids.get(match[2], ""), text)
    text = re.sub(r'(href="|url\()#', rf"\1#{prefix}", text)
    return re.sub(r">\s+<", "><", text)
