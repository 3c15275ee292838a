import numpy as np
import pytest

from biaslib.errors import BiaslibError
from biaslib.metrics import Labels, bias_amplification, independent_errors


def _labels(seed, n=400):
    rng = np.random.default_rng(seed)
    return Labels(rng.random((n, 3)) < 0.5, rng.integers(0, 2, n), names="abc")


def test_rates_of_errors_stay_and_names_too():
    test, predicted = _labels(0), _labels(1)
    dealt = independent_errors(test, predicted, rng=np.random.default_rng(2))
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
    dealt = independent_errors(test, test, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(dealt.attributes, test.attributes)
    np.testing.assert_array_equal(dealt.groups, test.groups)


def test_group_errors_that_follow_an_attribute_are_spread_over_all_of_the_group():
    # group 1 has the attribute in three of four images, group 0 in one; the model says the attribute is the group
    attribute = np.array(([True] * 3 + [False]) * 500 + ([True] + [False] * 3) * 500)
    test = Labels(attribute[:, None], np.repeat([1, 0], 2000))
    predicted = Labels(attribute[:, None], attribute.astype(int))
    dealt = independent_errors(test, predicted, rng=np.random.default_rng(0))
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
    dealt = independent_errors(test, predicted, rng=np.random.default_rng(0))
    assert dealt.attributes.sum() == predicted.attributes.sum() == 1000
    assert abs(dealt.attributes[group == 0].mean() - dealt.attributes[group == 1].mean()) < 0.05
    assert bias_amplification(test, test, predicted, kind=kind).mean == pytest.approx(1 / 4)


def test_dealt_one_by_one_each_attribute_keeps_its_rates_where_no_two_images_have_the_same():
    rng = np.random.default_rng(0)
    attributes = np.unique(rng.random((300, 12)) < 0.4, axis=0)
    groups = rng.integers(0, 2, len(attributes))
    test = Labels(attributes, groups)
    predicted = Labels(attributes ^ (rng.random(attributes.shape) < 0.2), groups)
    together = independent_errors(test, predicted, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(together.attributes, predicted.attributes)
    dealt = independent_errors(test, predicted, rng=np.random.default_rng(1), together=False)
    assert (dealt.attributes != predicted.attributes).any(axis=0).all()
    for truth, said, anew in zip(attributes.T, predicted.attributes.T, dealt.attributes.T, strict=True):
        assert anew[truth].sum() == said[truth].sum()
        assert anew[~truth].sum() == said[~truth].sum()


def test_predictions_of_another_length_are_refused():
    with pytest.raises(BiaslibError, match="3 predictions for 4 test images"):
        independent_errors(_labels(0, 4), _labels(0, 3), rng=np.random.default_rng(0))
