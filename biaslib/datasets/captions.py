"""What a caption says: which gender it names, if one, and which of COCO's objects."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import pandas as pd

from biaslib.errors import BiaslibError

UNNAMED: Final = -1

# Zhao, Andrews and Xiang 2023, appendix C.1
_MEN_WORDS = ("male", "boy", "man", "gentleman", "boys", "men", "males", "gentlemen", "father", "boyfriend")
_WOMEN_WORDS = ("female", "girl", "woman", "lady", "girls", "women", "females", "ladies", "mother", "girlfriend")

# the object's own name and its plural always count; these are ours, the common other words, kept short on purpose
OTHER_WORDS = {
    "airplane": ("plane", "jet", "aircraft"), "bicycle": ("bike", "cycle"), "book": (), "boat": ("ship", "canoe"),
    "car": ("suv", "sedan"), "cell_phone": ("phone", "cellphone", "smartphone"), "couch": ("sofa",),
    "dining_table": ("table",), "dog": ("puppy",), "cat": ("kitten",), "donut": ("doughnut",),
    "fire_hydrant": ("hydrant",), "frisbee": ("disc",), "hair_drier": ("hair dryer", "blow dryer"),
    "handbag": ("purse", "bag"), "horse": ("pony",), "laptop": ("laptop computer",), "microwave": ("microwave oven",),
    "motorcycle": ("motorbike",), "oven": ("stove",), "potted_plant": ("plant", "houseplant"),
    "refrigerator": ("fridge",), "remote": ("remote control", "game controller", "wii remote", "controller"),
    "skateboard": ("skate board",), "skis": ("ski",), "snowboard": ("snow board",),
    "sports_ball": ("ball", "soccer ball", "baseball", "tennis ball", "basketball", "football", "volleyball"),
    "suitcase": ("luggage",), "surfboard": ("surf board",), "teddy_bear": ("stuffed animal", "stuffed bear", "teddy"),
    "tennis_racket": ("racket", "racquet", "tennis racquet"), "tie": ("necktie",),
    "toothbrush": ("tooth brush",), "traffic_light": ("stop light", "stoplight"), "tv": ("television",),
}  # fmt: skip
# "knife" and its like: the rule for plurals below does not find them
_PLURALS = {"knife": "knives", "skis": "skis", "sheep": "sheep", "mouse": "mice", "scissors": "scissors"}


def gender(captions: Iterable[str]) -> np.ndarray:
    """The gender a caption names, (N,) int: 0 man, 1 woman, or `UNNAMED` (-1) where it names none or both.

    Only whole words count, so that "snowman" and "human" do not; the lists are those of Zhao, Andrews and Xiang
    (2023, appendix C.1). What is found is a captioner's wording, not the gender of anybody.
    """
    return np.array([_named(set(re.findall("[a-z]+", text.lower()))) for text in captions], dtype=np.int64)


def objects(captions: Iterable[str], names: Sequence[str]) -> pd.DataFrame:
    """Which objects a caption mentions, by whole words: name, plural, or another word of `OTHER_WORDS`.

    Longer terms are read first and words are not used twice: a "hot dog" is no "dog", a "teddy bear" no "bear".

    Of N captions and COCO's names of objects, words joined by "_", it gives N rows with a bool column an object, in the
    order of the names, of which there must be one at least (`BiaslibError`).
    """
    if len(names) == 0:
        raise BiaslibError("no object to look for: give the names of one object or more.")
    terms = {term: name for name in names for term in _terms(name)}
    longest_first = sorted(terms, key=len, reverse=True)
    pattern = re.compile(r"\b(?:" + "|".join(map(re.escape, longest_first)) + r")\b")
    number = {name: i for i, name in enumerate(names)}
    said = [[number[terms[term]] for term in pattern.findall(text.lower())] for text in captions]
    table = np.zeros((len(said), len(names)), dtype=bool)
    for row, found in zip(table, said, strict=True):
        row[found] = True
    return pd.DataFrame(table, columns=list(names))


def _named(words: set[str]) -> int:
    men, women = not words.isdisjoint(_MEN_WORDS), not words.isdisjoint(_WOMEN_WORDS)
    return UNNAMED if men == women else int(women)


def _terms(name: str) -> set[str]:
    singular = {name.replace("_", " "), *OTHER_WORDS.get(name, ())}
    return singular | {_plural(term) for term in singular}


def _plural(term: str) -> str:
    *before, last = term.split(" ")
    ending = "es" if last.endswith(("s", "x", "ch", "sh")) else "s"
    return " ".join([*before, _PLURALS.get(last, last + ending)])
