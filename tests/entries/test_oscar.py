"""OSCAR beside regressions and ranks of other packages, what is undefined, and the false alarms of its p-value."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.ndimage
import scipy.stats
import statsmodels.api as sm
import torch
from torch import nn

from biaslib import metrics
from biaslib.store.files import module_of

oscar = module_of(Path(__file__).parents[2] / "data" / "submissions" / "biaslib" / "oscar.py")
REGIONS = oscar.GRID**2
N = 40


def with_corner(maps, y, x):
    """Maps with much relevance in a quarter of a side."""
    more = maps.copy()
    more[:, y : y + 2, x : x + 2] += 1
    return more


class Blocks(nn.Module):
    """Mixes of the colours' means in blocks of 4 x 4 pixels."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Conv2d(3, 6, 1)

    def forward_features(self, images):
        return self.mix(nn.functional.avg_pool2d(images, 4))


def case_of(seed, references=()):
    """A model: random maps, and a network of random weights; pictures of noise, with a brighter corner as cue."""
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 150, (N, 32, 32, 3), dtype=np.uint8)
    cue = np.arange(N) % 2 == 0
    pictures[cue, :8, :8] += 100
    own = np.random.default_rng(1 + seed)
    torch.manual_seed(seed)
    network = Blocks()
    maps, score = own.random((N, 8, 8)), own.random(N)
    return SimpleNamespace(
        map=maps, pictures=pictures, cue=cue, network=network, score=score, references=list(references)
    )


@pytest.fixture
def references():
    return [case_of(seed) for seed in range(5)]


def profile_by_others(maps):
    fine = metrics.upsample_maps(maps, 64, 64)
    labels = np.arange(REGIONS).reshape(8, 8).repeat(8, axis=0).repeat(8, axis=1)
    means = pd.DataFrame([scipy.ndimage.mean(one, labels, np.arange(REGIONS)) for one in fine])
    return means.div(means.max(axis=1), axis=0).round(5).rank(axis=1, ascending=False).median().to_numpy()


def left(of, baseline):
    return sm.OLS(of, sm.add_constant(baseline)).fit().resid


def test_it_is_the_correlation_of_what_two_regressions_leave(references):
    case = case_of(9, references)
    tellers = [oscar.told(oscar.last_maps(each), each.cue) for each in references[:3]]
    assert all(maps.any(axis=(1, 2)).all() for maps in tellers)
    baseline = np.mean([profile_by_others(each.map) for each in references], axis=0)
    teller = np.mean([profile_by_others(maps) for maps in tellers], axis=0)
    expected = np.corrcoef(left(profile_by_others(case.map), baseline), left(teller, baseline))[0, 1]
    assert oscar.oscar(case) == pytest.approx(expected, abs=1e-10)
    assert 0.001 < abs(expected) < 0.999


def test_the_parts_of_a_map_add_up_to_what_the_teller_says(references):
    maps, cue = oscar.last_maps(references[0]), references[0].cue
    design = maps.mean(axis=(2, 3))
    ridge = 0.01 * len(design) * design.var(axis=0).mean()
    centred = design - design.mean(axis=0)
    weight = np.linalg.solve(centred.T @ centred + ridge * np.eye(6), centred.T @ (cue - 0.5))
    says = centred @ weight
    parts = np.einsum("nchw,c->nhw", maps - design.mean(axis=0)[:, None, None], weight)
    np.testing.assert_allclose(parts.mean(axis=(1, 2)), says, atol=1e-12)
    assert np.mean((says > 0) == cue) > 0.9
    expected = np.maximum(np.where(says > 0, 1, -1)[:, None, None] * parts, 0)
    np.testing.assert_allclose(oscar.told(maps, cue), expected, atol=1e-10)


def test_the_profile_is_of_ranks_alone():
    maps = np.random.default_rng(0).random((N, 8, 8))
    found = oscar.profile(maps)
    assert found.min() >= 1
    assert found.max() <= REGIONS
    sizes = 2.0 ** np.arange(N)[:, None, None]
    np.testing.assert_array_equal(oscar.profile(maps * sizes), found)
    np.testing.assert_array_equal(oscar.profile(maps[::-1]), found)
    turned = oscar.profile(maps[:, ::-1]).reshape(8, 8)
    np.testing.assert_array_equal(turned[::-1].ravel(), found)
    assert oscar.profile(with_corner(maps, 0, 0)).reshape(8, 8)[0, 0] < 4  # the most relevant comes first


def test_the_residual_forgets_scale_and_all_that_is_the_baselines():
    one, baseline, other = np.random.default_rng(0).random((3, REGIONS))
    rest = oscar.residual(one, baseline)
    np.testing.assert_allclose(oscar.residual(3 * one + 2 - 5 * baseline, 4 * baseline + 1), rest, atol=1e-12)
    np.testing.assert_allclose([rest.sum(), rest @ baseline, rest @ rest], [0, 0, 1], atol=1e-12)
    assert rest @ oscar.residual(other, baseline) == pytest.approx(oscar.residual(other, baseline) @ rest)


def test_images_without_a_map_are_left_out():
    maps = np.random.default_rng(0).random((N, 8, 8))
    np.testing.assert_array_equal(oscar.profile(np.concatenate([maps, np.zeros((60, 8, 8))])), oscar.profile(maps))


def test_undefined(references):
    assert np.isnan(oscar.oscar(case_of(9)))
    flat = case_of(9, references)
    flat.map = np.zeros((N, 8, 8))
    assert np.isnan(oscar.oscar(flat))
    same = case_of(9, references[:1])
    same.map = references[0].map  # the baseline leaves nothing
    assert np.isnan(oscar.oscar(same))
    for each in references:
        each.cue = np.ones(N, bool)
    assert np.isnan(oscar.oscar(case_of(9, references)))
    constant = np.full(REGIONS, 32.5)
    assert np.isnan(oscar.residual(np.arange(REGIONS), constant)).all()
    assert np.isnan(oscar.residual(constant, np.arange(REGIONS))).all()


def test_a_reference_without_maps_is_not_in_the_baseline(references):
    dead = case_of(7)
    dead.map = np.zeros((N, 8, 8))
    assert oscar.oscar(case_of(9, [*references, dead])) == oscar.oscar(case_of(9, references))


def test_a_model_that_looks_where_the_cue_is_told_from_is_found(references):
    tellers = [oscar.kept(each, teller=True).reshape(8, 8) for each in references[: oscar.TELLERS]]
    assert all(each[:2, :2].mean() < 20 < each.mean() for each in tellers)
    values = {}
    for place in ((0, 0), (0, 6), (6, 0), (6, 6)):
        case = case_of(9, references)
        case.map = with_corner(case.map, *place)
        values[place] = oscar.oscar(case)
    assert values.pop((0, 0)) > 0.3 > max(values.values())


def test_what_is_kept_of_one_model_is_no_other_models(references):
    first, second = case_of(9, references), case_of(10, references)
    values = oscar.oscar(first), oscar.oscar(second)
    oscar._kept.clear()
    assert (oscar.oscar(first), oscar.oscar(second)) == values
    assert values[0] != values[1] != oscar.oscar(case_of(10, references[1:]))  # judged beside fewer, another baseline


def p_value(first, second, permutations=10_000):
    """As released: two-sided, the regions of the first permuted; of residuals of length 1."""
    order = np.random.default_rng(0).permuted(np.tile(np.arange(len(first)), (permutations, 1)), axis=1)
    return (1 + np.sum(np.abs(first[order] @ second) >= abs(first @ second))) / (permutations + 1)


def test_the_p_value_is_that_of_a_permutation_test():
    rng = np.random.default_rng(0)
    one, other, baseline = rng.random((3, REGIONS))
    first, second = oscar.residual(one + 0.1 * other, baseline), oscar.residual(other, baseline)
    theirs = scipy.stats.permutation_test(
        (first,), lambda x: x @ second, permutation_type="pairings", n_resamples=10_000, rng=rng, vectorized=False
    )
    assert 0.01 < theirs.pvalue < 0.5
    assert p_value(first, second) == pytest.approx(theirs.pvalue, abs=0.02)


def false_alarms(grid, smooth, n=300):
    """The share of p < 0.05 between rank profiles of three random pictures; `smooth` in regions."""
    drawn = np.random.default_rng(0).normal(size=(n, 3, grid, grid))
    if smooth:
        drawn = scipy.ndimage.gaussian_filter(drawn, smooth, axes=(2, 3))
    ranks = scipy.stats.rankdata(-drawn.reshape(n, 3, -1), axis=2)
    pairs = [(oscar.residual(model, base), oscar.residual(teller, base)) for model, teller, base in ranks]
    return np.mean([p_value(*pair, permutations=299) < 0.05 for pair in pairs])


@pytest.mark.parametrize("grid", [8, 16])
def test_the_p_value_holds_its_level_with_white_noise(grid):
    assert 0.03 < false_alarms(grid, 0) < 0.08


def test_the_p_value_takes_smooth_maps_for_a_relation():
    assert false_alarms(8, 1) > 0.3
    assert false_alarms(16, 2) > 0.6
