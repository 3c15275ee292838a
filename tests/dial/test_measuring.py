import numpy as np
import pytest

from biaslib import attribution, metrics, recipes, training, worlds
from biaslib.dial import measuring
from biaslib.dial.catalogue import METRICS
from biaslib.dial.measuring import MapScore, balanced, measured
from biaslib.dial.trials import Trial

pytestmark = pytest.mark.usefixtures("in_this_process")

WORLDS = ("birds", "pets", "fruits", "digits", "faces", "scenes")
TINY = {"images": 64, "epochs": 1, "size": 32, "test_images": 20, "explained": 10}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """One model of every world, measured once for all tests here."""
    import contextlib
    from concurrent.futures import ThreadPoolExecutor

    from biaslib.store import parallel

    @contextlib.contextmanager
    def workers(scheduler=None):
        with ThreadPoolExecutor(1) as executor:
            yield executor, 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BIASLIB_STORE", str(tmp_path_factory.mktemp("store")))
        patch.setattr(parallel, "workers", workers)
        trials = [Trial(world=world, strength=1.0, **TINY) for world in WORLDS]
        found = zip(trials, measured(trials), strict=True)
        yield {trial.world: (one, recipes.load(trial.recipe)) for trial, one in found}


def test_the_effect_is_the_exact_one(found):
    one, model = found["birds"]

    def probability(images):
        return measuring.probability("birds", training.predict(model, images))

    world = worlds.get("birds")
    exact = metrics.causal_effect(probability, world, balanced(one.trial), cue=world.cue, size=32)
    np.testing.assert_allclose(one.effect, exact, atol=1e-6)


@pytest.mark.parametrize("world", WORLDS)
def test_answers_are_those_of_the_balanced_images(found, world):
    one, model = found[world]
    images = measuring.pictures(one.trial).images
    answers = measuring.probability(world, training.predict(model, images)) > 0.5
    np.testing.assert_array_equal(one.answer, answers)
    assert (one.truth == one.cue).mean() == 0.5
    assert one.cue.mean() == (0.4 if world == "digits" else 0.5)  # whose corners come in fours
    assert one.truth.mean() == (0.2 if world == "fruits" else 0.5)
    np.testing.assert_array_equal(one.correct, answers == one.truth)


@pytest.mark.parametrize("world", WORLDS)
def test_every_metric_is_a_number_of_its_paper_or_missing(found, world):
    one, _ = found[world]
    rows = np.arange(20)
    values = {metric.name: metric.value(one, rows) for metric in METRICS.values()}
    assert values["Worst-group accuracy"] == metrics.worst_group_accuracy(one.correct, one.group)
    assert values["Sensitivity, exact counterfactuals"] == pytest.approx(one.effect.mean())
    assert np.isfinite(values["Mask score of the object"])
    assert np.isfinite(values["Heatmap score"]) == (world in ("digits", "faces", "scenes"))
    assert np.isfinite(values["RMA of the object, Score-CAM"]) == (world in ("birds", "pets"))
    assert np.isfinite(values["RMA of the cue, Grad-CAM"]) == (world not in ("birds", "fruits"))  # the object's, there
    assert np.isfinite(values["RRA of the cue, Grad-CAM"])
    assert np.isfinite(values["RMA of the object, edges"])
    assert np.isfinite(values["AOPC, Grad-CAM"]) == (world == "pets")
    assert np.isfinite(values["Amplification, undirected, sets"]) == (world in ("digits", "faces", "scenes"))


def test_a_case_holds_maps_and_masks_for_metrics_that_nobody_has_written(found):
    one, _ = found["birds"]
    assert set(one.maps) == set(attribution.METHODS)
    assert all(len(maps) == TINY["explained"] for maps in one.maps.values())
    assert max(float(maps.max()) for maps in one.maps.values()) == 1
    assert (one.mask("object") ^ one.mask("cue")).all()  # the cue is all that is not the bird
    fine = metrics.upsample_maps(one.maps["Grad-CAM"].astype(np.float32), 32, 32)
    mass = metrics.relevance_mass_accuracy(fine, one.mask("object")[: TINY["explained"]])
    np.testing.assert_allclose(mass, one.scores[MapScore("RMA", "object")], atol=2e-3)


def test_null_maps_do_not_know_the_model(found):
    one, _ = found["pets"]
    other = measured([Trial(world="pets", strength=0.0, **TINY)])[0]
    for name in ("centre", "edges"):
        key = MapScore("RMA", "object", name)
        np.testing.assert_array_equal(one.scores[key], other.scores[key])
    area = one.mask("object")[: TINY["explained"]].mean()
    assert np.mean(one.scores[MapScore("RMA", "object", "random map")]) == pytest.approx(area, abs=0.02)
    assert not METRICS["RMA of the object, edges"].audits


def test_amplification_is_the_metric_of_its_module(found):
    one, _ = found["scenes"]
    direct = metrics.bias_amplification(
        one.train, one.test, one.predicted, kind="attribute_to_group", max_size=1, absolute=False, n_groups=2
    ).mean
    everything = np.arange(len(one.test))
    assert METRICS["Amplification, attribute → group"].value(one, everything) == pytest.approx(direct)


def test_images_drawn_twice_count_twice(found):
    one, _ = found["birds"]
    rows = np.array([0, 0, 0, 1])
    value = METRICS["Mask score of the object"].value(one, rows)
    scores = one.scores[MapScore("mask score", "object")]
    assert value == pytest.approx((3 * scores[0] + scores[1]) / 4)
    assert np.isnan(METRICS["Accuracy gap"].value(one, np.flatnonzero(one.truth == one.cue)))
