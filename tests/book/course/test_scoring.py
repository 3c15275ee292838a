"""The capstone's points: by hand, by five players on a stored pool of models, and of folders that were handed in."""

import csv
import re
import shlex
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from scipy.special import softmax

from biaslib import metrics, models, training
from biaslib.book.course import capstone
from biaslib.book.course.capstone import PARTS, SMALL, points, read_form, score
from biaslib.chapters.blind_audit import CANDIDATES
from biaslib.errors import BiaslibError
from biaslib.statistics import interval
from biaslib.statistics.detection import winkler
from biaslib.store import parallel
from tests.book.conftest import ROOT
from tests.book.course import players, pool
from tests.book.course.players import careful, form
from tests.book.course.sealed import SECRET, files, quickly
from tests.test_cli import call

POOL = pd.read_csv(pool.FILE) if pool.FILE.is_file() else None
needs_pool = pytest.mark.skipif(POOL is None, reason="tests/book/course/pool.csv is not made yet; see pool.py")
PAGE = (ROOT / "book" / "capstone.md").read_text(encoding="utf-8")
EFFECTS = np.array([0.4, -0.2, 0.06, 0.01, 0.0, -0.03])


# --- by hand ---


def test_who_knows_the_effects_has_all_points():
    known = form(EFFECTS, EFFECTS, np.abs(EFFECTS) >= SMALL)
    assert points(known, EFFECTS, again=known) == {name: pytest.approx(most) for name, most in PARTS.items()}
    assert sum(PARTS.values()) == 60


def test_points_by_hand():
    stated = form(EFFECTS - 0.02, EFFECTS + 0.02, 0.5)
    stated.loc["a", ["low", "high"]] = (0.1, 0.39)  # misses 0.4 by 0.01
    earned = points(stated, EFFECTS)
    mean = (5 * 0.04 + 0.29 + 20 * 0.01) / 6
    assert earned["intervals"] == pytest.approx(30 * (1 - mean / 2))
    assert earned["probabilities"] == pytest.approx(0)  # who says one half knows nothing
    assert earned["order"] == pytest.approx(10)  # 0.245 is still the largest
    assert earned["re-run"] == 0


@pytest.mark.parametrize("seed", range(3))
def test_points_by_other_implementations(seed):
    rng = np.random.default_rng(seed)
    ends, probability = np.sort(rng.uniform(-0.3, 0.4, (2, 6)), axis=0), rng.uniform(0, 1, 6)
    earned = points(form(*ends, probability), EFFECTS)
    width = [u - el + 20 * max(el - t, 0) + 20 * max(t - u, 0) for el, u, t in zip(*ends, EFFECTS, strict=True)]
    brier = np.mean([(p - (abs(t) >= 0.05)) ** 2 for p, t in zip(probability, EFFECTS, strict=True)])
    order = scipy.stats.kendalltau(np.abs(ends.mean(axis=0)), np.abs(EFFECTS)).statistic
    assert earned["intervals"] == pytest.approx(max(0, 30 * (1 - np.mean(width) / 2)))
    assert earned["probabilities"] == pytest.approx(max(0, 15 * (1 - brier / 0.25)))
    assert earned["order"] == pytest.approx(10 * max(0, order))


def test_the_order_of_the_rows_does_not_count():
    stated, turn = form(EFFECTS - 0.1, EFFECTS + 0.03, np.linspace(0, 1, 6)), np.array([3, 1, 5, 0, 2, 4])
    assert points(stated.iloc[turn], EFFECTS[turn]) == pytest.approx(points(stated, EFFECTS))


def test_no_part_is_below_0_and_who_says_nothing_has_no_points():
    wrong = form(0.9, 1.0, 1 - (np.abs(EFFECTS) >= SMALL))
    assert set(points(wrong, EFFECTS).values()) == {0}
    assert set(points(form(-1, 1, 0.5), EFFECTS).values()) == {0}


def test_an_effect_of_just_the_size_that_is_asked_for_counts():
    sure = form(-1, 1, [1, 0, 0, 0, 0, 0])
    assert points(sure, np.array([-SMALL, 0, 0, 0, 0, 0]))["probabilities"] == pytest.approx(15)


@pytest.mark.parametrize(("shift", "earned"), [(0.004, 5), (0.006, 0)])
def test_a_second_run_has_to_give_the_same_numbers(shift, earned):
    stated = form(-0.1, 0.1, 0.2)
    assert points(stated, EFFECTS, again=stated.assign(high=stated["high"] + shift))["re-run"] == earned


# --- five players ---


@pytest.fixture(scope="module")
def played():
    """(40, 5) points of each player for each model of the pool, all parts together."""
    return players.played(POOL).sum(axis=2)


@needs_pool
def test_the_players_rank_as_they_should(played):
    """The mean points of the five players over all models of the pool, and never fewer than twenty, fall in the order
    that the capstone's design gives: who knows the effects, who measures them with intervals, who knows nothing and
    says so, who always says "no effect", who believes the maps.

    That order of the means is what the design asks for, and all that is asked of the last three among each other: parts
    of points end at 0, so a good guess for most models and an honest one lie near each other. Means of 20 models of the
    pool, looked at before this was written, were 55, 48, 28, 24 and 23.
    """
    assert played.shape == (pool.MODELS, 5)
    assert len(played) >= 20
    means = played.mean(axis=0)
    assert (np.diff(means) < 0).all(), means.round(1)


@needs_pool
@pytest.mark.parametrize("behind", [2, 3, 4])
@pytest.mark.parametrize("ahead", [0, 1])
def test_who_measures_is_surely_ahead_of_who_does_not(played, ahead, behind):
    """The mean of what one has more than the other for the same model, with 95 % over models, is above 0."""
    more = interval(played[:, ahead] - played[:, behind])
    assert more.low > 0, f"{more:.1f}"


def test_a_pool_has_six_rows_a_model_with_the_key_of_its_recipe(monkeypatch):
    numbers = np.linspace(0, 1, 30).reshape(6, 5)
    monkeypatch.setattr(pool, "MODELS", 2)
    monkeypatch.setattr(pool, "measured", SimpleNamespace(many=lambda teams: [numbers + team for team in teams]))
    made = pool.made()
    assert list(made) == ["model", "suspect", "effect", "seen", "error", "share", "right", "recipe"]
    assert list(made["model"]) == [1] * 6 + [2] * 6
    assert list(made["suspect"][6:]) == list(capstone.assigned(pool.SECRET, 2)[0].suspects)
    np.testing.assert_allclose(made.loc[6:, "effect":"right"].to_numpy(float), numbers + 2, atol=1e-5)
    assert set(made["recipe"][6:]) == {pool.key(2)}


@needs_pool
def test_the_page_shows_what_the_players_have():
    for name, rows in players.tables(POOL).items():
        assert shown(name) == [list(row) for row in rows], "python -m tests.book.course.players"


def shown(name):
    """The rows of a table of the page."""
    with (players.PAGE_DATA / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_the_page_includes_every_table():
    names = {file.stem for file in players.PAGE_DATA.glob("*.csv")}
    assert names == {"players", "pool", "sealing"}
    assert set(re.findall(r":file: capstone/(\w+)\.csv", PAGE)) == names
    assert [row[0] for row in shown("players")[1:]] == list(players.players(pd.DataFrame({"effect": EFFECTS})))


# --- the pool ---


@needs_pool
def test_the_pool_is_of_the_models_that_its_secret_gives_now():
    assert len(POOL) == 6 * pool.MODELS
    for team, model in POOL.groupby("model"):
        assert list(model["suspect"]) == list(capstone.assigned(pool.SECRET, team)[0].suspects)
        assert set(model["recipe"]) == {pool.key(team)}, "make the pool anew: python -m tests.book.course.pool"
    assert pool.FILE.stat().st_size < 200_000


def test_a_key_is_of_the_recipe(monkeypatch):
    before = pool.key(1)
    monkeypatch.setattr(capstone, "IMAGES", capstone.IMAGES + 2)
    assert pool.key(1) != before


@needs_pool
def test_the_careful_auditors_intervals_hold():
    low, high, _ = careful(POOL)
    held = POOL["effect"].between(low, high).mean()
    assert 0.83 < held < 0.97, held


@needs_pool
def test_what_is_usual_is_the_best_statement_for_all():
    low, high = players.ends(POOL)

    def mean(low, high):
        return winkler(low, high, POOL["effect"], confidence=0.9).mean()

    shifts = np.linspace(-0.1, 0.1, 21)
    assert mean(low, high) < min(mean(low + a, high + b) for a in shifts for b in shifts) + 0.001


def test_least_squares_by_another_implementation():
    rng = np.random.default_rng(0)
    suspects, target = rng.integers(0, 2, (50, 6)), rng.integers(0, 2, 50)
    answers = 0.3 * target + 0.2 * suspects[:, 0] + rng.normal(0, 0.1, 50)
    import statsmodels.api as sm

    fitted = sm.OLS(answers, sm.add_constant(np.column_stack([target, suspects]))).fit()
    seen, error = pool.careful(answers, target, suspects)
    np.testing.assert_allclose(seen, fitted.params[2:])
    np.testing.assert_allclose(error, fitted.bse[2:])


def test_the_share_of_a_map_by_hand():
    maps = np.array([[[1.0, 3.0], [0.0, 0.0]]])
    mask = np.zeros((1, 4, 4), bool)
    mask[0, :2, 2:3] = True  # half of the cell that has three quarters
    assert pool.map_share(maps, {"ball": mask, "rest": ~mask}, ("ball",)) == pytest.approx(0.375)
    assert pool.map_share(maps, {"ball": mask}, ()) == 0


# --- what is handed in ---


@pytest.fixture
def sealed(monkeypatch, tmp_path):
    """Two teams' sealed folders, and a folder for what they hand in."""
    quickly(monkeypatch)
    capstone.seal(SECRET, teams=2, out=tmp_path / "handout")
    return tmp_path


def hand_in(folder, team, name="form.csv", **numbers):
    """Fills in the form of a team's sealed folder."""
    table = pd.read_csv(folder / "handout" / team / "form.csv")
    own = folder / "forms" / team
    own.mkdir(parents=True, exist_ok=True)
    table.assign(**{"low": -0.1, "high": 0.1, "probability": 0.2} | numbers).to_csv(own / name, index=False)
    return own


def scored(folder, *, secret=SECRET, out="points"):
    return score(secret, handout=folder / "handout", forms=folder / "forms", out=folder / out)


def weights_of(folder, team):
    return (folder / "handout" / team / capstone.WEIGHTS[0]).resolve()


def test_the_exact_effects_are_those_of_another_implementation(sealed):
    """Of the suspects that are 0 or 1; those of degrees are drawn at their two values."""
    pictures, *_ = capstone.assigned(SECRET, 2)
    found = capstone.exact_effects.compute((pictures, weights_of(sealed, "team-02"), ""))
    network = models.build("small", 2, weights=weights_of(sealed, "team-02"))

    def ask(images):
        return softmax(training.predict(network, images), axis=1)[:, 1]

    table, world = pictures.table(), pictures.get_world()
    for effect, column in zip(found, pictures.suspects.values(), strict=True):
        if table[column].nunique() == 2 and set(table[column]) == {0, 1}:
            expected = metrics.causal_effect(ask, world, table, cue=column).mean()
        else:
            low, high = table[column].min(), table[column].max()
            with_it, without = (ask(world.render(table.assign(**{column: end})).images) for end in (high, low))
            expected = (with_it - without).mean()
        assert effect == pytest.approx(expected, abs=1e-6)
    assert np.abs(found).max() > 0


def test_a_class_is_scored_and_each_team_has_a_sheet(sealed, in_this_process):
    own = hand_in(sealed, "team-01")
    hand_in(sealed, "team-01", "rerun.csv")
    table = scored(sealed)
    pictures, *_ = capstone.assigned(SECRET, 1)
    effects = capstone.exact_effects.compute((pictures, weights_of(sealed, "team-01"), ""))
    stated = read_form(own / "form.csv", list(pictures.suspects))
    expected = points(stated, effects, again=stated)
    assert table.loc["team-01", list(PARTS)].to_dict() == pytest.approx(expected)
    assert table.loc["team-01", "together"] == pytest.approx(sum(expected.values()))
    assert expected["re-run"] == 5
    assert table.loc["team-02"].isna().all()
    assert pd.read_csv(sealed / "points" / "points.csv").set_index("team").round(1).equals(table.round(1))
    assert set(files(sealed / "points")) == {"points.csv", "team-01.md"}
    sheet = (sealed / "points" / "team-01.md").read_text()
    assert sheet.startswith(f"# team-01: {sum(expected.values()):.1f} of 60 points")
    for words, effect in zip(pictures.suspects, effects, strict=True):
        assert f"| {words} | -0.100 | 0.100 | 0.20 | {effect:.3f} |" in sheet


def test_a_sheet_says_what_was_planted(sealed, in_this_process):
    for team in ("team-01", "team-02"):
        hand_in(sealed, team)
    scored(sealed)
    for number in (1, 2):
        audited = capstone.assigned(SECRET, number)[1]
        sheet = (sealed / "points" / f"team-0{number}.md").read_text()
        assert ("Nothing was planted" in sheet) == (audited.strength == 0)
        assert (f"strength of {audited.strength:.2f}" in sheet) == (audited.strength > 0)
    assert {capstone.assigned(SECRET, number)[1].strength == 0 for number in (1, 2)} == {True, False}


def test_the_teachers_form_is_that_of_the_page():
    def rows(text):
        return [line for line in text.splitlines() if line.endswith(("| points |", " 10: |", " 5: |"))]

    template = (Path(capstone.__file__).parent / "sheet.md.j2").read_text(encoding="utf-8")
    assert rows(template) == rows(PAGE)
    assert sum(int(row.rsplit("of ", 1)[1].split(":")[0]) for row in rows(PAGE)[1:]) == 40


def test_the_same_secret_gives_the_same_score_and_another_is_refused(sealed, in_this_process):
    hand_in(sealed, "team-01")
    assert scored(sealed).equals(scored(sealed, out="again"))
    assert files(sealed / "points") == files(sealed / "again")
    with pytest.raises(BiaslibError, match="team-01 was sealed with another secret"):
        scored(sealed, secret="another one", out="other")
    assert not (sealed / "other").exists()


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        ({"low": 0.2}, "needs a low and a high from -1 to 1 in this order"),
        ({"high": 1.5}, "needs a low and a high from -1 to 1"),
        ({"probability": "0,5"}, "with a point and not a comma"),
        ({"probability": ""}, "and a probability from 0 to 1"),
        ({"suspect": "a"}, "needs one row for each of"),
    ],
)
def test_a_form_that_cannot_be_read_is_one_sentence_and_nothing_is_written(
    sealed, monkeypatch, capsys, numbers, sentence
):
    hand_in(sealed, "team-01")
    hand_in(sealed, "team-02", **numbers)
    places = {f"--{name}": str(sealed / name) for name in ("handout", "forms")} | {"--out": str(sealed / "points")}
    arguments = [part for pair in places.items() for part in pair]
    assert call(monkeypatch, "capstone", "score", "--secret", SECRET, *arguments) == 2
    told = capsys.readouterr().err
    assert sentence in told
    assert str(sealed / "forms" / "team-02" / "form.csv") in told
    assert told.count("\n") == 1
    assert not (sealed / "points").exists()


def test_a_folder_without_forms_or_without_teams_is_one_sentence(sealed):
    for handout in ("handout", "forms"):
        with pytest.raises(BiaslibError, match=r"There is no form of a team of .*, such as .*team-01/form.csv"):
            score(SECRET, handout=sealed / handout, forms=sealed / "forms", out=sealed / "points")


def test_the_command_prints_the_points(sealed, monkeypatch, capsys, in_this_process):
    hand_in(sealed, "team-02")
    places = {f"--{name}": str(sealed / name) for name in ("handout", "forms")} | {"--out": str(sealed / "points")}
    arguments = [part for pair in places.items() for part in pair]
    assert call(monkeypatch, "capstone", "score", "--secret", SECRET, *arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [*PARTS, "together"]
    assert "no form" in next(line for line in lines if line.startswith("team-01"))


# --- slow by nature: real models ---


@needs_pool
@pytest.mark.slow
def test_a_row_of_the_pool_comes_again():
    """On another processor a training ends a little elsewhere."""
    for team in (7, 25):
        stored = POOL.loc[POOL["model"] == team, ["effect", "seen", "error", "share", "right"]].to_numpy()
        np.testing.assert_allclose(pool.measured(team), stored, atol=0.05)


@pytest.mark.slow
def test_one_real_seal_can_be_audited_with_what_is_in_it(tmp_path, monkeypatch, in_this_process, capsys):
    start = time.monotonic()
    (folder,) = capstone.seal(SECRET, teams=1, out=tmp_path / "handout")
    a_model = (time.monotonic() - start) * parallel.cores() / len(capstone.WEIGHTS)  # seconds of a core
    assert a_model * (12 + 2 * len(CANDIDATES)) / 2 < 15 * 60, "a class of twelve takes too long on two cores"
    monkeypatch.chdir(folder)
    text = (folder / "README.md").read_text()
    names: dict = {}
    exec(text.split("```python\n")[1].split("```")[0], names)
    labels, answers = names["labels"].to_numpy()[:, 1:].astype(float), names["probability"]
    assert ((answers > 0.5) == labels[:, 0]).mean() > 0.7
    model = pd.DataFrame(dict(zip(("seen", "error"), pool.careful(answers, labels[:, 0], labels[:, 1:]), strict=True)))
    low, high, probability = careful(model)
    for name in ("form.csv", "rerun.csv"):
        hand_in(tmp_path, "team-01", name, low=low, high=high, probability=probability)
    careful_points = scored(tmp_path).loc["team-01", "together"]
    hand_in(tmp_path, "team-01", low=-0.1, high=0.3, probability=0.25)  # about what is usual
    assert careful_points > scored(tmp_path, out="other").loc["team-01", "together"] + 5

    command = text.split("```bash\n")[1].split("```")[0].replace("\\\n", " ")
    assert call(monkeypatch, *shlex.split(command)[1:]) == 0
    assert (folder / "report" / "report.html").is_file()
