from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from biaslib.book import plan
from biaslib.chapters import mitigation, scene_models
from biaslib.chapters.mitigation import METHODS, Setting
from biaslib.chapters.scene_models import HAIR, HAIR_ATTRIBUTES, HairSetup, PeopleSetup, _HairFaces, outcomes
from biaslib.errors import BiaslibError
from biaslib.metrics import Labels, bias_amplification, calibrated_thresholds, mean_average_precision
from biaslib.recipes import Loaded
from biaslib.store import parallel
from tests import layouts

pytestmark = [
    pytest.mark.usefixtures("in_this_process", "store_of_the_module"),
    pytest.mark.filterwarnings("ignore::biaslib.datasets.DatasetWarning"),
]

QUICK_HAIR = HairSetup(epochs=1, size=16, batch=16, eps=0.2)


@pytest.fixture(scope="module")
def hair_colours(tmp_path_factory):
    """270 pictures whose colour is the hair's; three of them have two hair colours, three have none."""
    root = tmp_path_factory.mktemp("faces")
    rng = np.random.default_rng(0)
    hair = rng.integers(3, size=270)
    table = pd.DataFrame({name: rng.random(270) < 0.4 for name in HAIR_ATTRIBUTES})
    for colour, name in enumerate(HAIR):
        table[name] = hair == colour
    table.loc[:2, list(HAIR)] = [True, True, False]
    table.loc[3:5, list(HAIR)] = False
    layouts.celeba(root, table)
    for row, colour in enumerate(hair):
        path = root / "celeba" / "img_align_celeba" / f"{row + 1:06d}.jpg"
        layouts.picture(path, size=(89, 109), colour=((20, 20, 20), (240, 230, 120), (120, 70, 30))[colour], inset=0)
    return root


@pytest.fixture
def hair(hair_colours, monkeypatch):
    monkeypatch.setenv("BIASLIB_DATA", str(hair_colours))
    return hair_colours


def test_only_faces_with_one_hair_colour_are_used(hair):
    data = _HairFaces(name="celeba", size=16)
    samples, labels = data.samples(), data.table().to_numpy()
    assert len(samples) == len(labels) == 88  # of 90, as each split has one of the three with two and one with none
    assert labels.shape == (88, 24)
    everyone = Loaded(name="celeba", size=16).samples()
    one_colour = everyone.take(np.flatnonzero(everyone.labels[list(HAIR)].sum(axis=1) == 1))
    np.testing.assert_array_equal(samples.images, one_colour.images)
    np.testing.assert_array_equal(labels[:, -1], one_colour.labels[list(HAIR)].to_numpy().argmax(axis=1))
    np.testing.assert_array_equal(labels[:, :-1], one_colour.labels[list(HAIR_ATTRIBUTES)])
    pd.testing.assert_frame_equal(samples.labels, data.table())


def test_predictions_follow_thresholds_of_the_validation_faces_and_the_likeliest_group(hair):
    first, other = outcomes([QUICK_HAIR, replace(QUICK_HAIR, seed=1)])
    assert (len(first.train), len(first.validation), len(first.test)) == (88, 88, 88)
    said = first.predicted()
    np.testing.assert_array_equal(said.groups, first.test_logits[:, 23:].argmax(axis=1))
    np.testing.assert_array_equal(first.test.groups, _HairFaces(name="celeba", size=16, split="test").table()["hair"])
    assert (first.test_logits != other.test_logits).any()
    expected = calibrated_thresholds(first.validation.attributes, first.validation_logits[:, :23])
    np.testing.assert_array_equal(said.attributes, first.test_logits[:, :23] > expected)


def test_what_can_be_seen_is_learnt(hair):
    (found,) = outcomes([replace(QUICK_HAIR, epochs=25, batch=8)])
    assert np.mean(found.predicted().groups == found.test.groups) > 0.9


def test_a_second_call_trains_nothing_and_other_pictures_are_another_result(hair, monkeypatch):
    before = outcomes([QUICK_HAIR])[0]

    def refuse(*arguments, **options):
        raise AssertionError("trained again")

    monkeypatch.setattr(parallel, "workers", refuse)
    np.testing.assert_array_equal(outcomes([QUICK_HAIR])[0].test_logits, before.test_logits)
    path = hair / "celeba" / "img_align_celeba" / "000010.jpg"
    picture = path.read_bytes()
    path.unlink()
    with pytest.raises(AssertionError, match="trained again"):
        outcomes([QUICK_HAIR])
    path.write_bytes(picture)


def test_missing_faces_are_said_before_any_training(tmp_path, monkeypatch):
    monkeypatch.setenv("BIASLIB_DATA", str(tmp_path))
    with pytest.raises(BiaslibError, match=r"list_attr_celeba\.txt is missing: .*non-commercial"):
        outcomes([QUICK_HAIR])


@pytest.mark.slow
def test_methods_are_measured_on_faces_as_on_scenes(hair):
    settings = [Setting(method=method, original=QUICK_HAIR, draws=1, sets="observed") for method in METHODS]
    settings.append(replace(settings[list(METHODS).index("Oversampling")], balanced=True))
    table = mitigation.measured(settings)
    assert set(table["method"]) == set(METHODS)
    amplified = table[table.kind != "quality"]
    own = amplified[(amplified.method == "Original") & (amplified.reference == "own")].set_index(["kind", "measure"])
    (outcome,) = outcomes([QUICK_HAIR])
    whole = bias_amplification(outcome.train, outcome.test, outcome.predicted(), sets="observed")
    row = own.loc[("undirected", "label sets, sizes")]
    assert (row["value"], row["never"]) == (100 * whole.mean, whole.n_never_predicted)
    quality = table[(table.kind == "quality") & ~table.balanced].set_index(["measure", "method"])["value"]
    truth = np.column_stack([outcome.test.attributes, np.eye(3)[outcome.test.groups]])
    scores = np.column_stack([outcome.test_logits[:, :23], outcome.group_scores()])
    expected = mean_average_precision(truth, scores).mean  # over the hair colours too, as the released code has it
    assert quality["map_groups", "Original"] == pytest.approx(expected)
    assert quality["map", "Original"] == pytest.approx(mean_average_precision(truth[:, :23], scores[:, :23]).mean)


def test_a_balanced_test_set_is_drawn_again_by_the_same_rule(hair, monkeypatch):
    plain = mitigation._decisions(Setting(method="Oversampling", original=QUICK_HAIR))
    asked = []

    def drawn_again(attributes, groups, *, eps, seed):
        asked.append((attributes.shape, len(groups), eps, seed))
        return np.array([3, 3, 0])

    monkeypatch.setattr(mitigation, "oversample", drawn_again)
    balanced = mitigation._decisions(Setting(method="Oversampling", original=QUICK_HAIR, balanced=True))
    assert asked == [((88, 23), 88, QUICK_HAIR.eps, QUICK_HAIR.seed)]
    for before, after in ((plain.test, balanced.test), (plain.predicted, balanced.predicted)):
        np.testing.assert_array_equal(after.attributes, before.attributes[[3, 3, 0]])
        np.testing.assert_array_equal(after.groups, before.groups[[3, 3, 0]])
    np.testing.assert_array_equal(balanced.scores, plain.scores[[3, 3, 0]])


@pytest.mark.parametrize(("write", "source"), [(layouts.coco_photos, "coco"), (layouts.imsitu, "imsitu")])
def test_photographs_of_people_go_the_same_way(tmp_path, monkeypatch, write, source):
    write(tmp_path)
    monkeypatch.setenv("BIASLIB_DATA", str(tmp_path))
    setup = PeopleSetup(source=source, epochs=1, size=16, batch=16)
    assert set(setup.data("train").table().columns) == {*setup.attributes, "group"}
    found = scene_models._outcome(setup, scene_models._answers.compute(setup))
    assert found.test_logits.shape == (len(found.test), len(setup.attributes) + 2)
    assert isinstance(found.predicted(), Labels)
    assert plan._images(setup.recipe) >= len(found.train)
