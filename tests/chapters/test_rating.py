"""Ratings of pairs of images: plans, files, the statistic, drawn raters, the form and what comes back."""

import base64
import io
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

from biaslib.chapters.rating import _COLUMNS, collected, form, krippendorff_alpha, perceived, trials
from biaslib.errors import BiaslibError
from tests.of_pages import functions

QUESTIONS = {"Eyeglasses": ("Eyeglasses", "Smiling"), "nothing": ("Smiling",)}


def ratings(*rows):
    return pd.DataFrame([(*row[:4], False, row[4]) for row in rows], columns=_COLUMNS)


def grid(answers, moved="Eyeglasses", asked="Smiling"):
    """A table of ratings from (raters, pairs) answers."""
    return ratings(*[(f"r{i}", moved, asked, j, int(value)) for (i, j), value in np.ndenumerate(answers)])


def test_a_plan_asks_every_question_once_about_every_pair():
    plan = trials(QUESTIONS, pairs=4, seed=0)
    assert len(plan) == 12 == len(plan[["moved", "asked", "pair"]].drop_duplicates())
    assert set(plan["pair"]) == {0, 1, 2, 3}


def test_plans_differ_by_seed_in_order_and_sides_only():
    one, again, other = (trials(QUESTIONS, pairs=20, seed=seed) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(one, again)
    assert not one["pair"].equals(other["pair"])
    keys = ["moved", "asked", "pair"]
    pd.testing.assert_frame_equal(*(plan.sort_values(keys)[keys].reset_index(drop=True) for plan in (one, other)))
    assert 0.2 < one["swapped"].mean() < 0.8


def test_nothing_to_ask_is_refused():
    with pytest.raises(BiaslibError, match="nothing to ask"):
        trials(QUESTIONS, pairs=0, seed=0)


def test_perceived_by_hand():
    found = perceived(grid([[1, 1, 0], [1, -1, 0]])).loc[("Eyeglasses", "Smiling")]
    assert found["change"].estimate == pytest.approx(2 / 6)
    assert found["noticed"].estimate == pytest.approx(4 / 6)
    assert found["change"].n == 6
    assert -1 <= found["change"].low < found["change"].estimate < found["change"].high <= 1


def test_more_confidence_is_a_wider_interval_of_the_same_estimate():
    answers = grid(np.random.default_rng(3).integers(-1, 2, (5, 8)))
    narrow, wide = (perceived(answers, confidence=level).iloc[0]["change"] for level in (0.8, 0.99))
    assert wide.low < narrow.low < narrow.estimate == wide.estimate < narrow.high < wide.high


def test_perceived_does_not_depend_on_the_order_of_rows_or_on_other_questions():
    answers = np.random.default_rng(0).integers(-1, 2, (4, 6))
    alone = grid(answers)
    mixed = pd.concat([grid(np.ones((4, 6)), asked="Eyeglasses"), alone]).sample(frac=1, random_state=0)
    key = ("Eyeglasses", "Smiling")
    assert perceived(mixed).loc[key, "change"].estimate == pytest.approx(perceived(alone).loc[key, "change"].estimate)
    assert perceived(mixed).loc[("Eyeglasses", "Eyeglasses"), "change"].low == 1


def test_a_pair_that_a_rater_skipped_is_left_out_and_not_counted_as_no_change():
    table = grid([[1, 1], [1, 1]]).iloc[:3]
    found = perceived(table).iloc[0]
    assert found["change"].estimate == 1
    assert (found["change"].n, found["change"].undefined) == (3, 1)


def test_one_rater_has_no_interval():
    found = perceived(grid([[1, 0, 1]])).iloc[0]["change"]
    assert found.estimate == pytest.approx(2 / 3)
    assert np.isnan([found.low, found.high]).all()


def test_no_ratings_are_refused():
    with pytest.raises(BiaslibError, match="no ratings"):
        perceived(grid(np.ones((1, 1))).iloc[:0])


def test_alpha_by_hand():
    # two raters, two trials: (1, 1) and (0, 1): D_o = 2/4 = 1/2, of all 12 ordered pairs 6 differ: D_e = 1/2
    assert krippendorff_alpha(grid([[1, 0], [1, 1]])).estimate == pytest.approx(0.0)
    assert krippendorff_alpha(grid([[1, -1, 0], [1, -1, 0]])).estimate == pytest.approx(1.0)


def test_alpha_is_fleiss_kappa_for_two_words_and_its_own_correction():
    answers = (np.random.default_rng(1).random((5, 40)) < np.linspace(0.05, 0.95, 40)).astype(int)
    kappa = fleiss_kappa(aggregate_raters(answers.T)[0])
    found = krippendorff_alpha(grid(answers))
    assert found.estimate == pytest.approx(1 - (1 - kappa) * (answers.size - 1) / answers.size)
    assert found.low < found.estimate < found.high
    assert found.n == 40


def test_alpha_of_raters_who_guess_covers_zero():
    found = krippendorff_alpha(grid(np.random.default_rng(2).integers(-1, 2, (6, 200))))
    assert found.low < 0 < found.high


@pytest.mark.parametrize("answers", [np.ones((3, 4)), np.ones((1, 4))], ids=["all the same", "one rater"])
def test_alpha_is_undefined_without_differences_or_with_one_rater(answers):
    assert np.isnan(krippendorff_alpha(grid(answers)).estimate)


def changes(value, pairs=200):
    return pd.DataFrame({"moved": "Eyeglasses", "asked": "Smiling", "pair": range(pairs), "change": value})


@pytest.fixture(scope="module")
def synthetic():
    """The page's own drawn raters."""
    return functions("perception", seed=0)["synthetic"]


def test_drawn_raters_see_what_is_large_and_not_what_is_small(synthetic):
    seen = {value: perceived(synthetic(changes(value), raters=6)).iloc[0] for value in (-1.0, 0.0, 1.0)}
    assert seen[1.0]["change"].low > 0.8
    assert seen[-1.0]["change"].high < -0.8
    assert seen[0.0]["change"].low < 0 < seen[0.0]["change"].high
    assert seen[0.0]["noticed"].estimate < 0.35


def test_raters_who_only_lapse_answer_everything_equally_often(synthetic):
    answers = synthetic(changes(1.0, 2000), raters=3, lapses=1.0)["answer"]
    assert answers.value_counts(normalize=True).to_numpy() == pytest.approx(np.full(3, 1 / 3), abs=0.03)


PAIRS = np.stack([np.stack([np.full((8, 8, 3), shade, np.uint8) for shade in (0, 200)])] * 6)


class Page(HTMLParser):
    """What a rater sees: of each trial the shade of either face, the question, and the answers to choose from."""

    def __init__(self, file):
        super().__init__()
        self.trials, self.words = [], []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "fieldset":
            self.trials.append({"shades": [], "answers": []})
        elif tag == "img":
            picture = Image.open(io.BytesIO(base64.b64decode(given["src"].partition(",")[2])))
            self.trials[-1]["shades"].append(int(np.asarray(picture)[0, 0, 0]))
        elif given.get("type") == "radio":
            self.trials[-1]["answers"].append((given["name"], given["value"]))

    def handle_data(self, words):
        self.words.append(words)


@pytest.fixture
def printed(tmp_path):
    """A plan, the form of it, and its key."""
    plan = trials({"Wearing_Hat": ("Smiling",)}, pairs=6, seed=1)
    return plan, form(plan, {"Wearing_Hat": PAIRS}, tmp_path / "form.html"), tmp_path / "form.key.csv"


def answered(folder, name, *rows):
    file = folder / f"{name}.csv"
    pd.DataFrame(rows, columns=["rater", "trial", "answer"]).to_csv(file, index=False)
    return file


def test_the_form_shows_each_trial_on_its_sides_and_not_what_was_moved(printed):
    plan, file, _ = printed
    page = Page(file)
    assert plan["swapped"].nunique() == 2
    assert [trial["shades"] for trial in page.trials] == [[200, 0] if each else [0, 200] for each in plan["swapped"]]
    assert page.trials[2]["answers"] == [("3", "less"), ("3", "the same"), ("3", "more")]
    assert "Smiling" in page.words
    text = file.read_text(encoding="utf-8")
    assert "Wearing" not in text
    assert "http" not in text


def test_an_answer_is_about_the_moved_image_wherever_it_was_shown(printed):
    plan, file, key = printed
    words = ["less" if swapped else "more" for swapped in plan["swapped"]]
    own = answered(file.parent, "a", *[("7", number, word) for number, word in enumerate(words, start=1)])
    other = answered(file.parent, "b", ("8", 2, "the same"))
    table = collected([own, other], key)
    assert table["answer"].tolist() == [1] * 6 + [0]
    assert table["rater"].tolist() == ["7"] * 6 + ["8"]
    assert set(table["pair"][:6]) == set(range(6))
    assert perceived(table).loc[("Wearing_Hat", "Smiling"), "change"].estimate == pytest.approx(6 / 7)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("7", 1, "maybe"), "not -1, 0 or 1, or an empty cell"),
        (("7", 99, "more"), "empty cell"),
        (("synthetic-1", 1, "more"), "does not begin with 'synthetic'"),
        (("7", 2, "more"), "two answers of 7"),
    ],
)
def test_answers_that_are_none_are_refused(printed, row, message):
    _, file, key = printed
    with pytest.raises(BiaslibError, match=message):
        collected([answered(file.parent, "a", ("7", 2, "more"), row)], key)


def test_files_that_are_no_answers_are_named(printed, tmp_path):
    *_, key = printed
    (tmp_path / "other.csv").write_text("who,what\n1,more\n")
    for files in ([tmp_path / "other.csv"], [tmp_path / "none.csv"], []):
        with pytest.raises(BiaslibError, match="need rater, trial and answer, and the form's key"):
            collected(files, key)


def test_a_form_without_its_pictures_is_refused(tmp_path):
    with pytest.raises(BiaslibError, match="pairs along nothing"):
        form(trials(QUESTIONS, pairs=1, seed=0), {"Eyeglasses": PAIRS}, tmp_path / "form.html")
