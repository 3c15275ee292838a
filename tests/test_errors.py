"""The sentences of `errors.toml` and the places that refuse with them."""

import ast
import functools
import string
import tomllib
from pathlib import Path

import pytest

import biaslib
from biaslib import errors

ROOM = Path(biaslib.__file__).parent
SENTENCES = tomllib.loads((ROOM / "errors.toml").read_text(encoding="utf-8"))


@functools.cache
def calls():
    """The file, the problem and the words of every call of `refused` in the package."""
    found = []
    for file in sorted(ROOM.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "refused":
                (problem,) = node.args
                words = {each.arg for each in node.keywords}
                found.append((file.relative_to(ROOM).as_posix(), ast.literal_eval(problem), words))
    return found


def test_every_sentence_has_its_place_and_every_place_its_sentence():
    assert {problem for _, problem, _ in calls()} == set(SENTENCES)


def test_every_place_gives_the_words_that_its_sentence_takes():
    for file, problem, words in calls():
        fields = {name for _, name, *_ in string.Formatter().parse(SENTENCES[problem]) if name}
        assert {name.partition(".")[0] for name in fields} == words, f"{file}: {problem}"


@pytest.mark.parametrize("problem", SENTENCES)
def test_a_sentence_is_one_sentence_that_does_not_fit_a_line(problem):
    assert SENTENCES[problem].endswith(".")
    assert "\n" not in SENTENCES[problem]
    assert len(SENTENCES[problem]) > 60


def test_sentences_are_listed_by_the_modules_that_refuse_with_them():
    module, listed = "", {}
    for line in (ROOM / "errors.toml").read_text(encoding="utf-8").splitlines():
        if line.startswith("# ") and line.endswith(".py"):
            module = line.removeprefix("# ")
        elif line.startswith('"'):
            listed[line.split('"')[1]] = module
    assert listed == {problem: file for file, problem, _ in calls()}


def test_words_are_filled_in_and_stand_as_they_are():
    found = errors.refused("missing libraries", command="run", missing="{a}, 100 %")
    assert isinstance(found, errors.BiaslibError)
    assert str(found) == (
        "`biaslib run` needs a checkout of the book and its libraries: in its folder, run `pip install '.[book]'` "
        "(missing here: {a}, 100 %)."
    )
