"""What a figure, a table or an interactive piece becomes on a page: one self-sufficient stretch of HTML."""

import base64
import hashlib
import html
import io
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from biaslib.errors import BiaslibError
from biaslib.figures import svg, theme


@dataclass(frozen=True)
class Piece:
    """HTML for a notebook's output and for the book's page.

    Attributes:
        html: the whole piece, its style and script included; nothing in it needs a network or a kernel.
        alt: what it shows, in words.
    """

    html: str
    alt: str

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return f"[{self.alt}]"


def show(figure: Figure, *, alt: str, caption: str | None = None, name: str | None = None) -> Piece:
    """Puts a matplotlib figure on the page, and closes it.

    Args:
        figure: any figure; one made by `new` follows the page's light and dark.
        alt: what a reader who cannot see the figure should know. Required.
        caption: the sentence under the figure.
        name: an anchor that links can point to (`#name`).

    Returns:
        the figure as inline SVG. Two renders of the same figure are the same to the byte.

    Raises:
        BiaslibError: for an empty alt text or a name that is no anchor.
    """
    check_alt(alt)
    drawing = svg.render(figure, salt=f"{name}|{alt}")
    size = "page" if figure.get_figwidth() > theme.WIDTHS["column"] * 1.4 else "column"
    figure.clear()
    body = f'<div class="biaslib-scroll">{drawing}</div>'
    return Piece(frame(body, alt=alt, caption=caption, name=name, classes=f"biaslib-{size}", role="img"), alt)


def frame(
    body: str,
    *,
    alt: str,
    caption: str | None,
    name: str | None = None,
    classes: str = "",
    role: str = "group",
    sheets: tuple[str, ...] = ("figures.css",),
) -> str:
    """The `<figure>` around a piece, with its style, its text for those who cannot see it, and its caption."""
    anchor = ""
    if name is not None:
        anchor = f' id="{check_name(name)}"'
    described, below = "", ""
    if caption:
        mark = f"biaslib-caption-{digest(body + caption)}"
        described = f' aria-describedby="{mark}"'
        below = f'<figcaption id="{mark}">{words(caption)}</figcaption>'
    return (
        f'<figure class="biaslib-figure {classes}" role="{role}" aria-label="{html.escape(alt)}"{anchor}{described}>'
        f"<style>{''.join(asset(sheet) for sheet in sheets)}</style>{body}{below}</figure>"
    )


def words(text: str) -> str:
    """A caption as HTML: escaped, and what stands between backticks set as code.

    Raises:
        BiaslibError: for a link in Markdown or a backtick without its other half, which would be printed as they are.
    """
    shown = re.sub("`([^`]+)`", r"<code>\1</code>", html.escape(text))
    if raw_markup(shown):
        raise BiaslibError(f"the caption {text!r} holds a link or a lone backtick: name the page in words.")
    return shown


def raw_markup(text: str) -> bool:
    """Whether a text that is shown as it stands holds a backtick, or a link as Markdown writes it."""
    return "`" in text or "](" in text


@cache
def asset(name: str) -> str:
    """A style sheet or script that lies beside this module, without the white space between its lines."""
    text = resources.files("biaslib.figures").joinpath(name).read_text(encoding="utf-8")
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


def check_alt(alt: str) -> None:
    """Raises a BiaslibError where there is no text for readers who cannot see."""
    if not alt or not alt.strip():
        raise BiaslibError("alt must say what the figure shows; write the sentence you would say on the telephone.")


def check_name(name: str) -> str:
    """The name, where it can be an anchor and a file name; a BiaslibError where not."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
        raise BiaslibError(f"name {name!r} must start with a letter and hold letters, digits, - and _ only.")
    return name


def digest(text: str) -> str:
    """Ten characters that stand for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def png_uri(pixels: np.ndarray) -> str:
    """(H, W), (H, W, 3) or (H, W, 4) uint8 as a PNG data URI: lossless."""
    return _uri(pixels, "PNG", "image/png", optimize=True)


def jpeg_uri(pixels: np.ndarray, *, quality: int = 82) -> str:
    """(H, W, 3) uint8 as a JPEG data URI: small, for pictures that are only looked at."""
    return _uri(pixels, "JPEG", "image/jpeg", quality=quality, subsampling=0, optimize=True)


def _uri(pixels: np.ndarray, kind: str, mime: str, **options: int | bool) -> str:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format=kind, **options)
    return f"data:{mime};base64,{base64.b64encode(buffer.getvalue()).decode()}"
