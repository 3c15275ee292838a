"""The palette stands in one place: whatever else is coloured takes its colours from there."""

import re
from pathlib import Path

import pytest

from biaslib import figures
from biaslib.figures import theme

ROOT = Path(__file__).resolve().parents[2]
HEX = r"#(?:[0-9a-fA-F]{8}|[0-9a-fA-F]{6}|[0-9a-fA-F]{3,4})\b"
# in code a colour is a whole word in quotes; a style sheet knows further ways to name one
TYPED = {
    ".py": rf"[\"']{HEX}[\"']",
    ".md": rf"[\"']{HEX}[\"']",
    ".js": rf"[\"']{HEX}[\"']",
    ".j2": rf"(?<!&){HEX}",
    ".css": rf"{HEX}|(?:rgba?|hsla?|oklch)\(",
}


def coloured() -> list[Path]:
    """All that may colour a page; the worlds mix colours of things, as a painter does."""
    rooms = [path for path in (ROOT / "biaslib").iterdir() if path.name != "worlds"]
    files = [file for room in (*rooms, ROOT / "notebooks", ROOT / "book" / "_static") for file in room.rglob("*")]
    made = (Path(theme.__file__), ROOT / "book" / "_static" / "palette.css")
    return [file for file in files if file.suffix in TYPED and file not in made]


def test_no_colour_is_typed_outside_the_theme():
    files = coloured()
    assert {file.suffix for file in files} >= {".py", ".md", ".js", ".css"}
    typed = {
        f"{file.relative_to(ROOT)}: {colour}"
        for file in files
        for colour in re.findall(TYPED[file.suffix], file.read_text(encoding="utf-8"))
    }
    assert not typed, "take it from biaslib.figures.theme, or a variable of its CSS"


def test_the_icon_wears_the_palette():
    icon = (ROOT / "book" / "_static" / "favicon.svg").read_text(encoding="utf-8")
    assert set(re.findall(HEX, icon)) - {"#fff"} <= set(figures.COLOURS.values())


@pytest.mark.parametrize(
    ("style", "written"),
    [
        (ROOT / "biaslib" / "figures" / "figures.css", theme.css("figures")),
        (ROOT / "biaslib" / "audit" / "report.css", theme.css("report")),
    ],
    ids=["figures", "report"],
)
def test_a_style_asks_for_colours_that_the_palette_has(style, written):
    prefix = "report" if style.name == "report.css" else "biaslib"
    text = style.read_text(encoding="utf-8")
    asked = set(re.findall(rf"var\(--{prefix}-([a-z-]+)", text)) - set(re.findall(rf"--{prefix}-([a-z-]+):", text))
    assert asked <= set(re.findall(rf"--{prefix}-([a-z-]+):", written)) | {"width", "least", "heat"}


def test_the_page_has_its_colours_in_both_modes():
    light, dark = theme.css("page").split('html[data-theme="dark"]')
    assert re.findall(r"--pst-color-([a-z-]+):", light) == re.findall(r"--pst-color-([a-z-]+):", dark)
    assert f"--pst-color-background: {theme.PAPER};" in light
    assert f"--pst-color-link: {theme.LABEL_COLOURS['blue']};" in light
