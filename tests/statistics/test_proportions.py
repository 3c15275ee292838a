import numpy as np
import pytest
import scipy.special
import scipy.stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.power import NormalIndPower
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_effectsize

from biaslib import statistics
from biaslib.errors import BiaslibError
from biaslib.statistics.proportions import (
    area_interval,
    as_independent,
    compare_changes,
    compare_shares,
    gap_power,
    images_needed,
    minimum_detectable_gap,
    share_interval,
    share_p_values,
    shrunk_shares,
)

DRAWS = 20_000
DESIGNS = [  # share and size of two groups
    (0.9, 200, 0.9, 200),
    (0.9, 300, 0.8, 300),
    (0.95, 100, 0.85, 900),
    (0.99, 50, 0.99, 1000),
    (0.98, 40, 0.98, 40),
    (0.5, 10, 0.5, 10),
    (1.0, 100, 0.94, 100),
]


def simulated(share_a, n_a, share_b, n_b, alpha=0.05, seed=0):
    """How often the test rejects, and three times the standard error of that."""
    rng = np.random.default_rng(seed)
    p = share_p_values(rng.binomial(n_a, share_a, DRAWS), n_a, rng.binomial(n_b, share_b, DRAWS), n_b)
    rate = (p <= alpha).mean()
    return rate, 3 * np.sqrt(max(rate * (1 - rate), 1 / DRAWS) / DRAWS)


def test_the_test_is_chi_squared_without_correction_but_for_n_less_one():
    table = np.array([[30, 70], [45, 55]])
    chi = scipy.stats.chi2_contingency(table, correction=False).statistic * 199 / 200
    assert share_p_values(30, 100, 45, 100) == pytest.approx(scipy.stats.chi2.sf(chi, 1))


def test_where_few_are_expected_it_is_fishers():
    for a, b in ((1, 990), (0, 999), (2, 1000)):
        expected = scipy.stats.fisher_exact([[a, 3 - a], [b, 1000 - b]])[1]
        assert share_p_values(a, 3, b, 1000) == pytest.approx(expected)


def test_the_groups_may_change_places_and_so_may_hits_and_misses():
    p = share_p_values([3, 20, 1], 25, [30, 35, 2], 40)
    np.testing.assert_allclose(p, share_p_values([30, 35, 2], 40, [3, 20, 1], 25))
    np.testing.assert_allclose(p, share_p_values([22, 5, 24], 25, [10, 5, 38], 40))


def test_nothing_differs_where_all_are_right_or_none_is():
    np.testing.assert_array_equal(share_p_values([0, 5], 5, [0, 90], 90), [1.0, 1.0])


@pytest.mark.parametrize("design", DESIGNS)
def test_power_agrees_with_simulation_within_its_error(design):
    rate, error = simulated(*design)
    assert gap_power(*design) == pytest.approx(rate, abs=error)


@pytest.mark.parametrize("share", [0.5, 0.7, 0.9, 0.97, 0.99])
@pytest.mark.parametrize("sizes", [(20, 20), (30, 500), (200, 200), (100, 2000)])
@pytest.mark.parametrize(("alpha", "most"), [(0.05, 0.058), (0.005, 0.006), (0.001, 0.0013)])
def test_the_test_holds_its_level(share, sizes, alpha, most):
    # approximate where counts are large: a little above the level at the worst, never far
    assert gap_power(share, sizes[0], share, sizes[1], alpha=alpha) <= most


@pytest.mark.parametrize(("accuracy", "n_a", "n_b"), [(0.9, 200, 200), (0.95, 2500, 60), (1.0, 100, 100)])
def test_the_smallest_gap_is_seen_as_often_as_asked(accuracy, n_a, n_b):
    gap = minimum_detectable_gap(accuracy, n_a, n_b, power=0.8)
    rate, error = simulated(accuracy, n_a, accuracy - gap, n_b, seed=1)
    assert rate == pytest.approx(0.8, abs=error)


def test_more_images_see_smaller_gaps_and_corrections_cost():
    gaps = [minimum_detectable_gap(0.9, n, n) for n in (50, 200, 1000)]
    assert gaps == sorted(gaps, reverse=True)
    assert minimum_detectable_gap(0.9, 200, 200, alpha=0.005) > gaps[1]


def test_a_gap_that_cannot_be_seen_is_undefined():
    assert np.isnan(minimum_detectable_gap(0.5, 3, 3))
    assert np.isnan(images_needed(0.03, 0.05))


@pytest.mark.parametrize(
    ("accuracy", "gap", "share"), [(0.9, 0.05, 0.5), (0.7, 0.05, 0.5), (0.95, 0.05, 0.1), (0.99, 0.05, 0.02)]
)
def test_so_many_images_do_see_the_gap(accuracy, gap, share):
    images = int(images_needed(accuracy, gap, share=share))
    second = round(images * share)
    rate, error = simulated(accuracy, images - second, accuracy - gap, second, seed=2)
    assert rate >= 0.8 - error
    assert rate <= 0.83 + error


def test_the_number_of_images_is_near_that_of_another_formula():
    # statsmodels works with Cohen's h instead of the difference
    effect = proportion_effectsize(0.8, 0.75)
    other = 2 * NormalIndPower().solve_power(effect, alpha=0.05, power=0.8)
    assert images_needed(0.8, 0.05) == pytest.approx(other, rel=0.02)


def test_the_front_door_is_statistics():
    assert statistics.minimum_detectable_gap is minimum_detectable_gap
    assert statistics.images_needed is images_needed
    assert statistics.gap_power is gap_power


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: share_p_values(1, 0, 1, 5), "at least one image"),
        (lambda: share_p_values(6, 5, 1, 5), "hits must lie in 0 ... 5"),
        (lambda: gap_power(1.2, 5, 0.5, 5), r"share_a must be a number in \[0, 1\], not 1.2"),
        (lambda: minimum_detectable_gap(0.5, 5, 5, power=-1), "power must be a number"),
        (lambda: images_needed(0.5, 0.0), "gap must be above 0"),
        (lambda: images_needed(0.5, 0.1, share=1.0), "share between 0 and 1"),
    ],
)
def test_what_is_refused(call, said):
    with pytest.raises(BiaslibError, match=said):
        call()


@pytest.mark.parametrize("power", [0.02, 0.05, 1.0])
def test_a_power_that_no_gap_has_is_refused(power):
    with pytest.raises(BiaslibError, match=r"power must lie between alpha, 0\.05, and 1"):
        minimum_detectable_gap(0.9, 50, 50, power=power)


def bools(hits: int, n: int) -> np.ndarray:
    return np.arange(n) < hits


@pytest.mark.parametrize(("a", "b"), [((56, 70), (48, 80)), ((9, 10), (3, 10)), ((10, 10), (0, 20)), ((0, 10), (0, 7))])
def test_the_interval_is_newcombes(a, b):
    found = compare_shares(bools(*a), bools(*b))
    low, high = confint_proportions_2indep(*a, *b, method="newcomb")
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.difference == pytest.approx(a[0] / a[1] - b[0] / b[1])
    assert found.p == share_p_values(a[0], a[1], b[0], b[1])
    assert found.n == (a[1], b[1])


def test_by_hand():
    # Newcombe 1998, table II, example (a): 56/70 - 48/80, method 10
    found = compare_shares(bools(56, 70), bools(48, 80))
    assert (round(found.difference, 4), round(found.low, 4), round(found.high, 4)) == (0.2, 0.0524, 0.3339)


def test_always_right_against_never_right_is_a_difference_and_the_sign_turns_with_the_sides():
    found = compare_shares(bools(20, 20), bools(0, 20))
    assert found.p < 1e-8
    assert found.effect_size == pytest.approx(np.pi)
    turned = compare_shares(bools(0, 20), bools(20, 20))
    assert (turned.difference, turned.low, turned.high) == (-found.difference, -found.high, -found.low)


def test_no_images_is_undefined_and_other_values_are_refused():
    assert np.isnan(compare_shares(bools(0, 0), bools(1, 2)).difference)
    with pytest.raises(BiaslibError, match="must be bool"):
        compare_shares(np.array([0.5]), bools(1, 2))


def test_the_interval_of_an_area_solves_newcombes_equation():
    found = area_interval(0.8, 30, 80)
    for end in (found.low, found.high):
        spread = end * (1 - end) * (1 + 39 * ((1 - end) / (2 - end) + end / (1 + end))) / (30 * 50)
        assert abs(end - 0.8) / np.sqrt(spread) == pytest.approx(1.96, abs=0.01)
    assert found.n == 80
    mirrored = area_interval(0.2, 50, 80)
    assert (mirrored.low, mirrored.high) == pytest.approx((1 - found.high, 1 - found.low), abs=2e-4)


@pytest.mark.parametrize(("apart", "positives", "n"), [(0.0, 20, 60), (1.0, 15, 45), (2.5, 20, 40), (1.0, 500, 1500)])
def test_the_interval_of_an_area_covers(apart, positives, n):
    rng = np.random.default_rng(n)
    true = scipy.stats.norm.cdf(apart / np.sqrt(2))
    covered = 0
    for _ in range(300):
        yes, no = rng.normal(apart, 1, positives), rng.normal(0, 1, n - positives)
        found = area_interval((yes[:, None] > no).mean(), positives, n)
        covered += found.low <= true <= found.high
    assert covered >= 273  # 285 are expected


def test_the_interval_of_an_area_at_its_ends_and_where_it_is_undefined():
    whole = area_interval(1.0, 10, 30)
    assert whole.high == 1
    assert 0.7 < whole.low < 0.9
    nothing = area_interval(np.nan, 30, 30)
    assert np.isnan([nothing.estimate, nothing.low, nothing.high]).all()


def test_another_confidence_gives_another_interval_and_the_same_p():
    a, b = np.arange(200) < 170, np.arange(150) < 140
    usual, wider = compare_shares(a, b), compare_shares(a, b, confidence=0.99)
    assert (usual.difference, usual.p) == (wider.difference, wider.p)
    assert wider.low < usual.low < usual.high < wider.high
    low, high = confint_proportions_2indep(170, 200, 140, 150, method="newcomb", alpha=0.01)
    assert (wider.low, wider.high) == pytest.approx((low, high))


def in_clusters(count, size, *, alike, share, seed):
    """Answers of clusters of so many images, of which each repeats its cluster's with a probability sqrt(alike)."""
    rng = np.random.default_rng(seed)
    clusters = np.repeat(np.arange(count), size)
    common, own = rng.random(count) < share, rng.random(len(clusters)) < share
    return np.where(rng.random(len(clusters)) < np.sqrt(alike), common[clusters], own), clusters


def few_clusters(free, at=0.975):
    return (scipy.stats.norm.ppf(at) / scipy.stats.t.ppf(at, free)) ** 2


def test_images_that_repeat_each_other_count_as_their_clusters():
    values, clusters = np.repeat([True, False, True, True] * 10, 25), np.repeat(np.arange(40), 25)
    (side,) = as_independent([values], [clusters])
    assert len(side) == int(40 * few_clusters(39))
    assert side.mean() == pytest.approx(0.75, abs=0.5 / len(side))
    # of what never varies the correlation is not known
    assert len(as_independent([values | True], [clusters])[0]) == len(side)


def test_images_of_their_own_count_as_they_are():
    values = np.random.default_rng(0).random(300) < 0.3
    (side,) = as_independent([values], [np.arange(300)])
    assert len(side) == int(300 * few_clusters(299))
    (side,) = as_independent([values[:30]], [np.arange(30)], confidence=0.998)
    assert len(side) == int(30 * few_clusters(29, at=0.999)) < int(30 * few_clusters(29))


def test_the_correlation_in_clusters_is_that_of_the_analysis_of_variance():
    values, clusters = in_clusters(50, 8, alike=0.4, share=0.6, seed=1)
    f = scipy.stats.f_oneway(*values.reshape(50, 8).astype(float)).statistic
    correlation = (f - 1) / (f - 1 + 8)
    (side,) = as_independent([values], [clusters])
    assert len(side) == int(400 / (1 + correlation * 7) * few_clusters(49))


def test_sides_of_the_same_clusters_count_for_more_than_sides_of_others_but_not_for_more_than_there_are():
    first, clusters = in_clusters(60, 4, alike=0.6, share=0.7, seed=2)
    second, _ = in_clusters(60, 4, alike=0.6, share=0.7, seed=3)
    apart = as_independent([first, second], [clusters, clusters + 60])
    whole, of = np.concatenate([first, second]), np.concatenate([clusters, clusters + 60])
    even = np.arange(len(whole)) % 2 == 0
    together = as_independent([whole[even], whole[~even]], [of[even], of[~even]])
    assert max(map(len, apart)) < 130
    assert [len(side) for side in together] == [int(240 * few_clusters(118))] * 2
    # neither names nor the order of images matter
    order = np.random.default_rng(0).permutation(240)
    again = as_independent([first[order], second], [clusters[order] * 1000 + 7, clusters - 1000])
    assert [side.tolist() for side in again] == [side.tolist() for side in apart]


def test_no_more_clusters_than_sides_say_nothing():
    values = np.array([True, False] * 5)
    assert len(as_independent([values], [np.zeros(10)])[0]) == 0
    assert list(map(len, as_independent([values, values], [np.zeros(10), np.ones(10)]))) == [0, 0]
    assert list(map(len, as_independent([values, values[:0]], [np.arange(10), np.arange(0)]))) == [0, 0]
    assert np.isnan(compare_shares(*as_independent([values, values], [np.zeros(10), np.ones(10)])).p)


@pytest.mark.parametrize("share", [0.7, 0.9])
def test_intervals_of_clustered_shares_cover(share):
    covered = 0
    for seed in range(300):
        (side,) = as_independent(*([part] for part in in_clusters(40, 10, alike=0.5, share=share, seed=seed)))
        found = share_interval(int(side.sum()), len(side))
        covered += found.low <= share <= found.high
    assert covered >= 274  # 285 are expected, less three standard errors


def changes(gained, lost, n):
    return np.repeat([1, -1, 0], [gained, lost, n - gained - lost])


def test_changes_of_one_kind_are_tested_as_fishers_exact_test():
    for a, b in (((0, 0, 15), (0, 12, 85)), ((0, 9, 20), (0, 2, 30)), ((3, 0, 10), (4, 0, 90))):
        found = compare_changes(changes(*a), changes(*b), seed=1)
        table = [[sum(side[:2]), side[2] - sum(side[:2])] for side in (a, b)]
        # the difference of the shares orders the tables of these margins as their probabilities do
        assert found.p == pytest.approx(scipy.stats.fisher_exact(table).pvalue, abs=0.02)
    assert compare_changes(changes(0, 9, 20), changes(0, 2, 30)).difference == pytest.approx(-9 / 20 + 2 / 30)


def test_changes_of_two_equal_groups_are_tested_as_by_mcnemar_where_one_has_none():
    found = compare_changes(changes(7, 2, 4000), changes(0, 0, 4000))
    assert found.p == pytest.approx(mcnemar([[0, 7], [2, 3991]], exact=True).pvalue, abs=0.02)


def test_the_interval_of_changes_is_that_of_pairs_with_half_an_image_more_in_each_cell():
    found = compare_changes(changes(7, 2, 40), changes(1, 3, 60))
    ends = []
    for gained, lost, n in ((7.5, 2.5, 42), (1.5, 3.5, 62)):
        ends.append(((gained - lost) / n, ((gained + lost) - (gained - lost) ** 2 / n) / n**2))
    middle, half = ends[0][0] - ends[1][0], 1.959964 * np.sqrt(ends[0][1] + ends[1][1])
    assert (found.low, found.high) == pytest.approx((middle - half, middle + half))
    turned = compare_changes(changes(1, 3, 60), changes(7, 2, 40))
    assert (turned.difference, turned.low, turned.high) == pytest.approx((-found.difference, -found.high, -found.low))
    # nothing varies, and still a difference may be there
    same = compare_changes(changes(0, 0, 5), changes(0, 0, 50))
    assert same.p == 1
    assert same.low < -0.1 < 0.1 < same.high
    assert np.isnan(compare_changes(changes(0, 0, 0), changes(0, 1, 50)).p)


def test_a_model_that_is_worse_everywhere_is_not_said_to_change_a_small_group_s_gap():
    rng = np.random.default_rng(0)
    p = []
    for seed in range(300):
        sides = (rng.choice([-1, 0, 1], n, p=[0.14, 0.84, 0.02]) for n in (15, 85))
        p.append(compare_changes(*sides, seed=seed).p)
    assert np.mean(np.array(p) <= 0.05) < 0.09  # three standard errors above
    assert np.mean(np.array(p) <= 0.001) < 0.02


def test_shrunk_shares_do_not_depend_on_the_order_and_few_images_are_drawn_the_furthest():
    hits, n, toward = np.array([2, 40, 45, 9]), np.array([8, 40, 50, 9]), 0.78
    found = shrunk_shares(hits, n, toward)
    np.testing.assert_allclose(shrunk_shares(hits[::-1], n[::-1], toward)[:, ::-1], found, rtol=1e-6)
    moved = found[0] - hits / n
    assert moved[0] > 0 > moved[3]
    assert abs(moved[3]) > 2 * abs(moved[1])  # both have all answers right, one of 9 and one of 40


def test_a_shrunk_share_lies_inside_its_interval():
    rng = np.random.default_rng(0)
    for _ in range(200):
        n = np.exp(rng.uniform(0.7, 7, rng.integers(2, 14))).round().astype(int)
        hits = rng.binomial(n, rng.beta(*rng.choice([0.3, 1, 3, 10, 30], 2), len(n)))
        if 0 < hits.sum() < n.sum():
            shares, low, high = shrunk_shares(hits, n, hits.sum() / n.sum())
            assert ((low <= shares) & (shares <= high)).all()


@pytest.mark.parametrize(
    ("hits", "n"), [([2, 30, 45, 8], [10, 40, 50, 9]), ([60, 58, 57, 59], [75] * 4), ([4, 190, 380], [5, 200, 500])]
)
def test_shrunk_shares_and_their_ends_by_drawing_from_a_fine_grid(hits, n):
    hits, n, rng = np.array(hits), np.array(n), np.random.default_rng(0)
    ties, means = ((np.arange(size) + 0.5) / size for size in (200, 400))
    worths = np.median(n) * ties / (1 - ties)
    a, b = (worths[:, None] * side for side in (means, 1 - means))
    likely = scipy.stats.betabinom.logpmf(hits, n, a[..., None], b[..., None]).sum(axis=-1).ravel()
    at = rng.choice(likely.size, 20_000, p=scipy.special.softmax(likely))
    drawn = rng.beta(hits + a.ravel()[at, None], n - hits + b.ravel()[at, None])
    expected = np.array([drawn.mean(axis=0), *np.quantile(drawn, [0.025, 0.975], axis=0)])
    found = shrunk_shares(hits, n, hits.sum() / n.sum())
    np.testing.assert_allclose(found[0], expected[0], atol=0.005)
    np.testing.assert_allclose(found[1:], expected[1:], atol=0.02)


@pytest.mark.parametrize(
    ("share", "n", "worth"),
    [
        (0.8, [75] * 4, 20),
        (0.8, [75] * 4, np.inf),
        (0.9, [5, 8, 12, 40, 200, 400], 20),
        (0.8, [10, 15, 25, 40, 60, 90, 200, 300], 50),
    ],
)
def test_intervals_of_shrunk_shares_cover_where_shares_vary_and_where_they_do_not(share, n, worth):
    rng, n, covered, widths = np.random.default_rng(0), np.array(n), [], []
    for _ in range(100):
        truth = rng.beta(share * worth, (1 - share) * worth, len(n)) if np.isfinite(worth) else np.full(len(n), share)
        hits = rng.binomial(n, truth)
        shares, low, high = shrunk_shares(hits, n, hits.sum() / n.sum())
        assert ((low < shares) & (shares < high)).all()
        covered.append((low <= truth) & (truth <= high))
        widths.append(high - low)
    assert np.mean(covered) >= 0.85
    assert np.min(widths) > 0.005  # of 400 answers that are all right


def test_ends_of_shrunk_shares_take_fractions_and_are_unknown_without_images():
    n, whole = np.array([20, 30, 60]), shrunk_shares(np.array([15, 26, 50]), np.array([20, 30, 60]), 0.83)
    near = shrunk_shares(np.array([15.001, 26, 50]), n, 0.83)
    np.testing.assert_allclose(near, whole, atol=1e-3)
    shares, low, high = shrunk_shares(np.zeros(2), np.zeros(2, int), 0.7)
    assert (shares == 0.7).all()
    assert np.isnan([low, high]).all()


def test_shares_that_are_alike_stay_near_each_other_and_so_do_far_ones_where_they_are():
    shares, low, high = shrunk_shares(np.array([45, 90, 9]), np.array([50, 100, 10]), 0.9)
    # all are 0.9; the mean of what a share may be is nearer to a half, the more so the fewer images there are
    assert 0.88 < shares[2] < shares[0] < shares[1] < 0.9
    assert ((low < shares) & (shares < high)).all()
    apart = shrunk_shares(np.array([1, 499]), np.array([500, 500]), 0.5)[0]
    np.testing.assert_allclose(apart, [0.002, 0.998], atol=0.01)
    no_images = shrunk_shares(np.array([0, 30, 10]), np.array([0, 40, 40]), 0.5)
    assert no_images[0, 0] == pytest.approx(0.5)
    assert np.isfinite(no_images).all()


@pytest.mark.parametrize("toward", [0.0, 1.0])
def test_where_all_are_alike_nothing_is_known_of_how_shares_vary(toward):
    shares, low, high = shrunk_shares(np.array([5, 2]) * toward, np.array([5, 2]), toward)
    assert (shares == toward).all()
    assert np.isnan([low, high]).all()


def test_shrunk_shares_are_nearer_to_the_truth():
    rng = np.random.default_rng(0)
    n, off = np.array([5, 8, 12, 40, 200, 400]), np.zeros(2)
    for _ in range(100):
        truth = rng.beta(16, 4, len(n))
        hits = rng.binomial(n, truth)
        for at, shares in enumerate((hits / n, shrunk_shares(hits, n, hits.sum() / n.sum())[0])):
            off[at] += ((shares - truth) ** 2).sum()
    assert off[1] < 0.7 * off[0]


@pytest.mark.parametrize("n", [1, 3, 20, 120])
def test_wilsons_interval_is_scipys_and_of_fractions_lies_between(n):
    spans = [share_interval(hits, n, confidence=0.9) for hits in range(n + 1)]
    others = [scipy.stats.binomtest(hits, n).proportion_ci(0.9, method="wilson") for hits in range(n + 1)]
    np.testing.assert_allclose([[of.low, of.high] for of in spans], others, atol=1e-12)
    between = share_interval(n - 0.5, n, confidence=0.9)
    assert between.estimate == 1 - 0.5 / n
    assert spans[-2].low < between.low < spans[-1].low
    assert spans[-2].high < between.high < spans[-1].high
