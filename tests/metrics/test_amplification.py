import itertools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import torch
from bias_amplification.metrics.CoOccurMetrics import MDBA
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import expit

from biaslib.errors import BiaslibError
from biaslib.metrics import Labels, bias_amplification, counting, permutation_baseline

KINDS = ("undirected", "group_to_attribute", "attribute_to_group")

Triple = tuple[Labels, Labels, Labels]


@st.composite
def triples(draw: st.DrawFn, most_attributes: int = 8) -> Triple:
    """Labels of training, of test and predictions: a few images, so that many cells are empty."""
    n_groups, width = draw(st.integers(2, 4)), draw(st.integers(1, most_attributes))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    share = draw(st.sampled_from([0.2, 0.5, 0.8]))

    def some(n: int) -> Labels:
        attributes = rng.random((n, width)) < share
        attributes[rng.integers(n, size=width), np.arange(width)] = True  # each occurs
        groups = np.append(np.arange(n_groups), rng.integers(0, n_groups, n - n_groups))
        return Labels(attributes, rng.permutation(groups))

    train, test = (some(draw(st.integers(n_groups, 20))) for _ in range(2))
    wrong = draw(st.sampled_from([0.0, 0.1, 0.5]))
    flipped = test.attributes ^ (rng.random(test.attributes.shape) < wrong)
    other = np.where(rng.random(len(test)) < wrong, rng.integers(0, n_groups, len(test)), test.groups)
    return train, test, Labels(flipped, other)


def by_the_formulas(
    train: Labels, test: Labels, predicted: Labels, *, kind: str, min_size: int = 1, max_size: int | None = None,
    sets: str = "all", absolute: bool = True, reference: str = "test", threshold: str = "1/G",
) -> tuple[float, float, int, int]:  # fmt: skip
    """Set by set, image by image, as the paper writes it: mean, variance, |M|, and sets that are never predicted."""
    groups = range(1 + max(train.groups))

    def having(labels: Labels, members: tuple[int, ...]) -> np.ndarray:
        return np.array([all(image[a] for a in members) for image in labels.attributes])

    width = train.attributes.shape[1]
    every = [m for k in range(1, width + 1) for m in itertools.combinations(range(width), k)]
    chosen = [
        m
        for m in every
        if min_size <= len(m) <= (max_size or width) and having(train, m).any() and having(test, m).any()
    ]
    if sets == "observed":
        whole = {tuple(np.flatnonzero(image)) for image in train.attributes}
        chosen = [m for m in chosen if m in whole]
    cells, total, never = [], 0.0, 0
    for m in chosen:
        in_train, in_test, in_predicted = (having(labels, m) for labels in (train, test, predicted))
        never += kind != "attribute_to_group" and not in_predicted.any()
        for g in groups:
            of_train, of_test, of_predicted = (labels.groups == g for labels in (train, test, predicted))
            if kind == "undirected":
                bias = (in_train & of_train).sum() / in_train.sum()
                limit = 1 / len(groups) if threshold == "1/G" else 1 / (len(groups) - 1)
                d = 0.0
                # 1/3 has no exact float: compare in whole numbers
                if (in_train & of_train).sum() * round(1 / limit) > in_train.sum() and in_predicted.any():
                    d = (in_predicted & of_predicted).sum() / in_predicted.sum() - bias
                total += abs(d) if absolute else d
                cells.append(d)
                continue
            have, of = (in_test, of_test) if reference == "test" else (in_train, of_train)
            if kind == "group_to_attribute":
                d = (in_predicted & of_test).sum() / of_test.sum() - (have & of).sum() / of.sum()
            else:
                d = (of_predicted & in_test).sum() / in_test.sum() - (have & of).sum() / have.sum()
            joint, apart = (in_train & of_train).sum() * len(train), in_train.sum() * of_train.sum()
            if absolute:
                total += abs(d)
            else:
                total += d if joint > apart else -d
            cells.append(d)
    if not chosen:
        return np.nan, np.nan, 0, 0
    divisor = len(chosen) * (1 if kind == "undirected" else len(groups))
    return total / divisor, float(np.var(cells)), len(chosen), never


def measured(*labels: Labels, **options: Any) -> tuple[float, float, int, int]:
    found = bias_amplification(*labels, **options)
    return found.mean, found.variance, found.n_sets, found.n_never_predicted


OPTIONS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(KINDS),
        "absolute": st.booleans(),
        "reference": st.sampled_from(["test", "train"]),
        "sets": st.sampled_from(["all", "observed"]),
        "threshold": st.sampled_from(["1/G", "1/(G-1)"]),
    }
)


@settings(max_examples=100, deadline=None)
@given(triples(), OPTIONS, st.data())
def test_against_the_formulas(labels: Triple, options: dict[str, Any], data: st.DataObject) -> None:
    width = labels[0].attributes.shape[1]
    options["min_size"] = data.draw(st.integers(1, min(width, 3)))
    options["max_size"] = data.draw(st.none() | st.integers(options["min_size"], width + 1))
    expected = by_the_formulas(*labels, **options)
    with pytest.MonkeyPatch.context() as patch:
        for largest_table in (0, 24):  # once level by level (or by a product), once by the table
            patch.setattr(counting, "_LARGEST_TABLE", largest_table)
            assert measured(*labels, **options) == pytest.approx(expected, nan_ok=True, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(triples(most_attributes=12), st.integers(1, 3), st.booleans())
def test_the_ways_of_counting_agree(labels: Triple, min_size: int, observed: bool) -> None:
    width = labels[0].attributes.shape[1]
    assume(min_size <= width)
    found = []
    for largest_table in (24, 0):  # by the table, then level by level (or by a product)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(counting, "_LARGEST_TABLE", largest_table)
            counts = counting.count_sets(
                *labels, n_groups=1 + max(labels[0].groups), min_size=min_size, max_size=width, observed=observed
            )
        members = counts.members(np.arange(counts.n_sets))
        sides = np.concatenate([counts.train, counts.test, counts.predicted]).T
        found.append(dict(zip(map(tuple, members), map(tuple, sides), strict=True)))
        assert len(found[-1]) == counts.n_sets
        chosen = np.arange(counts.n_sets)[::-2]
        np.testing.assert_array_equal(counts.members(chosen), members[chosen])
    assert found[0] == found[1]


def test_superset_sums_beyond_one_block() -> None:
    rng = np.random.default_rng(0)
    table = rng.integers(0, 9, 1 << 17).astype(np.int32)
    sums = table.copy()
    counting._superset_sums(sums)
    numbers = np.arange(len(table))
    for some in (0, 1, 5, 0b1_0110_0000_0000_0001, len(table) - 1):
        assert sums[some] == table[numbers & some == some].sum()


# eight images of training and of test: p and q are alone as common in both groups, together in group 0 only
GROUPS = [0, 0, 0, 0, 1, 1, 1, 1]
SKEWED = [[1, 1], [1, 1], [0, 0], [0, 0], [1, 0], [1, 0], [0, 1], [0, 1]]


def test_by_hand() -> None:
    labels = Labels(SKEWED, GROUPS)
    # the first image's q is missed, the fifth gains one, and the last is taken for group 0
    attributes = np.array(SKEWED)
    attributes[0, 1], attributes[4, 1] = 0, 1
    predicted = Labels(attributes, [0, 0, 0, 0, 1, 1, 1, 0])
    singles = bias_amplification(labels, labels, predicted, max_size=1)
    assert (singles.mean, singles.variance, singles.n_sets) == (0, 0, 2)
    # {p, q}: 2 of 2 in group 0, then 1 of 2
    both = bias_amplification(labels, labels, predicted, min_size=2)
    assert (both.mean, both.variance, both.n_sets) == (0.5, 0.0625, 1)
    assert bias_amplification(labels, labels, predicted, absolute=False).mean == pytest.approx(-0.5 / 3)
    # p keeps its rates; q loses 1/4 in group 0 and gains 1/4 in group 1, and so does {p, q}
    forward = bias_amplification(labels, labels, predicted, kind="group_to_attribute")
    assert (forward.mean, forward.variance) == (pytest.approx(1 / 6), pytest.approx(1 / 24))
    # independent singles count as -d, which cancels; the pair is positive with group 0 and falls by 1/4 in both senses
    raw = bias_amplification(labels, labels, predicted, kind="group_to_attribute", absolute=False)
    assert raw.mean == pytest.approx((0 + 0 + 0.25 - 0.25 - 0.25 - 0.25) / 6)
    # q: the eighth image is one of four that have it
    back = bias_amplification(labels, labels, predicted, kind="attribute_to_group")
    assert (back.mean, back.variance) == (pytest.approx(0.25 * 2 / 6), pytest.approx(0.25**2 * 2 / 6))


def test_the_table_by_hand() -> None:
    labels = Labels(pd.DataFrame(SKEWED, columns=["p", "q"]), GROUPS)
    predicted = Labels(np.array(SKEWED) * [1, 0] + [[0, 1]] + np.zeros((8, 1), int), GROUPS)  # q everywhere
    rows = bias_amplification(labels, labels, predicted).table(top=1)
    assert rows.to_dict("records") == [
        {
            "attributes": ("p", "q"), "size": 2, "group": 0, "positive": True, "train_bias": 1.0, "reference": 1.0,
            "predicted": 0.5, "d": -0.5, "n_train": 2, "n_test": 2, "n_predicted": 2,
        }
    ]  # fmt: skip
    assert len(bias_amplification(labels, labels, predicted).table(top=None)) == 6
    assert bias_amplification(labels, labels, predicted).table(top=0).empty


@settings(max_examples=60, deadline=None)
@given(triples(most_attributes=5), st.sampled_from(KINDS), st.booleans())
def test_the_table_holds_what_the_mean_is_made_of(labels: Triple, kind: Any, levels: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "_LARGEST_TABLE", 0 if levels else 24)
        found = bias_amplification(*labels, kind=kind)
    rows = found.table(top=None)
    n_groups = 1 + max(labels[0].groups)
    assert len(rows) == found.n_sets * n_groups
    divisor = found.n_sets if kind == "undirected" else len(rows)
    assert rows.d.abs().sum() / divisor == pytest.approx(found.mean)
    assert rows.d.fillna(0).var(ddof=0) == pytest.approx(found.variance)
    assert rows.d.abs().dropna().is_monotonic_decreasing
    never = rows[rows.d.isna()]
    assert (never.n_predicted == 0).all()
    for row in rows.itertuples():
        inside = labels[0].attributes[:, list(row.attributes)].all(axis=1)
        assert row.size == len(row.attributes)
        assert row.n_train == (inside & (labels[0].groups == row.group)).sum()
        assert row.train_bias == row.n_train / inside.sum()
    some = found.table(top=3)
    pd.testing.assert_frame_equal(some, rows.head(3))


@settings(max_examples=40, deadline=None)
@given(triples(), st.sampled_from(KINDS), st.booleans(), st.randoms(use_true_random=False))
def test_names_and_order_mean_nothing(labels: Triple, kind: Any, absolute: bool, random: Any) -> None:
    n_groups, width = int(1 + max(labels[0].groups)), labels[0].attributes.shape[1]
    columns, numbers = random.sample(range(width), width), np.array(random.sample(range(n_groups), n_groups))
    images = random.sample(range(len(labels[1])), len(labels[1]))
    renamed = [Labels(side.attributes[:, columns], numbers[side.groups]) for side in labels]
    renamed[1:] = [Labels(side.attributes[images], side.groups[images]) for side in renamed[1:]]
    expected = measured(*labels, kind=kind, absolute=absolute)
    assert measured(*renamed, kind=kind, absolute=absolute) == pytest.approx(expected, nan_ok=True, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(triples(), OPTIONS)
def test_predicting_the_labels_amplifies_nothing(labels: Triple, options: dict[str, Any]) -> None:
    train, test, _ = labels
    if options["kind"] == "undirected" or options["reference"] == "train":
        test = train  # these start from train
    found = bias_amplification(train, test, test, **options)
    assert (found.mean, found.variance) == (0, 0) or found.n_sets == 0


@pytest.mark.parametrize("kind", KINDS)
def test_balanced_singles_hide_a_skewed_pair(kind: Any) -> None:
    labels = Labels(SKEWED, GROUPS)
    if kind == "attribute_to_group":
        # an image with both moves to group 1, one with p alone and one with q alone to group 0
        predicted = Labels(SKEWED, [1, 0, 0, 0, 0, 1, 0, 1])
    else:
        # both groups alike: one image with both, one with p, one with q, one with neither
        predicted = Labels([[1, 1], [1, 0], [0, 1], [0, 0]] * 2, GROUPS)
    for absolute in (True, False):
        singles = bias_amplification(labels, labels, predicted, kind=kind, absolute=absolute, max_size=1)
        assert (singles.mean, singles.variance) == (0, 0)
    pair = bias_amplification(labels, labels, predicted, kind=kind, min_size=2)
    assert pair.mean == (0.25 if kind == "group_to_attribute" else 0.5)


@settings(max_examples=40, deadline=None)
@given(triples())
def test_single_attributes_give_zhao_and_others_2017(labels: Triple) -> None:
    """(1/|O|) sum over attributes, and over groups with b* > 1/|G|, of b~ - b*, as in their section 3."""
    train, _, predicted = labels
    n_groups = 1 + max(train.groups)
    assume(predicted.attributes.any(axis=0).all())
    data = pd.DataFrame(train.attributes).assign(group=train.groups)
    star = data.groupby("group").sum().reindex(range(n_groups), fill_value=0)
    tilde = pd.DataFrame(predicted.attributes).assign(group=predicted.groups).groupby("group").sum()
    tilde = tilde.reindex(range(n_groups), fill_value=0)
    over = star * n_groups > star.sum()
    expected = ((tilde / tilde.sum() - star / star.sum())[over]).sum().mean()
    assert bias_amplification(*labels, max_size=1, absolute=False).mean == pytest.approx(expected, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(triples())
def test_single_attributes_give_wang_and_russakovsky_2021(labels: Triple) -> None:
    """Their equations 1 to 3, by matrix products: BiasAmp-> from the group (A -> T) and from the attribute (T -> A)."""
    train, test, predicted = labels
    n_groups = 1 + max(train.groups)
    one_hot = [np.eye(n_groups)[side.groups] for side in labels]
    y = one_hot[0].T @ train.attributes / len(train) > np.outer(one_hot[0].mean(0), train.attributes.mean(0)) + 1e-12
    to_attribute = (one_hot[1].T @ predicted.attributes - one_hot[1].T @ test.attributes) / one_hot[1].sum(0)[:, None]
    to_group = (one_hot[2] - one_hot[1]).T @ test.attributes / test.attributes.sum(0)
    for kind, delta in (("group_to_attribute", to_attribute), ("attribute_to_group", to_group)):
        found = bias_amplification(*labels, kind=kind, max_size=1, absolute=False)
        assert found.mean == pytest.approx(np.where(y, delta, -delta).mean(), abs=1e-12)
        assert found.variance == pytest.approx(delta.var(), abs=1e-12)


def test_what_is_never_predicted_is_counted_and_left_out_of_the_sum() -> None:
    labels = Labels(SKEWED, GROUPS)
    predicted = Labels(np.array(SKEWED) * [1, 0], GROUPS)  # q is never predicted
    found = bias_amplification(labels, labels, predicted)
    assert (found.mean, found.n_sets, found.n_never_predicted) == (0, 3, 2)
    undefined = found.table(top=None).d.isna()
    assert undefined.sum() == 1  # {p, q} with group 0; q alone is balanced, so no cell of it counts


def test_no_set_is_undefined() -> None:
    labels = Labels([[1, 0], [0, 1]], [0, 1])
    found = bias_amplification(labels, labels, labels, min_size=2)
    assert found.n_sets == 0
    assert np.isnan(found.mean)
    assert np.isnan(found.variance)
    assert found.table().empty


def test_the_released_threshold_never_holds_for_two_groups() -> None:
    labels = Labels(SKEWED, GROUPS)
    predicted = Labels(np.roll(SKEWED, 3, axis=0), GROUPS)
    assert bias_amplification(labels, labels, predicted).mean > 0
    assert bias_amplification(labels, labels, predicted, threshold="1/(G-1)").mean == 0


def test_labels_of_any_kind() -> None:
    expected = bias_amplification(*[Labels(np.array(SKEWED, bool), np.array(GROUPS))] * 3).table()
    kinds = (
        Labels(torch.tensor(SKEWED), torch.tensor(GROUPS)),
        Labels(pd.DataFrame(SKEWED), pd.Series(GROUPS)),
        Labels(np.array(SKEWED, float), np.array(GROUPS, bool)),
        Labels(np.asfortranarray(np.array(SKEWED, bool)), np.repeat(GROUPS, 2)[::2]),
    )
    for labels in kinds:
        pd.testing.assert_frame_equal(bias_amplification(labels, labels, labels).table(), expected)
    named = Labels(SKEWED, GROUPS, names=["tie", "mug"])
    assert bias_amplification(named, named, named, min_size=2).table().attributes[0] == ("tie", "mug")


def test_a_result_can_be_sent_to_another_process() -> None:
    for largest_table in (0, 24):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(counting, "_LARGEST_TABLE", largest_table)
            found = bias_amplification(*[Labels(SKEWED, GROUPS)] * 3)
        again = pickle.loads(pickle.dumps(found))
        pd.testing.assert_frame_equal(again.table(), found.table())


def test_many_attributes_with_few_on_an_image() -> None:
    rng = np.random.default_rng(0)
    attributes = np.zeros((400, 300), int)
    attributes[np.arange(400)[:, None], rng.integers(0, 300, (400, 6))] = 1
    attributes[np.arange(300), np.arange(300)] = 1
    labels = Labels(attributes, rng.integers(0, 2, 400))
    found = bias_amplification(labels, labels, labels, min_size=2, max_size=3)
    rows = {m for row in attributes for k in (2, 3) for m in itertools.combinations(np.flatnonzero(row), k)}
    assert (found.n_sets, found.mean) == (len(rows), 0)
    # one image with everything would be 2^300 sets, but only what others have as well counts
    predicted = Labels(np.vstack([np.ones((1, 300), int), attributes[1:]]), labels.groups)
    assert bias_amplification(labels, labels, predicted, min_size=2, max_size=3).n_sets == len(rows)


SMALL = Labels(SKEWED, GROUPS)
WIDE = Labels(np.ones((4, 40), bool) & ~np.eye(4, 40, dtype=bool), [0, 1, 0, 1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Labels(np.zeros((0, 2)), []), r"at least one image and one attribute, not \(0, 2\)"),
        (lambda: Labels([0, 1], [0, 1]), r"attributes must be \(N, A\)"),
        (lambda: Labels([[0.5, 1]], [0]), "attributes must hold 0 and 1 only"),
        (lambda: Labels([[np.nan, 1]], [0]), "attributes must hold 0 and 1 only"),
        (lambda: Labels([["yes", "no"]], [0]), "attributes must hold 0 and 1 only"),
        (lambda: Labels([[-1, 1]], [0]), "attributes must hold 0 and 1 only"),
        (lambda: Labels([[1]], ["woman"]), "groups must be whole numbers"),
        (lambda: Labels([[1]], [-1]), "groups must be whole numbers"),
        (lambda: Labels([[1]], [0.5]), "groups must be whole numbers"),
        (lambda: Labels([[1]], [[0]]), r"groups must be \(N,\)"),
        (lambda: Labels([[1]], [0, 1]), "1 images but 2 groups"),
        (lambda: Labels([[1]], [0], names=["a", "b"]), "1 attributes but 2 names"),
        (lambda: bias_amplification(SMALL, SMALL, Labels(SKEWED[:7], GROUPS[:7])), "7 predictions for 8 test images"),
        (
            lambda: bias_amplification(SMALL, Labels([[1]] * 2, [0, 1]), Labels([[1]] * 2, [0, 1])),
            "have 2, 1 and 1 attributes",
        ),
        (
            lambda: bias_amplification(SMALL, Labels(SKEWED, [0] * 8), SMALL),
            "Group 1 of 2 has no image in test",
        ),
        (
            lambda: bias_amplification(Labels(SKEWED, [0, 2] * 4), Labels(SKEWED, [0, 1] * 4), SMALL),
            "Group 1 of 3 has no image in train",
        ),
        (lambda: bias_amplification(SMALL, SMALL, SMALL, n_groups=3), "Group 2 of 3 has no image in train"),
        (lambda: bias_amplification(SMALL, SMALL, Labels(SKEWED, [2] * 8)), "predicted has the group 2"),
        (lambda: bias_amplification(*[Labels(SKEWED, [0] * 8)] * 3), "There is one group only"),
        (
            lambda: bias_amplification(Labels(np.array(SKEWED) * [1, 0], GROUPS), SMALL, SMALL),
            "Attribute 1 never occurs in train",
        ),
        (
            lambda: bias_amplification(SMALL, Labels(np.array(SKEWED) * [0, 1], GROUPS, names=["tie", "mug"]), SMALL),
            "Attribute 'tie' never occurs in test",
        ),
        (lambda: bias_amplification(SMALL, SMALL, SMALL, kind="both"), "kind must be one of undirected"),
        (lambda: bias_amplification(SMALL, SMALL, SMALL, sets="some"), "sets must be one of all"),
        (lambda: bias_amplification(SMALL, SMALL, SMALL, reference="val"), "reference must be one of test"),
        (lambda: bias_amplification(SMALL, SMALL, SMALL, min_size=3), "There is no set of at least 3 and at most 2"),
        (lambda: bias_amplification(SMALL, SMALL, SMALL, min_size=0), "There is no set of at least 0"),
        (lambda: bias_amplification(SMALL, SMALL, SMALL, min_size=2, max_size=1), "There is no set of at least 2"),
        (lambda: bias_amplification(WIDE, WIDE, WIDE), r"With 40 attributes, up to 39 .* give a smaller max_size"),
    ],
)
def test_wrong_labels_get_one_sentence(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(BiaslibError, match=message):
        call()


def test_any_order_in_memory() -> None:
    rng = np.random.default_rng(0)
    attributes, groups = rng.random((50, 12)) < 0.4, np.arange(50) % 2
    expected = bias_amplification(*[Labels(attributes.copy(), groups)] * 3).n_sets
    by_column = np.asfortranarray(attributes)
    assert bias_amplification(*[Labels(by_column, groups)] * 3).n_sets == expected
    wider = np.repeat(attributes, 2, axis=1)
    assert bias_amplification(*[Labels(wider[:, ::2], groups)] * 3).n_sets == expected


def test_what_is_refused_in_full_is_counted_in_part() -> None:
    found = bias_amplification(WIDE, WIDE, WIDE, max_size=2)
    assert (found.mean, found.n_sets) == (0, 40 + 40 * 39 // 2)
    assert bias_amplification(WIDE, WIDE, WIDE, sets="observed").n_sets == 4


def _labels(seed, n=400):
    rng = np.random.default_rng(seed)
    return Labels(rng.random((n, 3)) < 0.5, rng.integers(0, 2, n), names="abc")


def test_rates_of_errors_stay_and_names_too():
    test, predicted = _labels(0), _labels(1)
    dealt = permutation_baseline(test, predicted, rng=np.random.default_rng(2))
    assert dealt.names == predicted.names
    assert (dealt.groups != predicted.groups).any()
    assert (dealt.attributes != predicted.attributes).any()
    for group in (0, 1):
        rows = test.groups == group
        assert np.bincount(dealt.groups[rows]).tolist() == np.bincount(predicted.groups[rows]).tolist()
    for pattern in np.unique(test.attributes, axis=0):
        rows = (test.attributes == pattern).all(axis=1)
        assert sorted(dealt.attributes[rows].tolist()) == sorted(predicted.attributes[rows].tolist())


def test_no_errors_stay_no_errors():
    test = _labels(0)
    dealt = permutation_baseline(test, test, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(dealt.attributes, test.attributes)
    np.testing.assert_array_equal(dealt.groups, test.groups)


def test_group_errors_that_follow_an_attribute_are_spread_over_all_of_the_group():
    # group 1 has the attribute in three of four images, group 0 in one; the model says the attribute is the group
    attribute = np.array(([True] * 3 + [False]) * 500 + ([True] + [False] * 3) * 500)
    test = Labels(attribute[:, None], np.repeat([1, 0], 2000))
    predicted = Labels(attribute[:, None], attribute.astype(int))
    dealt = permutation_baseline(test, predicted, rng=np.random.default_rng(0))
    kind = "attribute_to_group"
    # P(said 1 | attribute) is 1 where 3/4 is true; without the tie 3/4 * 3/4 + 1/4 * 1/4 = 5/8
    assert bias_amplification(test, test, predicted, kind=kind, absolute=False).mean == pytest.approx(1 / 4)
    assert bias_amplification(test, test, dealt, kind=kind, absolute=False).mean == pytest.approx(-1 / 8, abs=0.02)


def test_attribute_errors_that_follow_the_group_lose_it():
    attribute = np.tile([True, False], 2000)
    group = np.repeat([0, 1], 2000)
    test = Labels(attribute[:, None], group)
    predicted = Labels((attribute & (group == 1))[:, None], group)  # group 0 is never said to have it
    kind = "group_to_attribute"
    dealt = permutation_baseline(test, predicted, rng=np.random.default_rng(0))
    assert dealt.attributes.sum() == predicted.attributes.sum() == 1000
    assert abs(dealt.attributes[group == 0].mean() - dealt.attributes[group == 1].mean()) < 0.05
    assert bias_amplification(test, test, predicted, kind=kind).mean == pytest.approx(1 / 4)


def test_dealt_one_by_one_each_attribute_keeps_its_rates_where_no_two_images_have_the_same():
    rng = np.random.default_rng(0)
    attributes = np.unique(rng.random((300, 12)) < 0.4, axis=0)
    groups = rng.integers(0, 2, len(attributes))
    test = Labels(attributes, groups)
    predicted = Labels(attributes ^ (rng.random(attributes.shape) < 0.2), groups)
    together = permutation_baseline(test, predicted, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(together.attributes, predicted.attributes)
    dealt = permutation_baseline(test, predicted, rng=np.random.default_rng(1), together=False)
    assert (dealt.attributes != predicted.attributes).any(axis=0).all()
    for truth, said, anew in zip(attributes.T, predicted.attributes.T, dealt.attributes.T, strict=True):
        assert anew[truth].sum() == said[truth].sum()
        assert anew[~truth].sum() == said[~truth].sum()


def _crowded(seed, n):
    """Drawn labels, and predictions with more errors where more is there, none of which depends on the group."""
    rng = np.random.default_rng(seed)
    attributes = rng.random((n, 10)) < 0.4
    groups = rng.integers(0, 2, n)
    crowd = (attributes.sum(axis=1) - 4.0) / 2
    wrong = rng.random(attributes.shape) < expit(np.where(attributes, -1.5, -2.0) + 0.5 * crowd[:, None])
    mistaken = rng.random(n) < expit(-1.5 + 0.7 * crowd)
    return Labels(attributes, groups), Labels(attributes ^ wrong, np.where(mistaken, 1 - groups, groups))


def test_crowded_images_keep_their_errors():
    test, predicted = _crowded(0, 4000)
    permuted = permutation_baseline(test, predicted, rng=np.random.default_rng(0), together=False)
    full = test.attributes.sum(axis=1) >= 6
    before, after = ((each.groups != test.groups)[full].mean() for each in (predicted, permuted))
    assert before > (predicted.groups != test.groups).mean() + 0.1
    assert after == pytest.approx(before, abs=0.05)


@pytest.mark.slow
def test_the_baseline_covers_models_that_cannot_amplify_as_often_as_it_says():
    redraws, draws = 100, 39  # the smallest and the largest of 39 values are the ends of 95 %
    ways = {(kind, least, most): {"kind": kind, "min_size": least, "max_size": most}
            for kind in KINDS for least, most in ((1, 1), (2, 3), (4, None))}  # fmt: skip
    covered = dict.fromkeys(ways, 0)
    for redraw in range(redraws):
        train = _crowded(2 * redraw, 1200)[0]
        test, predicted = _crowded(2 * redraw + 1, 800)
        rng = np.random.default_rng(redraw)
        permuted = [permutation_baseline(test, predicted, rng=rng, together=False) for _ in range(draws)]
        for way, options in ways.items():
            own, *others = (bias_amplification(train, test, said, **options).mean for said in (predicted, *permuted))
            covered[way] += min(others) < own < max(others)
    low, high = scipy.stats.binom.ppf([0.025 / len(ways), 1 - 0.025 / len(ways)], redraws, 0.95)
    assert {way: n for way, n in covered.items() if not low <= n <= high} == {}


def test_predictions_of_another_length_are_refused():
    with pytest.raises(BiaslibError, match="3 predictions for 4 test images"):
        permutation_baseline(_labels(0, 4), _labels(0, 3), rng=np.random.default_rng(0))


def test_group_to_attribute_is_that_of_the_package_once_its_total_is_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    """MDBA of bias-amplification 0.2.1 divides by a sum over its one column, so that every share it compares is 1."""
    rng = np.random.default_rng(0)
    groups, attributes = rng.integers(0, 2, 300), rng.random((300, 4)) < 0.5
    said = attributes ^ (rng.random((300, 4)) < 0.1 + 0.2 * groups[:, None])
    members, true, predicted = (
        torch.tensor(values, dtype=torch.float32) for values in (np.eye(2)[groups], attributes, said)
    )
    assert MDBA().computeBiasAmp(members, true, predicted)[0] == 0
    monkeypatch.setattr(MDBA, "computeTgivenA", lambda _, group, sets: group.T @ sets / group.sum(0)[:, None])
    mean, variance = MDBA().computeBiasAmp(members, true, predicted)
    labels = Labels(attributes, groups)
    ours = bias_amplification(labels, labels, Labels(said, groups), kind="group_to_attribute")
    assert float(mean) == pytest.approx(ours.mean, abs=1e-7)
    cells = ours.table(None)
    signed = np.where(cells["positive"], cells["d"], -cells["d"])
    assert float(variance) == pytest.approx(signed.var(ddof=1), abs=1e-7)
