"""The words of the chapters that have the new shape: their numbers come from a record or a run, and few stand together.

What is read is the text of the notebooks as a person wrote it, in which a glued number is a name: a digit is typed.
"""

import re
from pathlib import Path

import pytest
import yaml

from tests.book.conftest import ONE_OF_A_KIND, ROOT, slow_but_for

CONTENTS = yaml.safe_load((ROOT / "book" / "_toc.yml").read_text(encoding="utf-8"))
SHAPED = (
    "The idea", "Attention", "Attention on faces", "Amplification", "Attribution maps", "Counterfactuals", "The dial",
    "Your own model",
)  # fmt: skip
OLD = {"manipulating", "quickstart"}  # narratives
PARTS = [part for part in CONTENTS["parts"] if part["caption"] in SHAPED]
CHAPTERS = [name for part in PARTS for entry in part["chapters"] if (name := Path(entry["file"]).name) not in OLD]
# steps of a dial, levels of intervals, and bounds of a scale are not results
SETTINGS = r"\b(?:5|50|60|70|80|90|95|100) ?%|0\.05|\b[01]\.0\b"
HOUSE_WORDS = (
    "dealt", "re-dealt", "twin", "twins", "freed", "lean network", "touchstone", "told from", "tell apart from",
    "as it comes", "cry wolf", "notices the bias", "debiased", "fair model", "judge networks",
)  # fmt: skip
CAPTION_WORDS = 45


def prose(name: str) -> str:
    """A chapter's text without code, formulas, tables, addresses, and what a directive is told."""
    if name == "index":
        text = (ROOT / "book" / "index.md").read_text(encoding="utf-8")
    else:
        text = (ROOT / "notebooks" / f"{name}.md").read_text(encoding="utf-8").split("---", 2)[2]
    code = r"```(?:\{code-cell\}|bash).*?\n```"
    for pattern in (code, r"\$\$.*?\$\$", r"\$[^$]+\$", r"^\|.*$", r"^:[\w-]+:.*$", r"<[^>]+>"):
        text = re.sub(pattern, "", text, flags=re.DOTALL if "```" in pattern or "\\$" in pattern else re.MULTILINE)
    text = re.sub(r"\{glue:text\}`[^`]+`", "GLUED", text)
    text = re.sub(r"\{[\w:]+\}`[^`]+`|`[^`]+`", "NAME", text)
    return re.sub(r"\]\([^)]*\)", "]", text)


def without_exercises(text: str) -> str:
    """Exercises ask about numbers that nobody has measured."""
    return re.sub(r"^:{3,}\{(exercise|solution).*?^:{3,}$", "", text, flags=re.DOTALL | re.MULTILINE)


def sentences(text: str) -> list[str]:
    return [each for part in text.split("\n\n") for each in re.split(r"(?<=[.?!:;])\**\s+(?=[A-Z*\[(|])", part)]


def typed_results(text: str) -> list[str]:
    """Decimal numbers and shares in prose that are no settings."""
    return re.findall(r"(?<![\w.])(?:[−-]?\d+\.\d+|\d+ ?%)", re.sub(SETTINGS, "", without_exercises(text)))


def crowded(text: str) -> list[str]:
    """Sentences with more than two numbers; a group's name and a bound of a scale are none."""
    text = re.sub(
        r"(?:clan|Clan|strength|strengths|Figures?|Table|section|Section|supplement) \w+(?:\.\w+)?", "Name", text
    )
    number = r"GLUED|(?<![\w.])\d+(?:[.,]\d+)*"
    return [each for each in sentences(text) if len(re.findall(number, each)) > 2]


@pytest.mark.parametrize("name", ["index", *CHAPTERS])
def test_no_result_is_typed(name):
    assert typed_results(prose(name)) == []


@pytest.mark.parametrize("name", ["index", *CHAPTERS])
def test_a_sentence_has_at_most_two_numbers(name):
    assert crowded(prose(name)) == []


@pytest.mark.parametrize("name", ["index", *CHAPTERS])
def test_a_chapter_speaks_the_fields_words(name):
    text = prose(name).lower()
    assert [word for word in HOUSE_WORDS if re.search(rf"\b{re.escape(word)}\b", text)] == []


@pytest.mark.parametrize("name", slow_but_for(ONE_OF_A_KIND, CHAPTERS))
def test_captions_as_built_are_short(smoke_book, name):
    page = (smoke_book.project.site / "_executed" / f"{name}.html").read_text(encoding="utf-8")
    found = re.findall(r"<figcaption[^>]*>(.*?)</figcaption>|<caption><span>(.*?)</span></caption>", page, re.DOTALL)
    captions = [re.sub(r"<[^>]+>", " ", "".join(parts)).split() for parts in found]
    assert captions
    assert [" ".join(words) for words in captions if len(words) > CAPTION_WORDS + 2] == []  # "Figure 3.1" is two


def test_the_checks_find_what_they_look_for():
    assert typed_results("The score falls to 0.42 and 37 % of them.") == ["0.42", "37 %"]
    assert typed_results("At 80 % the strength is GLUED.") == []
    assert len(crowded("It is GLUED here, GLUED there and GLUED elsewhere. It is GLUED.")) == 1


def minutes(name: str) -> int | None:
    """How long a chapter takes to read, as its head says."""
    found = re.search(
        r"^\*(\d+) minutes\.", (ROOT / "notebooks" / f"{name}.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    return int(found[1]) if found else None


def test_the_front_page_says_how_long_each_part_takes():
    cards = re.findall(r"<b>(\d) · ([^<]+)</b>.*?<small>(\d+) minutes", (ROOT / "book" / "index.md").read_text())
    parts = CONTENTS["parts"][: len(cards)]
    assert [card[1] for card in cards] == [part["caption"] for part in parts]
    for (_, caption, said), part in zip(cards, parts, strict=True):
        each = [minutes(Path(entry["file"]).name) for entry in part["chapters"] if "_executed" in entry["file"]]
        if None not in each:  # a chapter in the first edition's shape does not say
            assert int(said) == sum(each), caption
