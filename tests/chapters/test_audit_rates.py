"""How often reports are wrong: what is counted, what is true, and the table that travels with the audit.

`python -m tests.chapters.test_audit_rates` writes that table anew, from the record of the page on audits.
"""

from importlib import resources
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from biaslib import audit, metrics, recipes, store, training, worlds
from biaslib.audit.records import Finding
from biaslib.book import recorded
from biaslib.chapters import audit_rates
from biaslib.dial.measuring import probability
from biaslib.dial.trials import Trial
from biaslib.errors import BiaslibError
from biaslib.statistics import Interval

SHIPPED = resources.files("biaslib.audit").joinpath("error_rates.csv")
TINY = {"strength": 1.0, "images": 64, "epochs": 1, "size": 32, "test_images": 60, "explained": 1}
CHECKED = 48


def models():
    """Three unbiased and three biased models of two worlds, a row each of a report with maps."""
    rows = [
        # world, strength, effect's band, accused, by map alone, found, false, decided, told, right, named, by chance
        ("birds", 0.0, "less", "", False, False, 0, 4, 2, 2, False, False),
        ("birds", 0.0, "less", "region of cue", True, False, 1, 4, 1, 1, True, False),
        ("pets", 0.0, "less", "gap of other; region of cue", False, False, 2, 3, 0, 0, False, True),
        ("birds", 0.6, "about 0.1", "gap of cue", False, True, 0, 4, 2, 1, True, False),
        ("pets", 0.6, "about 0.1", "", False, False, 0, 2, 0, 0, False, False),
        ("pets", 0.8, "more", "amplification of cue", False, True, 1, 4, 3, 3, True, False),
    ]
    names = ["world", "strength", "band", "accused", "by_map", "found", "false"]
    names += ["decided", "told", "right", "named", "by_chance"]
    return pd.DataFrame(rows, columns=names).assign(report="maps", images=60)


def test_models_are_counted_by_what_is_true_of_them():
    table = audit_rates.error_rates(models()).set_index("world")
    assert list(table.index) == ["all worlds", "birds", "pets"]
    every = table.loc["all worlds"]
    assert every["accused"] == "2 of 3"
    assert every["by map alone"] == 1
    # of six models three had a test that was false; Clopper and Pearson's ends are quantiles of Beta(3, 4), Beta(4, 3)
    assert every["false alarms"] == "3 of 6"
    assert every["low"] == pytest.approx(scipy.stats.beta.ppf(0.025, 3, 4), abs=5e-4)
    assert every["high"] == pytest.approx(scipy.stats.beta.ppf(0.975, 4, 3), abs=5e-4)
    assert [every[band] for band in ("about 0.05", "about 0.1", "about 0.2", "more")] == [
        "0 of 0", "1 of 2", "0 of 0", "1 of 1",
    ]  # fmt: skip
    assert every[["outcomes right", "outcomes told"]].tolist() == ["7 of 8", "8 of 21"]
    assert every["slices by chance"] == "1 of 6"
    assert every[["slices of the cue", "slices of the cue, unbiased"]].tolist() == ["2 of 3", "1 of 3"]
    assert table.loc["pets", ["accused", "about 0.1", "outcomes right"]].tolist() == ["1 of 1", "0 of 1", "3 of 3"]


def test_the_order_of_models_and_other_reports_change_nothing():
    table = audit_rates.error_rates(models())
    other = models().assign(report="answers alone", accused="", found=False, false=0)
    both = audit_rates.error_rates(pd.concat([models(), other]))
    pd.testing.assert_frame_equal(both[both["report"] == "maps"].reset_index(drop=True), table)
    turned = audit_rates.error_rates(models()[::-1]).sort_values("world", ignore_index=True)
    pd.testing.assert_frame_equal(turned, table.sort_values("world", ignore_index=True))


def point(value):
    return Interval(value, np.nan, np.nan, 100)


def tables_of(gaps=(), p=(), shift=0.0, p_shift=1.0, excess=0.0, p_excess=1.0):
    """The tables of an audit, with p as corrected and not, of gaps among as many kinds of images."""
    places = {"group": "cue", "among": [str(place) for place in range(len(gaps))]}
    tables = {
        "gaps": pd.DataFrame({**places, "gap": [*map(point, gaps)], "p": [*p]}),
        "amplification": pd.DataFrame({"group": ["cue"], "direction": ["→"], "shift": [point(shift)], "p": [p_shift]}),
        "regions": pd.DataFrame({"region": ["cue"], "excess": [point(excess)], "p": [p_excess]}),
    }
    return {name: table.assign(**{"p corrected": table["p"]}) for name, table in tables.items()}


def judged(outcomes, true_gaps, *found):
    findings = [Finding(kind, of, "", 0.01) for kind, of in found]
    of_report = tables_of() | {"visible": pd.DataFrame({"outcome": outcomes})}
    truth = SimpleNamespace(tables=tables_of(true_gaps, np.ones(len(true_gaps))))
    return audit_rates._judged(SimpleNamespace(tables=of_report, margin=0.05, findings=findings), truth)


@pytest.mark.parametrize(
    ("said", "true", "false"),
    [
        ({"gaps": [0.1, 0.0], "p": [0.04, 0.3]}, {"gaps": [0.03, 0.0], "p": [0.01, 0.8]}, 0),
        ({"gaps": [0.1, 0.0], "p": [0.04, 0.3]}, {"gaps": [0.03, 0.0], "p": [0.2, 0.8]}, 1),  # not seen again
        ({"gaps": [0.1, 0.0], "p": [0.04, 0.3]}, {"gaps": [-0.03, 0.0], "p": [0.01, 0.8]}, 1),  # the other way round
        ({"gaps": [0.1, -0.2], "p": [0.04, 0.01]}, {"gaps": [0.0, 0.0], "p": [0.9, 0.9]}, 2),
        ({"shift": 0.1, "p_shift": 0.01}, {"shift": 0.1, "p_shift": 0.01}, 0),
        ({"shift": 0.1, "p_shift": 0.01}, {"shift": 0.1, "p_shift": np.nan}, 1),  # what was not tested says nothing
        ({"excess": -0.1, "p_excess": 0.01}, {"excess": 0.1, "p_excess": 0.01}, 1),
        ({"excess": -0.1, "p_excess": 0.06}, {"excess": 0.1, "p_excess": 0.01}, 0),  # nothing was said
    ],
)
def test_a_test_is_false_where_many_more_pictures_do_not_say_so(said, true, false):
    tables = tables_of(**said) | {"visible": pd.DataFrame({"outcome": ["cannot be told"] * len(true.get("gaps", ()))})}
    report = SimpleNamespace(tables=tables, margin=0.05, findings=[])
    assert audit_rates._judged(report, SimpleNamespace(tables=tables_of(**true)))["false"] == false


def test_an_outcome_is_right_where_truth_is_on_its_side_of_the_margin():
    row = judged(
        ["shown", "shown", "excluded", "excluded", "cannot be told", "shown"], [-0.2, 0.01, 0.0, 0.3, 0.3, 0.06]
    )
    # the last is too close to the margin to decide anything
    assert (row["decided"], row["told"], row["right"]) == (5, 4, 2)
    assert (row["accused"], row["found"], row["by_map"]) == ("", False, False)


@pytest.mark.parametrize(
    ("found", "accused", "of_cue", "by_map"),
    [
        ([("gap", "cue"), ("gap", "cue")], "gap of cue", True, False),
        ([("region", "cue")], "region of cue", False, True),
        ([("region", "object"), ("amplification", "cue")], "amplification of cue; region of object", True, False),
        ([("gap", "other")], "gap of other", False, False),
    ],
)
def test_what_is_found_is_told_apart(found, accused, of_cue, by_map):
    row = judged(["excluded"], [0.0], *found)
    assert (row["accused"], row["found"], row["by_map"]) == (accused, of_cue, by_map)


# pets: pictures and masks as of digits, answers as of birds
@pytest.mark.parametrize("world", ["birds", "digits", pytest.param("pets", marks=pytest.mark.slow), "faces"])
@pytest.mark.usefixtures("in_this_process")
def test_a_model_is_audited_without_a_word_of_what_it_is(world, monkeypatch):
    asked, trial = [], Trial(world=world, **TINY)
    seen_of = audit.run

    def seen(**given):
        folders = [sorted(path.name for path in given["masks"].iterdir()) if "masks" in given else []]
        asked.append((given, *folders, seen_of(**given)))
        return asked[-1][-1]

    monkeypatch.setattr(audit, "run", seen)
    monkeypatch.setattr(audit_rates, "_PAIRS", 30)
    rows = audit_rates.measured([trial], checked=CHECKED)
    assert rows["report"].tolist() == ["maps", "answers alone"]
    (known, _, truth), (given, regions, maps), (chance, _, shuffled), (_, _, alone) = asked
    # what is true is counted on other pictures, in the order of the report's outcomes
    other = truth.answers[truth.answers["target"].astype(int) == 0].groupby("cue")["right"]
    by_hand = other.mean()
    assert len(known["labels"]) == CHECKED
    assert not known["corrected"]
    assert truth.tables["gaps"]["gap"][1].estimate == pytest.approx(by_hand.iloc[1] - by_hand.iloc[0])
    order = [tables[["group", "among"]] for tables in (truth.tables["gaps"], maps.tables["visible"])]
    pd.testing.assert_frame_equal(*order)
    assert regions == (["object"] if world == "birds" else ["cue", "object"])
    said = [*given["labels"], given["target"], *given["groups"], *regions]
    assert not any(word in name.lower() for name in said for word in (world, worlds.get(world).cue.lower()))
    # the answers are the model's, and so is the effect of the cue
    model, drawn = recipes.load(trial.recipe), trial.tested(0.0, audit_rates._SEED + 100)
    answers = probability(world, training.predict(model, drawn.samples().images)) > 0.5
    np.testing.assert_array_equal(maps.answers["answer about target"].astype(int), answers)
    np.testing.assert_array_equal(maps.answers["target"].astype(int), trial.truth(drawn.table()))
    pd.testing.assert_frame_equal(alone.tables["gaps"].iloc[:, :7], maps.tables["gaps"].iloc[:, :7])
    if world != "digits":  # whose cue is a column beside another
        shared = trial.drawn_by.factors(audit_rates._PAIRS, strength=0.0, seed=audit_rates._SEED - 1)
        effect = metrics.causal_effect(
            lambda images: probability(world, training.predict(model, images)), trial.drawn_by, shared,
            cue=trial.drawn_by.cue, size=trial.data.size,
        )  # fmt: skip
        assert rows["effect"][0] == pytest.approx(effect.mean(), abs=1e-4)
    # errors that were drawn anew are as many with each answer, among other pictures
    before, after = (of.answers.assign(wrong=1 - of.answers["right"]) for of in (maps, shuffled))
    counts = [of.groupby("answer about target")["wrong"].sum() for of in (before, after)]
    pd.testing.assert_series_equal(*counts)
    assert (before["wrong"] != after["wrong"]).any() or before["wrong"].sum() in (0, len(before))
    assert chance["discover"]
    assert [entry.kind for entry in store.entries()].count("audit-reports") == 1


def test_a_world_that_is_not_rated_is_refused():
    with pytest.raises(BiaslibError, match="a world whose reports are rated must be one of birds, digits, pets, faces"):
        audit_rates.measured([Trial(world="scenes", strength=0.0)], checked=10)


def of_the_record() -> pd.DataFrame:
    record = recorded.get("audit", "standard")
    assert record is not None, "the record is missing: biaslib run audit --preset standard --record"
    return audit_rates.error_rates(record["values"]["reports"])


def test_the_table_that_audits_carry_is_that_of_the_record():
    made = of_the_record()
    with SHIPPED.open(encoding="utf-8") as file:
        pd.testing.assert_frame_equal(pd.read_csv(file), made)
    models = recorded.get("audit", "standard")["values"]["reports"].query("report == 'maps'")
    assert models["world"].nunique() == 4
    assert min((models["strength"] == 0).sum(), (models["strength"] > 0).sum()) >= 40
    assert not models.duplicated(["world", "strength", "seed"]).any()


def test_a_report_says_where_effects_and_outcomes_begin_to_count():
    page = resources.files("biaslib.audit").joinpath("report.html.j2").read_text(encoding="utf-8")
    *first, last = [f"{end:g}" for end in list(audit_rates.BANDS.values())[:-1]]
    assert f"The four columns begin at {', '.join(first)} and {last}." in page
    margin = f"{100 * audit.AuditOptions.margin:g} points"
    assert f"whose true size was further than {audit_rates._CLEAR:g} from the margin of {margin}." in page
    assert len(first) + 1 == 4


if __name__ == "__main__":
    with store.replacing(Path(str(SHIPPED))) as partial:
        of_the_record().to_csv(partial, index=False, lineterminator="\n")
