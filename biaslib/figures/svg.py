"""From a matplotlib figure to SVG that belongs to its page: its ink, its font, its width, no name that clashes."""

import hashlib
import io
import json
import re
from collections.abc import Sequence
from xml.dom import minidom

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.figure import Figure

from biaslib.errors import BiaslibError
from biaslib.figures import theme

# A name given to an artist travels into the SVG as the id of its group; these two carry a message to `render`.
TOOLTIP = "biaslib-tip:"
SMOOTH = "biaslib-smooth"

_INKS = {theme.INK: "ink", "#000000": "ink", theme.MUTED: "muted", theme.GRID: "grid", theme.PAPER: "paper"}
_HUES = {colour: name for name, colour in theme.COLOURS.items()}
_WORDS = {colour: f"{name}-label" for name, colour in theme.LABEL_COLOURS.items()}
_VARIABLES = {**_INKS, **_HUES, **_WORDS}
_HEX = re.compile(r"#[0-9a-fA-F]{6}\b")
# matplotlib names its own font, in the long or in the short form
_FAMILY = re.compile(r"font-family: [^;]+;? ?")
_FONT = re.compile(r"font: ((?:[a-z]+ |\d+ )*)([\d.]+px) [^;]+")


def tooltip(artist: Artist, text: str | Sequence[str]) -> None:
    """Shows a text while the pointer rests on an artist (an SVG `<title>`).

    Args:
        artist: anything that `show` will draw.
        text: one text; for a collection (scatter) also one text for every point, in the points' order.

    Raises:
        BiaslibError: for an empty text.
    """
    texts = [text] if isinstance(text, str) else list(text)
    if not texts or not all(texts):
        raise BiaslibError("a tooltip needs a text; leave the tooltip away where there is nothing to say.")
    artist.set_gid(TOOLTIP + json.dumps(texts if not isinstance(text, str) else text))


def render(figure: Figure, *, salt: str) -> str:
    """The figure as one `<svg>` element for the inside of a page; the same figure and salt give the same bytes.

    Colours of the theme and black become CSS variables (`--biaslib-ink`, `--biaslib-blue`, ...), fonts the page's own,
    the size a viewBox. Every id that is referred to carries the figure's own prefix; every other one is dropped.
    """
    buffer = io.StringIO()
    with mpl.rc_context(theme.STYLE | {"svg.hashsalt": salt}):
        # the four entries would hold the date and matplotlib's address
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    # Without its document type: that one names an address, and nothing here may depend on one.
    source = re.sub(r"<!DOCTYPE[^>]*>", "", buffer.getvalue())
    root = minidom.parseString(source).documentElement
    assert root is not None
    _drop(root, "metadata", "style")
    _add_tooltips(root)
    _soften_images(root)
    _follow_theme(root)
    _rename(root, prefix="b" + hashlib.sha256((salt + source).encode()).hexdigest()[:10] + "-")
    return _flatten(root)


def _elements(root: minidom.Element) -> list[minidom.Element]:
    return [root, *root.getElementsByTagName("*")]


def _drop(root: minidom.Element, *names: str) -> None:
    # matplotlib's <style> speaks to every element of the page it lands in
    for name in names:
        for node in list(root.getElementsByTagName(name)):
            _parent(node).removeChild(node)


def _parent(node: minidom.Element) -> minidom.Element:
    assert isinstance(node.parentNode, minidom.Element)
    return node.parentNode


def _title(document: minidom.Document, text: str) -> minidom.Element:
    title = document.createElement("title")
    title.appendChild(document.createTextNode(text))
    return title


def _add_tooltips(root: minidom.Element) -> None:
    document = root.ownerDocument
    assert document is not None
    for group in _elements(root):
        name = group.getAttribute("id")
        if not name.startswith(TOOLTIP):
            continue
        texts = json.loads(name.removeprefix(TOOLTIP))
        if isinstance(texts, str):
            group.insertBefore(_title(document, texts), group.firstChild)
            continue
        marks = [
            node
            for node in group.getElementsByTagName("*")
            if node.tagName in ("use", "path") and _parent(node).tagName != "defs"
        ]
        for mark, text in zip(marks, texts, strict=True):
            mark.appendChild(_title(document, text))


def _soften_images(root: minidom.Element) -> None:
    # pixels drawn as squares suit a 7 x 7 map and spoil a picture
    for image in root.getElementsByTagName("image"):
        if image.getAttribute("id").startswith(SMOOTH) or _parent(image).getAttribute("id").startswith(SMOOTH):
            image.removeAttribute("style")


def _follow_theme(root: minidom.Element) -> None:
    def variable(match: re.Match[str]) -> str:
        name = _VARIABLES.get(match.group().lower())
        return f"var(--biaslib-{name})" if name else match.group()

    for node in _elements(root):
        style = node.getAttribute("style")
        if style:
            style = _FONT.sub(r"font: \1\2 var(--biaslib-font)", _FAMILY.sub("", style))
            node.setAttribute("style", _HEX.sub(variable, style))


def _rename(root: minidom.Element, *, prefix: str) -> None:
    reference = re.compile(r"url\(#([^)]+)\)")
    used: set[str] = set()
    for node in _elements(root):
        for name, value in list(node.attributes.items()):
            if name == "xlink:href" and value.startswith("#"):
                used.add(value[1:])
                node.setAttribute(name, "#" + prefix + value[1:])
            elif "url(#" in value:
                used.update(reference.findall(value))
                node.setAttribute(name, reference.sub(rf"url(#{prefix}\1)", value))
    for node in _elements(root):
        name = node.getAttribute("id")
        if name in used:
            node.setAttribute("id", prefix + name)
        elif name:
            node.removeAttribute("id")


def _flatten(root: minidom.Element) -> str:
    _, _, width, _ = root.getAttribute("viewBox").split()
    for name in ("width", "height", "version", "xmlns:xlink"):
        if root.hasAttribute(name):
            root.removeAttribute(name)
    root.setAttribute("fill", "currentColor")  # matplotlib leaves black out: it is SVG's default
    root.setAttribute("aria-hidden", "true")  # the figure around it carries the text for those who cannot see it
    root.setAttribute("style", f"--biaslib-width:{1.5 * float(width):.0f}px")
    text = root.toxml().replace("xlink:href", "href").replace("base64, ", "base64,").replace("base64,\n", "base64,")
    text = re.sub(r' transform="rotate\(-?0 [^"]*"', "", text)
    return re.sub(r">\s+<", "><", text)
