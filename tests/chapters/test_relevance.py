"""What maps lie on, and the comparisons of biased with unbiased models that are recorded of it."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from biaslib.attribution import METHODS
from biaslib.chapters import relevance
from biaslib.chapters.planted_models import USE_CASES, WITH_TOOLBOX, EvaluationImages, PlantedSetup, regions
from biaslib.chapters.relevance import BIASED, SAW_BALLS, UNBIASED, alarm_rate, compared
from biaslib.statistics import welch

TINY = PlantedSetup(images=64, size=32, epochs=1)
FEW = EvaluationImages(images=10)


@pytest.mark.parametrize("use_case", list(USE_CASES))
def test_a_map_that_is_the_object_scores_one_and_a_flat_one_the_objects_area(use_case, monkeypatch):
    case = USE_CASES[use_case]
    samples = FEW.samples(replace(TINY, use_case=use_case))
    truth = samples.labels[case.world.target].to_numpy(int)
    region = next(region for region, number in case.objects.values() if number == case.favoured)
    made = {name: np.ones((10, 4, 4), np.float32) for name in WITH_TOOLBOX}
    outlined = np.zeros((10, 32, 32), np.float32)
    for name, (rows, masks) in regions(use_case, samples, boxes=False).items():
        outlined[rows] += masks * (case.objects[name][0] == region)
    made["Integrated gradients"] = outlined
    made["Score-CAM"] = np.zeros((10, 4, 4), np.float32)
    found = {**made, "logits": np.eye(len(case.classes))[truth], "truth": truth, "explained": truth}
    monkeypatch.setattr(relevance, "maps", lambda *_: [found])
    fine, whole = (
        relevance._scores.compute((replace(TINY, use_case=use_case), FEW, False, cells)) for cells in (None, 1)
    )
    table, averaged = fine.set_index("method"), whole.set_index("method").loc["Integrated gradients"]
    on = averaged[averaged["rma"].notna()]  # on one cell even the map that is the object is flat
    np.testing.assert_allclose(on[["rma", "rra"]].to_numpy().T, [on["area"]] * 2, rtol=1e-5)
    exact = table.loc["Integrated gradients"]
    on_it = exact[exact["object"].map({name: case.objects[name][0] == region for name in case.objects})]
    np.testing.assert_allclose(on_it[["rma", "rra"]], 1)
    np.testing.assert_allclose(table.loc["Grad-CAM", "pixels"], 32 * 32, rtol=1e-5)
    np.testing.assert_allclose(on_it["pixels"], outlined.sum((1, 2))[on_it["image"]], rtol=1e-5)
    flat = table.loc["Grad-CAM"]
    np.testing.assert_allclose(flat["rma"], flat["area"], rtol=1e-5)
    np.testing.assert_allclose(flat["rra"], flat["area"], rtol=1e-5)
    assert table.loc["Score-CAM", ["rma", "rra", "pixels"]].isna().all(axis=None)
    assert table["correct"].all()
    assert set(table["object"]) == set(case.objects)


def test_a_pixel_that_two_cells_share_counts_half_in_each(monkeypatch):
    truth = FEW.samples(TINY).labels["cat"].to_numpy(int)
    upper, halves = np.zeros((10, 7, 7), np.float32), np.full((10, 2, 2), 1 / 7, np.float32)
    upper[:, :4], halves[:, 0] = 1, 1
    found = []
    for maps, cells in ((upper, 2), (halves, None)):
        made = dict.fromkeys(WITH_TOOLBOX, maps) | {"logits": np.eye(2)[truth], "truth": truth, "explained": truth}
        monkeypatch.setattr(relevance, "maps", lambda *_, made=made: [made])
        found.append(relevance._scores.compute((TINY, FEW, False, cells)))
    np.testing.assert_allclose(found[0]["rma"], found[1]["rma"], rtol=1e-5)


@pytest.fixture(scope="module")
def table():
    """Two networks, three models a kind, 40 images an object; a biased model has 0.3 more on the ball."""
    rng, rows = np.random.default_rng(0), []
    objects = {"pets": ("Cat", "Ball"), "fruits": ("Apple", "Banana", "Lemon (for corn)")}
    kinds = {"pets": (BIASED, UNBIASED, SAW_BALLS), "fruits": (BIASED, UNBIASED)}
    model = 0
    for use_case, names in objects.items():
        for network in ("small MobileNet", "small EfficientNet"):
            for kind in kinds[use_case]:
                for _ in range(3):
                    for name in names:
                        for method in WITH_TOOLBOX:
                            moved = 0.3 * (kind == BIASED and name == "Ball") + 0.2 * (method == "Grad-CAM")
                            spread = 0.2 * (name == "Banana" and network == "small MobileNet")
                            mass = 0.3 + moved + spread + 0.02 * rng.normal(size=40)
                            rows.append(
                                pd.DataFrame(
                                    {
                                        "use case": use_case, "network": network, "trained": kind, "model": model,
                                        "object": name, "method": method, "image": np.arange(40), "rma": mass,
                                        "rra": mass - 0.1 * (method == "Grad-CAM"), "pixels": 100.0, "area": 0.1,
                                        "correct": np.arange(40) > 3,
                                    }
                                )
                            )  # fmt: skip
                    model += 1
    table = pd.concat(rows, ignore_index=True)
    score_cam = (table["method"] == "Score-CAM") & (table["image"] >= 20)  # not explained
    table.loc[score_cam, ["rma", "rra", "pixels"]] = np.nan
    return table


@pytest.fixture(scope="module")
def found(table):
    return compared(table, seed=0)


def test_what_is_planted_in_a_table_is_found(found):
    tests = found["tests"].set_index(["object", "measure"]).sort_index()
    assert tests.loc[("Ball", "rma"), "estimate"].to_numpy() == pytest.approx(0.3, abs=0.02)
    assert (tests.loc[("Ball", "rma"), "p, corrected"] < 0.05).all()
    assert (tests.loc[("Cat", "rma"), "p, corrected"] > 0.05).all()
    assert len(found["tests"]) == 2 * 5 * 2 * 5  # networks, objects, measures, methods
    means = found["means"].set_index(["object", "trained", "measure"]).sort_index()
    ball = means.loc[("Ball", UNBIASED, "rma")].query("method == 'ε-LRP'")
    assert ((ball["low"] < 0.3) & (ball["high"] > 0.3)).all()
    assert means["area"].to_numpy() == pytest.approx(0.1)
    assert found["pixels"]["estimate"].to_numpy() == pytest.approx(100.0)
    assert set(found["pixels"]["object"]) == {"Ball", "Apple"}


def test_methods_are_compared_on_the_same_images(found):
    contrasts = found["contrasts"].set_index(["what", "measure"]).sort_index()
    assert contrasts.loc[("Grad-CAM less the others", "rma"), "estimate"].to_numpy() == pytest.approx(0.2, abs=0.02)
    assert contrasts.loc[("range of the methods", "rma"), "estimate"].to_numpy() == pytest.approx(0.2, abs=0.03)
    assert contrasts.loc[("pixelwise less CAMs", "rra"), "estimate"].to_numpy() == pytest.approx(-0.05, abs=0.02)
    assert (contrasts.loc[("RMA and RRA", "tau"), "estimate"] > 0.9).all()
    novelty = contrasts.loc[("never saw less saw", "rma")]
    assert len(novelty) == 2 * 5
    assert novelty["estimate"].to_numpy() == pytest.approx(0, abs=0.02)
    spread = contrasts.loc[("spread between fruits, MobileNet less EfficientNet", "rma")]
    assert spread["estimate"].to_numpy() == pytest.approx(np.std([0, 0, 0.2], ddof=1), abs=0.02)
    assert (spread["low"] > 0.05).all()


@pytest.mark.slow
def test_models_that_differ_alike_on_all_fruits_leave_the_spread_between_fruits_as_it_is(table):
    """Each fruit is seen by the same models: what one of them has more of everywhere moves no spread."""
    fruits = table[table["use case"] == "fruits"]
    offset = 0.3 * (fruits["model"] % 3)
    spans = []
    for rma in (fruits["rma"], fruits["rma"] + offset):
        found = pd.DataFrame(relevance._between_fruits(relevance._cells(fruits.assign(rma=rma)), 0))
        spans.append(found[["estimate", "low", "high"]].to_numpy())
    np.testing.assert_allclose(*spans, atol=1e-9)


def test_the_papers_p_is_that_of_the_fruit_that_another_stands_in_for(found):
    tests = found["tests"].set_index(["network", "object", "method", "measure"]).sort_index()["paper's p"]
    assert tests["small MobileNet", "Lemon (for corn)", "ε-LRP", "rma"] == 0.46
    assert np.isnan(tests["small MobileNet", "Apple", "ε-LRP, toolbox", "rma"])


@pytest.mark.slow
def test_wrong_answers_count_only_in_the_column_of_all_answers(table, found):
    wrong = table["correct"].eq(False) & table["trained"].eq(BIASED) & table["object"].eq("Cat")
    tests = compared(table.assign(rma=table["rma"] + wrong), seed=0)["tests"]
    before, after = (each.query("object == 'Cat' and measure == 'rma'") for each in (found["tests"], tests))
    np.testing.assert_allclose(before["estimate"], after["estimate"])
    assert (after["all answers"] > before["all answers"] + 0.05).all()


def test_models_that_differ_by_chance_only_raise_few_alarms(found):
    alarms = found["alarms"].set_index("use case")
    assert (alarms["estimate"] < 0.15).all()
    assert (alarms["at the paper's"] < 0.15).all()
    assert alarms.loc["pets", "paper's images"] == 144
    assert alarms.loc["pets", "n"] == 3 * 2 * 2 * 4 * 2  # pairs, networks, objects, methods, measures


def test_the_computed_rate_of_alarms_is_that_of_simulated_models():
    rng, n, parts = np.random.default_rng(3), 100, (0.1, 1.0, 0.5)
    p = []
    for _ in range(800):
        images = rng.normal(0, parts[1], n)
        a, b = (images + rng.normal(0, parts[0]) + rng.normal(0, parts[2], n) for _ in "ab")
        p.append(welch(a, b).p)
    computed = alarm_rate(*(part**2 for part in parts), n)
    assert np.mean(np.array(p) < 0.05) == pytest.approx(computed, abs=0.04)
    assert alarm_rate(0, 0, 1, n) == pytest.approx(0.05)
    assert alarm_rate(1, 1, 0, 10**8) == pytest.approx(1, abs=1e-3)
    assert np.isnan(alarm_rate(np.nan, np.nan, np.nan, n))
    assert set(METHODS) < set(WITH_TOOLBOX)
