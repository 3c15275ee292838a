"""F-Fidelity beside a plain loop, what its parts promise, and what of it is undefined."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import expit, softmax

from biaslib import models, training
from biaslib.store.files import module_of
from tests.entries.cases import case_of

FIDELITY = module_of(Path(__file__).parents[2] / "data" / "submissions" / "biaslib" / "fidelity.py")
SIZE = 16


def of_two(logits):
    return softmax(logits, axis=1)[:, 1]


@pytest.mark.parametrize(("alpha", "beta"), [(0.5, 0.1), (0.1, 0.5), (1, 0.03), (1, 1)])
def test_only_the_part_goes_and_never_more_than_beta(alpha, beta):
    rng = np.random.default_rng(0)
    parts = rng.random((9, SIZE, SIZE)) < np.linspace(0, 1, 9)[:, None, None]
    gone = FIDELITY.drawn(parts, alpha, beta, rng)
    assert not (gone & ~parts).any()
    for part, went in zip(parts, gone, strict=True):
        assert went.sum() == min(round(alpha * part.sum()), int(beta * SIZE**2))


@pytest.mark.parametrize(("outputs", "probability"), [(2, of_two), (4, lambda logits: expit(logits[:, 2]))])
@pytest.mark.parametrize("explained", [True, False])
def test_without_fine_tuning_and_all_of_a_part_gone_it_is_the_plain_fall(outputs, probability, explained):
    case = case_of(outputs, probability, SIZE)
    case.map = np.random.default_rng(3).random((6, SIZE, SIZE), np.float32)
    values = FIDELITY.falls(case, explained=explained, steps=0, shares=(0.25,), alpha=1, beta=1)
    for number, pixels in enumerate(models.to_tensor(case.pictures[:3]).numpy()):
        changed, order = pixels.copy(), np.argsort(-case.map[number].ravel())
        for place in order[: SIZE**2 // 4] if explained else order[SIZE**2 // 4 :]:
            changed[:, place // SIZE, place % SIZE] = 0
        before, after = probability(training.predict(case.network, torch.from_numpy(np.stack([pixels, changed]))))
        assert values[number] == pytest.approx(before - after if case.answer[number] else after - before, abs=1e-6)


def test_a_worse_map_has_a_smaller_plus_and_a_larger_minus():
    case = case_of(2, of_two, SIZE, n=120)
    case.answer = case.score > 0.5
    weight = case.network[1].weight.detach().numpy()
    share = ((weight[1] - weight[0]) * models.to_tensor(case.pictures).numpy().reshape(120, -1)).reshape(120, 3, -1)
    true = share.sum(axis=1).reshape(120, SIZE, SIZE) * np.where(case.answer, 1, -1)[:, None, None]
    noise = true.std() * np.random.default_rng(4).standard_normal(true.shape)
    found = []
    for mixed in (0, 0.25, 0.5, 0.75, 1):
        case.map = ((1 - mixed) * true + mixed * noise).astype(np.float32)
        found.append([np.nanmean(metric(case)) for metric in (FIDELITY.plus, FIDELITY.minus)])
    assert (np.diff(found, axis=0) * [1, -1] < 0).all()


def test_it_is_always_the_same_and_touches_no_network_and_no_random_state():
    case = case_of(2, of_two, SIZE)
    weights, own, numpys = copy.deepcopy(case.network.state_dict()), torch.get_rng_state(), np.random.get_state()[1]  # noqa: NPY002
    first, second = FIDELITY.plus(case), FIDELITY.plus(case)
    np.testing.assert_array_equal(first, second)
    assert torch.equal(own, torch.get_rng_state())
    np.testing.assert_array_equal(numpys, np.random.get_state()[1])  # noqa: NPY002
    for name, value in case.network.state_dict().items():
        assert torch.equal(value, weights[name])
    tuned = FIDELITY.tuned(case.network, case.pictures, FIDELITY.STEPS, FIDELITY.BETA)
    assert not torch.equal(tuned[1].weight, weights["1.weight"])
    assert (first[:3] != FIDELITY.falls(case, explained=True, steps=0)[:3]).all()


def test_what_is_undefined_is_nan():
    case = case_of(2, of_two, SIZE, n=210)
    case.map[3] = 1
    undefined = np.isnan(FIDELITY.plus(case))
    assert np.flatnonzero(undefined).tolist() == [3, *range(100, 210)]
    assert np.isnan(FIDELITY.minus(case_of(2, of_two, SIZE, n=1))).all()
