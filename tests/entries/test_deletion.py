"""Deletion and insertion beside a plain loop of the paper and quantus' pixel flipping, and what is undefined."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter
from scipy.signal import convolve2d
from scipy.special import expit, softmax
from torch import nn

from biaslib import metrics, models, training
from biaslib.store.files import module_of
from tests.entries.cases import case_of

DELETION = module_of(Path(__file__).parents[2] / "data" / "submissions" / "biaslib" / "removal.py")
SIZE = 16


def as_in_the_paper(certainty, first, last, relevance):
    """One picture (C, H, W), pixel after pixel: the area that the authors' code gives."""
    now, scores = first.copy(), [certainty(first)]
    order = sorted(np.ndindex(relevance.shape), key=lambda place: -relevance[place])
    step = relevance.size // DELETION.STEPS
    for number, (y, x) in enumerate(order, 1):
        now[:, y, x] = last[:, y, x]
        if number % step == 0:
            scores.append(certainty(now))
    return (sum(scores) - scores[0] / 2 - scores[-1] / 2) / (len(scores) - 1)


@pytest.mark.parametrize(
    ("outputs", "probability"),
    [
        (2, lambda logits: softmax(logits, axis=1)[:, 1]),
        (7, lambda logits: softmax(logits[:, -2:], axis=1)[:, 1]),
        (4, lambda logits: expit(logits[:, 2])),
    ],
)
def test_equals_the_loop_of_the_paper_whatever_the_outputs_mean(outputs, probability):
    case = case_of(outputs, probability, SIZE)
    pixels, fine = models.to_tensor(case.pictures).numpy(), metrics.upsample_maps(case.map, SIZE, SIZE)
    fine += 1e-4 * np.random.default_rng(3).random(fine.shape, np.float32)  # no ties
    case.map = fine
    for metric, blurred in ((DELETION.deletion, False), (DELETION.insertion, True)):
        areas = metric(case)
        for number, (picture, relevance, yes) in enumerate(zip(pixels, fine, case.answer, strict=True)):

            def certainty(changed, yes=yes):
                value = probability(training.predict(case.network, torch.from_numpy(changed[None])))[0]
                return value if yes else 1 - value

            blur = np.stack([gaussian_filter(channel, 5, radius=5, mode="nearest") for channel in picture])
            ends = (blur, picture) if blurred else (picture, 0 * picture)
            assert areas[number] == pytest.approx(as_in_the_paper(certainty, *ends, relevance), abs=1e-5)
        assert areas.std() > 0.01


@pytest.mark.filterwarnings("ignore")  # of quantus' own import
def test_quantus_curve_is_ours_without_its_first_step():
    from quantus import PixelFlipping

    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(SIZE * SIZE, 2), nn.Softmax(1)).eval()
    rng = np.random.default_rng(0)
    pixels, fine = rng.normal(size=(3, 1, SIZE, SIZE)).astype(np.float32), rng.random((3, SIZE, SIZE), np.float32)
    steps = DELETION.changed(pixels, 0 * pixels, DELETION.ranked(fine))
    with torch.no_grad():
        ours = np.stack([network(torch.from_numpy(each))[:, 1].numpy() for each in steps], axis=1)
    options = {"perturb_baseline": 0.0, "normalise": False, "disable_warnings": True}
    flipping = PixelFlipping(features_in_step=SIZE * SIZE // DELETION.STEPS, **options)
    theirs = np.array(flipping(network, pixels, np.ones(3, int), a_batch=fine[:, None]))
    np.testing.assert_allclose(ours[:, 1:], theirs, atol=1e-6)
    assert ours.shape == (3, DELETION.STEPS + 1)


def test_the_area_of_a_line_is_its_middle_and_of_a_step_its_share():
    np.testing.assert_allclose(DELETION.area(np.array([np.linspace(1, 0, 17), np.full(17, 0.3)])), [0.5, 0.3])
    assert DELETION.area(np.array([[1.0] * 5 + [0.0] * 12]))[0] == pytest.approx(4.5 / 16)


def test_the_blur_of_the_authors_is_almost_a_box_and_darkens_the_rim():
    delta = np.zeros((11, 11))
    delta[5, 5] = 1
    theirs, ours = gaussian_filter(delta, 5), DELETION.blurred(np.pad(delta, 11)[None, None].astype(float))[0, 0]
    ours = ours[11:22, 11:22]
    assert ours.sum() == pytest.approx(1)
    assert theirs.max() / theirs.min() < 1.6 < 2.5 < ours.max() / ours.min()
    white = np.ones((SIZE, SIZE))
    assert convolve2d(white, theirs, mode="same")[0, 0] < 0.4
    np.testing.assert_allclose(DELETION.blurred(white[None, None]), 1)


def test_equal_pixels_go_in_no_order_of_lines_and_the_same_each_time():
    relevance = np.zeros((2, SIZE, SIZE))
    relevance[:, 0, 0] = 1
    ranks = DELETION.ranked(relevance)
    np.testing.assert_array_equal(ranks, DELETION.ranked(relevance))
    np.testing.assert_array_equal(np.sort(ranks.reshape(2, -1)), np.tile(np.arange(SIZE * SIZE), (2, 1)))
    assert (ranks[:, 0, 0] == 0).all()
    assert abs(np.corrcoef(ranks[0].ravel(), np.arange(SIZE * SIZE))[0, 1]) < 0.2


def test_a_map_without_relevance_is_undefined_and_so_are_images_after_the_first(monkeypatch):
    monkeypatch.setattr(DELETION, "IMAGES", 4)
    case = case_of(2, lambda logits: softmax(logits, axis=1)[:, 1], SIZE)
    case.map[1], case.map[2] = 0, np.nan
    for metric in (DELETION.deletion, DELETION.insertion):
        np.testing.assert_array_equal(np.isnan(metric(case)), [False, True, True, False, True, True])
    case.map[:] = 0
    assert np.isnan(DELETION.deletion(case)).all()
