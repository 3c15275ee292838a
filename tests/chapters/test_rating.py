"""Ratings of pairs of images: plans, files, the statistic, drawn raters, the form."""

import io

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

from biaslib.chapters.rating import (
    _COLUMNS,
    Session,
    krippendorff_alpha,
    perceived,
    read,
    synthetic,
    trials,
    widget,
)
from biaslib.errors import BiaslibError

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


def test_drawn_raters_see_what_is_large_and_not_what_is_small():
    seen = {value: perceived(synthetic(changes(value), raters=6, seed=0)).iloc[0] for value in (-1.0, 0.0, 1.0)}
    assert seen[1.0]["change"].low > 0.8
    assert seen[-1.0]["change"].high < -0.8
    assert seen[0.0]["change"].low < 0 < seen[0.0]["change"].high
    assert seen[0.0]["noticed"].estimate < 0.35


def test_raters_who_only_lapse_answer_everything_equally_often():
    answers = synthetic(changes(1.0, 2000), raters=3, seed=0, lapses=1.0)["answer"]
    assert answers.value_counts(normalize=True).to_numpy() == pytest.approx(np.full(3, 1 / 3), abs=0.03)


def test_drawn_raters_can_be_told_and_people_cannot_take_their_names(tmp_path):
    drawn = synthetic(changes(0.0, 3), raters=2, seed=0)
    assert drawn["rater"].str.startswith("synthetic").all()
    with pytest.raises(BiaslibError, match="does not begin with 'synthetic'"):
        Session(trials(QUESTIONS, pairs=1, seed=0), rater="synthetic-1", path=tmp_path / "ratings.csv")
    with pytest.raises(BiaslibError, match="needs a name"):
        Session(trials(QUESTIONS, pairs=1, seed=0), rater=" ", path=tmp_path / "ratings.csv")


def test_a_session_goes_on_where_it_was_left_and_shares_its_file(tmp_path):
    plan, path = trials(QUESTIONS, pairs=2, seed=3), tmp_path / "ratings.csv"
    first = Session(plan, rater="7", path=path)
    first.answer("more")
    Session(trials(QUESTIONS, pairs=2, seed=4), rater="8", path=path).answer("less")
    again = Session(plan, rater="7", path=path)
    assert again.left().index.tolist() == list(range(1, 6))
    for _ in range(5):
        again.answer("the same")
    table = read(path)
    assert table["rater"].tolist() == ["7", "8", *["7"] * 5]
    assert [file.name for file in tmp_path.iterdir() if ".partial" in file.name] == []
    with pytest.raises(BiaslibError, match="7 has answered all 6 trials"):
        again.answer("more")


def test_an_answer_is_about_the_moved_image_wherever_it_was_shown(tmp_path):
    plan, path = trials({"Eyeglasses": ("Smiling",)}, pairs=12, seed=0), tmp_path / "ratings.csv"
    session = Session(plan, rater="1", path=path)
    for swapped in plan["swapped"]:
        session.answer("less" if swapped else "more")
    assert plan["swapped"].nunique() == 2
    assert read(path)["answer"].eq(1).all()


def test_answers_to_another_plan_and_other_words_are_refused(tmp_path):
    path = tmp_path / "ratings.csv"
    session = Session(trials(QUESTIONS, pairs=1, seed=0), rater="1", path=path)
    with pytest.raises(BiaslibError, match="less, the same, more, not 'maybe'"):
        session.answer("maybe")
    assert not path.exists()
    session.answer("more")
    with pytest.raises(BiaslibError, match="to another plan"):
        Session(trials({"Bangs": ("Bangs",)}, pairs=1, seed=0), rater="1", path=path)


BROKEN = {
    "no column": ("rater,moved\n1,Bangs\n", "no column 'asked'"),
    "an answer of 3": (",".join(_COLUMNS) + "\n1,a,b,0,True,3\n", "not -1, 0 or 1"),
    "an empty cell": (",".join(_COLUMNS) + "\n1,a,b,,True,1\n", "empty cell"),
    "answered twice": (",".join(_COLUMNS) + "\n1,a,b,0,True,1\n1,a,b,0,False,0\n", "two answers of 1"),
    "nothing": ("", "no table of ratings"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_holds_no_ratings_is_refused(tmp_path, name):
    content, message = BROKEN[name]
    (tmp_path / "ratings.csv").write_text(content)
    with pytest.raises(BiaslibError, match=message):
        read(tmp_path / "ratings.csv")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BiaslibError, match=r"no file .*ratings\.csv"):
        read(tmp_path / "ratings.csv")


def pixels(value):
    return np.full((2, 8, 8, 3), value, np.uint8)


def shown(image):
    return int(np.asarray(Image.open(io.BytesIO(image.value)))[0, 0, 0])


def test_the_form_shows_each_trial_on_its_sides_and_keeps_every_click(tmp_path):
    plan, path = trials({"Eyeglasses": ("Smiling",)}, pairs=6, seed=0), tmp_path / "ratings.csv"
    pairs = np.stack([np.stack([pixels(0)[0], pixels(200)[0]])] * 6)
    form = widget(Session(plan, rater="1", path=path), {"Eyeglasses": pairs})
    faces, question, row, progress = form.children
    for number, swapped in enumerate(plan["swapped"]):
        assert [shown(image) for image in faces.children] == ([200, 0] if swapped else [0, 200])
        assert "Smiling" in question.value
        assert f"{number} of 6" in progress.value
        row.children[2].click()
    assert len(read(path)) == 6
    assert "Thank you" in question.value
    assert faces.layout.display == "none"


def test_a_form_without_its_pictures_is_refused(tmp_path):
    session = Session(trials(QUESTIONS, pairs=1, seed=0), rater="1", path=tmp_path / "ratings.csv")
    with pytest.raises(BiaslibError, match="pairs along nothing"):
        widget(session, {"Eyeglasses": pixels(0)[None]})
