"""What the pages say of Denton et al. (2019) and of their own runs, held against paper, code and records."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from biaslib.book import recorded
from biaslib.chapters import face_generators, latent, rating
from biaslib.chapters.latent_audit import DirectionAudit, target_classifiers
from biaslib.errors import BiaslibError
from biaslib.gan import counterfactuals
from biaslib.gan.directions import attribute_direction
from biaslib.metrics import sensitivity
from biaslib.statistics import Interval

ROOT = Path(__file__).resolve().parents[2]


def text(path: str) -> str:
    """Of a page, with line breaks as spaces."""
    return re.sub(r"\s+", " ", (ROOT / path).read_text(encoding="utf-8"))


def span(low: float, high: float) -> Interval:
    return Interval((low + high) / 2, low, high, 10)


@pytest.mark.parametrize("attribute", ["Attractive", "Chubby"])
def test_judgements_of_people_are_not_moved(attribute):
    codes = np.random.default_rng(0).normal(size=(40, 4))
    with pytest.raises(BiaslibError, match=f"{attribute} is not manipulated: it is a judgement of a person"):
        attribute_direction(codes, pd.DataFrame({attribute: [True, False] * 20}), attribute)


def test_the_refusal_names_the_sections_in_which_the_paper_declines():
    codes = np.random.default_rng(0).normal(size=(40, 4))
    with pytest.raises(BiaslibError, match=r"Denton et al\. 2019, sections 2 and 5"):
        attribute_direction(codes, pd.DataFrame({"Male": [True, False] * 20}), "Male")


def test_docstrings_cite_what_the_paper_has():
    assert "eq. 7" not in sensitivity.flip_rates.__doc__  # its last equation is 6
    assert "section 5.2" not in counterfactuals.consistency.__doc__  # its section 5 has no parts


def test_the_page_on_manipulating_says_what_the_record_moved():
    run = recorded.get("real_sensitivity", "real")["values"]["run"]
    page = text("book/manipulating.md")
    assert "on photographs also make-up and beards" not in page
    assert ("make-up, lipstick and beards are moved too" in page) == (
        {"Heavy_Makeup", "Wearing_Lipstick", "No_Beard"} <= set(run["gates"].index)
    )


def test_no_page_says_that_weights_are_not_kept():
    assert "weights are not kept" not in text("book/manipulating.md")
    assert "of photographs are not kept" not in text("notebooks/real_sensitivity.md")


def test_all_attributes_of_the_papers_table_are_asked_for_on_photographs():
    page = text("notebooks/real_sensitivity.md")
    published = (ROOT / "data" / "published" / "denton-table-1.csv").read_text(encoding="utf-8")
    named = {line.partition("=")[0] for line in published.splitlines()[2:]} - {"Male"}
    assert all(f"{name} " in page for name in named)
    assert "Fig. 5 (top) of the paper, made again" not in page


def test_judges_of_photographs_learn_from_faces_that_nothing_else_is_trained_on():
    assert 'data=replace(judge.data, split="val")' in text("notebooks/real_sensitivity.md")


def test_a_verdict_asks_first_whether_there_is_a_change():
    none, some, still = span(-0.11, 0.02), span(0.1, 0.2), span(-0.05, 0.05)
    assert rating.explained([none, none], attribute=some, target=still, margin=0.15) == "no change"
    assert rating.explained([none, some], attribute=some, target=still, margin=0.15) == "classifier"
    assert rating.explained([some], attribute=some, target=some, margin=0.15) == "smile seen"
    assert rating.explained([some], attribute=none, target=still, margin=0.15) == "not seen"
    assert rating.explained([some], attribute=some, target=span(-0.1, 0.2), margin=0.15) == "unsure"


def test_the_paper_proposes_to_ask_people_and_did_not():
    assert "So the paper asks people" not in text("notebooks/perception.md")


def test_nothing_is_claimed_of_faces_near_the_boundary_that_is_not_computed():
    page = text("notebooks/sensitivity.md")
    assert "Faces whose score is already near one half move more" not in page
    assert "A line inside it says no more than chance does" not in page


def test_reproduction_says_what_is_compared_and_what_differs():
    page = text("book/reproduction.md")
    assert "the same recipe in narrower networks" not in page
    assert "R1" in page


def test_judges_of_photographs_are_said_to_have_the_faces_of_the_audited_models():
    assert "same photographs" in latent.attribute_classifiers.__doc__


def test_classifiers_of_another_size_than_the_generator_are_refused():
    first, second = target_classifiers("Eyeglasses", 0.0, 2, images=100, kept=50, epochs=1)
    models = (first, dataclasses.replace(second, size=64))
    for generator in ("faces-0", face_generators.by_recipe("quick")):
        with pytest.raises(BiaslibError, match="draws faces of 32 px, but classifiers read 64 px"):
            DirectionAudit(generator=generator, target_classifiers=models, attributes=("Eyeglasses",))


def test_the_front_page_does_not_say_that_no_result_was_typed():
    assert "No result of ours was typed" not in text("book/index.md")


def test_the_front_page_promises_no_more_than_the_pages_keep():
    page = text("book/index.md")
    moving = [
        file
        for file in (ROOT / "notebooks").glob("*.md")
        if re.search(r"figures\.(dial|explorer|map_editor)\(", file.read_text())
    ]
    assert len(moving) < len(list((ROOT / "notebooks").glob("*.md"))) / 3
    assert "Many of them move" not in page
    assert "open it where you want to know" not in page  # most cells are not on the page at all
    assert "no mathematics beyond a fraction" not in page  # that page has a conditional probability


def test_presets_and_their_page_say_whose_set_up_they_hold():
    assert "| `paper` | the papers' own set-up |" not in text("book/making.md")
    paper = text("notebooks/presets/paper.yml")
    assert all(name in paper for name in ("Serianni", "Zhao", "Schaaf", "Denton"))
    assert paper.count("Missing") >= 4  # what a page cannot say of its paper's
