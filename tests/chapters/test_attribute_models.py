"""Small classifiers of many attributes: their training, where they look, and what attributes do to their answers."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from scipy.special import expit
from sklearn.metrics import average_precision_score, balanced_accuracy_score, matthews_corrcoef

from biaslib import attribution, recipes, training
from biaslib.chapters.attribute_models import (
    COIN,
    FORMS,
    EvaluationFaces,
    Experiment,
    _Attention,
    attention_of,
    each_model,
    effects,
    per_attribute,
    trained,
)
from biaslib.datasets.celeba import ATTRIBUTES, REGIONS
from biaslib.errors import BiaslibError
from biaslib.metrics import attention_iou, upsample_maps
from biaslib.store import fingerprint
from biaslib.worlds.faces import STRENGTH, Faces
from tests import layouts

pytestmark = pytest.mark.usefixtures("in_this_process")

QUICK = Experiment(images=300, size=16, epochs=1)


@pytest.fixture(scope="module")
def celeba(tmp_path_factory):
    """60 pictures, 20 a split, as wide as the 40 attributes' table."""
    root = tmp_path_factory.mktemp("celeba")
    rng = np.random.default_rng(0)
    layouts.celeba(root, pd.DataFrame({name: rng.random(60) < 0.5 for name in ATTRIBUTES}))
    for row in range(60):
        layouts.picture(
            root / "celeba" / "img_align_celeba" / f"{row + 1:06d}.jpg", size=(89, 109), colour=(0, 90, row)
        )
    return root


def test_training_faces_are_the_worlds():
    faces = QUICK.recipe.data.samples()
    table = Faces().factors(300, strength=STRENGTH, seed=0)
    np.testing.assert_array_equal(faces.images, Faces().render(table, size=16).images)
    assert not faces.masks
    plain = replace(QUICK, confounder=False).data.samples()
    assert (plain.images != faces.images).any()


def test_only_faces_with_a_value_are_left():
    table = replace(QUICK, only=("Eyeglasses", True)).recipe.table()
    assert 0 < len(table) < 300
    assert table["Eyeglasses"].all()


def test_a_correlation_is_reached_at_the_size_asked_for():
    asked = replace(QUICK, images=2000, correlation=("Wavy_Hair", 0.1), kept=800)
    table = Faces().factors(2000, strength=STRENGTH, seed=0)
    left = asked.recipe.table()
    assert len(left) == 800
    assert matthews_corrcoef(left["Wavy_Hair"], left["Clan"]) == pytest.approx(0.1, abs=1e-3)
    assert matthews_corrcoef(table["Wavy_Hair"], table["Clan"]) > 0.3


def test_an_attribute_can_be_tied_to_another_one_in_place_of_the_group():
    asked = replace(QUICK, images=2000, correlation=("Smiling", 0.6), tied_to="Eyeglasses", kept=800)
    labels = asked.recipe.table()
    assert len(labels) == 800
    assert matthews_corrcoef(labels["Smiling"], labels["Eyeglasses"]) == pytest.approx(0.6, abs=1e-3)
    with pytest.raises(BiaslibError, match="has no attribute Spectacles"):
        replace(asked, tied_to="Spectacles")


def test_faces_of_much_detail_are_drawn_for_training_and_for_evaluation():
    asked = replace(QUICK, detail=1.0)
    plain, clear = QUICK.data.samples(), asked.data.samples()
    assert plain.labels.equals(clear.labels)
    assert (plain.images != clear.images).any()
    assert (EvaluationFaces(images=5, detail=1.0).factors()["detail"] == 1).all()


def test_a_model_tells_the_asked_for_attributes_and_is_trained_once(monkeypatch):
    two = replace(QUICK, attributes=("Clan", "Bangs"))
    first, other = trained([two, replace(two, seed=1)])
    assert first(torch.zeros(1, 3, 16, 16)).shape == (1, 2)
    monkeypatch.setattr(recipes.training, "fit_with_criterion", lambda *_, **__: pytest.fail("trained again"))
    (again,) = trained([two])
    np.testing.assert_array_equal(again.fc.weight.detach(), first.fc.weight.detach())
    assert not torch.equal(first.fc.weight, other.fc.weight)


@pytest.mark.filterwarnings("ignore::biaslib.datasets.DatasetWarning")
def test_photographs_are_part_of_what_a_model_is_kept_by(celeba, tmp_path, monkeypatch):
    monkeypatch.setenv("BIASLIB_DATA", str(celeba))
    photos = replace(QUICK, source="celeba", images=15)
    assert len(photos.data.samples()) == 15
    assert photos.group == "Male"
    assert photos.outputs == ATTRIBUTES
    key = fingerprint.of_value(photos)
    path = celeba / "celeba" / "img_align_celeba" / "000001.jpg"
    before = path.read_bytes()
    layouts.picture(path, size=(89, 109), colour=(200, 0, 0))
    other = fingerprint.of_value(photos)
    path.write_bytes(before)
    assert key != other
    (model,) = trained([photos])
    assert model.fc.out_features == 40


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"source": "people"}, "source must be one of generated, celeba, celeba-cropped, not 'people'"),
        ({"attributes": ("Clan", "Male")}, "generated has no attribute Male: it has Clan"),
        ({"only": ("Beard", True)}, "generated has no attribute Beard"),
        ({"correlation": ("Beard", 0.1)}, "generated has no attribute Beard"),
    ],
)
def test_settings_that_cannot_be(changed, message):
    with pytest.raises(BiaslibError, match=message):
        replace(QUICK, **changed)


def test_an_empty_choice_is_refused():
    one = replace(QUICK, images=1)
    value = bool(Faces().factors(1, strength=STRENGTH, seed=0)["Bangs"][0])
    with pytest.raises(BiaslibError, match="No image is left to train on among 1: take more images"):
        replace(one, only=("Bangs", not value)).recipe.table()


def test_the_sources_know_their_group():
    assert QUICK.group in QUICK.outputs
    assert "Male" not in QUICK.outputs
    assert len(replace(QUICK, source="celeba").outputs) == 40


def test_weights_are_part_of_what_a_model_is_kept_by(tmp_path, monkeypatch):
    monkeypatch.setenv("BIASLIB_DATA", str(tmp_path))
    started = replace(QUICK, weights="start.safetensors")
    nothing = fingerprint.of_value(started)
    (tmp_path / "start.safetensors").write_bytes(b"weights")
    assert fingerprint.of_value(started) != nothing
    asked = []
    monkeypatch.setattr(
        recipes.training, "fit_with_criterion", lambda _, __, config, **___: asked.append(config) or 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        recipes.train.compute(started.recipe)
    assert asked[0].weights == str(tmp_path / "start.safetensors")


ASKED = Experiment(attributes=("Bangs", "Clan", "Eyeglasses"), images=200, size=32, epochs=1)
FEW = EvaluationFaces(images=40)
NAMES = ("Bangs", "Clan", "Eyeglasses")
TABLE = Faces().factors(6, seed=0)


def made(maps: np.ndarray) -> _Attention:
    """What a model says of faces, with the maps given (N, 3, h, w)."""
    labels = pd.DataFrame({name: [True] * len(maps) for name in ASKED.outputs})
    return _Attention(ASKED, ASKED.outputs, labels, np.ones(maps.shape[:2], np.float32), maps)


def test_maps_and_answers_are_the_models():
    (found,) = attention_of([ASKED], FEW)
    (model,) = trained([ASKED])
    faces = FEW.samples(size=32)
    maps = attribution.grad_cam(model, faces.images, [0, 1, 2], absolute=True)
    np.testing.assert_allclose(found.maps, maps, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.logits, training.predict(model, faces.images), rtol=1e-4, atol=1e-5)
    pd.testing.assert_frame_equal(found.labels, faces.labels)
    np.testing.assert_array_equal(found.predicted["Clan"], found.logits[:, 1] > 0)


def test_scores_compare_with_the_group():
    maps = np.random.default_rng(0).random((4, 3, 4, 4)).astype(np.float32)
    found = made(maps)
    for attribute in range(3):
        np.testing.assert_allclose(found.scores[:, attribute], attention_iou(maps[:, attribute], maps[:, 1]))
    np.testing.assert_allclose(found.scores[:, found.of("Clan")], 1, rtol=1e-6)


def test_an_average_map_counts_every_image_alike_and_leaves_empty_maps_out():
    maps = np.zeros((3, 3, 2, 2), np.float32)
    maps[0, 0, 0, 0], maps[1, 0, 1, 1] = 1, 100
    found = made(maps)
    np.testing.assert_allclose(found.average_map("Bangs"), [[0.5, 0], [0, 0.5]])
    np.testing.assert_allclose(found.average_map("Bangs", np.array([True, False, True])), [[1, 0], [0, 0]])
    assert np.isnan(found.average_map("Clan")).all()
    with pytest.raises(BiaslibError, match=r"must be one of Bangs, Clan, Eyeglasses.*, not 'Wavy_Hair'"):
        found.of("Wavy_Hair")


def test_effects_are_the_differences_of_two_worlds():
    experiments = [ASKED, replace(ASKED, seed=1)]
    several = effects(experiments, FEW, ["Eyeglasses", "Smiling"])
    table = FEW.factors()
    for cause, found in several.items():
        assert found.shape == (2, 40, 3)
        on, off = (Faces().render(table.assign(**{cause: value}), size=32).images for value in (True, False))
        for model, effect in zip(trained(experiments), found, strict=True):
            wanted = expit(training.predict(model, on)) - expit(training.predict(model, off))
            np.testing.assert_allclose(effect, wanted, atol=1e-5)


@pytest.mark.filterwarnings("ignore::biaslib.datasets.DatasetWarning")
def test_faces_with_masks_are_asked_about_without_labels(tmp_path, monkeypatch):
    monkeypatch.setenv("BIASLIB_DATA", str(tmp_path))
    folder = tmp_path / "CelebAMask-HQ" / "pairs" / "test"
    for number in range(3):
        layouts.picture(folder / "images" / f"{number}.jpg", size=(64, 64), colour=(90, 0, 0))
        (folder / "masks").mkdir(exist_ok=True)
        Image.fromarray(np.full((64, 64), 1 + number, np.uint8)).save(folder / "masks" / f"{number}.png")
    (found,) = attention_of([ASKED], EvaluationFaces(source="celebamask-pairs", images=2))
    assert len(found.labels) == len(found.maps) == 2
    masks = EvaluationFaces(source="celebamask-pairs").samples(size=32).masks
    assert set(masks) == set(REGIONS)
    assert masks["skin"][0].all()
    assert masks["nose"][1].all()


def test_what_cannot_be_asked():
    with pytest.raises(BiaslibError, match="Only generated faces have factors, not those of celeba"):
        EvaluationFaces(source="celeba").factors()
    with pytest.raises(BiaslibError, match="one size with the same outputs"):
        effects([ASKED, replace(ASKED, size=16)], FEW, ["Clan"])
    with pytest.raises(BiaslibError, match="no factor 'Beard'"):
        effects([ASKED], FEW, ["Beard"])


def test_models_differ_and_share_their_test_faces():
    first, other = attention_of([ASKED, replace(ASKED, seed=1)], FEW)
    pd.testing.assert_frame_equal(first.labels, other.labels)
    assert not torch.equal(torch.from_numpy(first.maps), torch.from_numpy(other.maps))


def answered(logits: np.ndarray, labels: pd.DataFrame, maps: np.ndarray | None = None) -> _Attention:
    """What a model says of N faces: logits (N, 3), maps (N, 3, h, w)."""
    maps = np.ones((len(logits), 3, 2, 2), np.float32) if maps is None else maps
    return _Attention(Experiment(attributes=NAMES), NAMES, labels, logits, maps)


def random_faces(models: int, n: int = 60) -> tuple[list[_Attention], pd.DataFrame]:
    rng = np.random.default_rng(0)
    labels = pd.DataFrame(rng.random((n, 3)) < (0.2, 0.5, 0.4), columns=list(NAMES))
    logits = [rng.normal(size=(n, 3)) + labels.to_numpy() for _ in range(models)]
    return [answered(one, labels, rng.random((n, 3, 4, 4)).astype(np.float32)) for one in logits], labels


def test_a_case_by_hand():
    labels = pd.DataFrame({"Bangs": [1, 1, 0, 0], "Clan": [1, 0, 1, 0], "Eyeglasses": [1, 0, 0, 0]}).astype(bool)
    #                     Bangs right but for the last one; Clan always right; Eyeglasses on everybody
    logits = np.array([[1, 1, 1], [1, -1, 1], [-1, 1, 1], [1, -1, 1]], float)
    maps = np.zeros((4, 3, 1, 2), np.float32)
    maps[:, 1, 0] = [1, 1]  # Clan everywhere
    maps[:, 0, 0] = [1, 0]  # Bangs on one side: 4 * .5 / (1 + .5 + 2 * .5) = .8
    table = per_attribute([answered(logits, labels, maps)])
    assert list(table.index) == list(NAMES)
    bangs = table.loc["Bangs"]
    assert bangs["score"].estimate == pytest.approx(0.8)
    assert bangs["mcc"].estimate == pytest.approx(-1 / np.sqrt(3))
    assert bangs["absolute_mcc"].estimate == pytest.approx(1 / np.sqrt(3))
    assert bangs["worst_group_accuracy"].estimate == 0
    assert bangs["balanced_accuracy"].estimate == 0.75
    assert (bangs["models"], bangs["maps"], bangs["constant"]) == (1, 4, 0)
    glasses = table.loc["Eyeglasses"]
    assert (glasses["maps"], glasses["constant"]) == (0, 1)
    for column in ("score", "mcc", "absolute_mcc"):
        assert np.isnan(glasses[column].estimate)
        assert np.isnan(table.loc["Clan", column].estimate)
    assert table.loc["Clan", "worst_group_accuracy"].estimate == 1


def test_agrees_with_scikit_learn_and_with_the_metrics():
    found, labels = random_faces(4)
    table = per_attribute(found)
    for at, name in ((0, "Bangs"), (2, "Eyeglasses")):
        row, truth = table.loc[name], labels[name]
        said = [one.logits[:, at] for one in found]
        mccs = [matthews_corrcoef(one.logits[:, 1] > 0, one.logits[:, at] > 0) for one in found]
        assert row["mcc"].estimate == pytest.approx(np.mean(mccs))
        assert row["absolute_mcc"].estimate == pytest.approx(abs(np.mean(mccs)))
        balanced = np.mean([balanced_accuracy_score(truth, one > 0) for one in said])
        assert row["balanced_accuracy"].estimate == pytest.approx(balanced)
        scores = [attention_iou(one.maps[:, at], one.maps[:, 1]) for one in found]
        assert row["score"].estimate == pytest.approx(np.mean(scores))
        assert row["score"].n == row["maps"] == 4 * 60
        assert row["score"].low < row["score"].estimate < row["score"].high
        groups = 2 * truth + labels["Clan"]
        worst = [min(((one > 0) == truth)[groups == g].mean() for g in range(4)) for one in said]
        assert row["worst_group_accuracy"].estimate == pytest.approx(np.mean(worst))
    # equally many positives: AP_N is the usual one
    alike = [answered(one.logits, labels.assign(Bangs=labels["Clan"], Eyeglasses=labels["Clan"])) for one in found]
    usual = np.mean([average_precision_score(labels["Clan"], one.logits[:, 0]) for one in found])
    assert per_attribute(alike).loc["Bangs", "average_precision"].estimate == pytest.approx(usual)


def test_the_order_of_models_and_the_size_of_maps_do_not_matter():
    found, labels = random_faces(3)
    larger = [answered(one.logits, labels, 7 * one.maps) for one in reversed(found)]
    for column in ("score", "mcc", "worst_group_accuracy", "average_precision"):
        before, after = ([value.estimate for value in per_attribute(models)[column]] for models in (found, larger))
        np.testing.assert_allclose(before, after, rtol=1e-6)


def test_empty_maps_are_counted_and_faces_without_labels_have_no_accuracy():
    found, labels = random_faces(2)
    found[0].maps[:5, 2] = 0
    unlabelled = [answered(one.logits, pd.DataFrame(index=range(60)), one.maps) for one in found]
    row = per_attribute(unlabelled).loc["Eyeglasses"]
    assert (row["maps"], row["score"].n, row["score"].undefined) == (115, 115, 5)
    assert np.isfinite(row["mcc"].estimate)
    for column in ("worst_group_accuracy", "average_precision", "balanced_accuracy"):
        assert np.isnan(row[column].estimate)
    nobody = [answered(one.logits, labels.assign(Bangs=False), one.maps) for one in found]
    assert np.isnan(per_attribute(nobody).loc["Bangs", "average_precision"].estimate)


def test_models_that_cannot_be_compared_are_refused():
    (one, _), labels = random_faces(2)
    fewer = _Attention(one.experiment, NAMES[:2], labels, one.logits[:, :2], one.maps[:, :2])
    with pytest.raises(BiaslibError, match="different attributes"):
        per_attribute([one, fewer])
    with pytest.raises(BiaslibError, match="of different faces"):
        per_attribute([one, answered(one.logits, ~labels, one.maps)])


COINED = replace(ASKED, coin=True)


def test_a_coin_is_one_more_output_and_nothing_else_about_the_faces():
    plain, coined = ASKED.data.samples(), COINED.data.samples()
    assert COINED.outputs == (*NAMES, COIN)
    assert COINED.recipe.training.outputs == 4
    np.testing.assert_array_equal(coined.images, plain.images)
    pd.testing.assert_frame_equal(coined.labels.drop(columns=COIN), plain.labels)
    flips = replace(COINED, images=4000).data.table()
    assert abs(flips[COIN].mean() - 0.5) < 0.03
    assert flips[list(Faces.attributes)].corrwith(flips[COIN]).abs().max() < 0.06
    some = np.array([3, 1])
    np.testing.assert_array_equal(COINED.data.samples(some).labels[COIN], COINED.data.table()[COIN].iloc[some])
    assert replace(COINED, seed=1).data.table()[COIN].ne(COINED.data.table()[COIN]).any()
    assert fingerprint.of_value(COINED) != fingerprint.of_value(ASKED)
    with pytest.raises(BiaslibError, match="coin is a label of generated faces, not of celeba's"):
        Experiment(source="celeba", coin=True)


def test_a_map_is_scored_in_four_forms():
    maps = np.random.default_rng(0).random((20, 3, 4, 4)).astype(np.float32)
    found = made(maps)
    fine = upsample_maps(maps, 32, 32)
    lowest = fine - fine.min((2, 3), keepdims=True)
    wanted = {
        "as Grad-CAM gives it": maps,
        "shifted": maps - maps.min((2, 3), keepdims=True),
        "enlarged": fine,
        # as the released code: shifted, scaled, enlarged, shifted and scaled again
        "enlarged and shifted (released)": lowest / lowest.max((2, 3), keepdims=True),
    }
    for form, (enlarged, shifted) in FORMS.items():
        scores = found.scored(enlarged=enlarged, shifted=shifted)
        np.testing.assert_allclose(scores, attention_iou(wanted[form], wanted[form][:, [1]]), rtol=1e-5)
    np.testing.assert_array_equal(found.scored(), found.scores)


def test_what_each_model_says_is_what_all_say_together():
    found, _ = random_faces(3)
    found = [replace(one, experiment=replace(one.experiment, size=8)) for one in found]
    found[0].maps[0, 0] = 0  # an empty map is left out
    moved = np.random.default_rng(1).normal(size=(3, 60, 3))
    each, together = each_model(found, moved), per_attribute(found)
    assert len(each) == 4 * 3 * 2  # forms, models, attributes but the group
    plain = each[each["form"] == "as Grad-CAM gives it"].set_index(["attribute", "model"])
    for name in ("Bangs", "Eyeglasses"):
        assert plain.loc[name, "balanced_accuracy"].mean() == pytest.approx(
            together.loc[name, "balanced_accuracy"].estimate
        )
        at = NAMES.index(name)
        np.testing.assert_allclose(plain.loc[name, "effect"], np.abs(moved[..., at].mean(axis=1)))
        np.testing.assert_allclose(plain.loc[name, "score"], [np.nanmean(one.scores[:, at]) for one in found])
    mcc = abs(matthews_corrcoef(found[2].logits[:, 1] > 0, found[2].logits[:, 0] > 0))
    assert plain.loc[("Bangs", 2), "mcc"] == pytest.approx(mcc)
    found[1].logits[:, 2] = 1.0
    assert each_model(found, moved).query("attribute == 'Eyeglasses' and model == 1")["mcc"].isna().all()
