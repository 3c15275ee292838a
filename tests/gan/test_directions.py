"""Directions in a latent space where the true ones are known."""

import numpy as np
import pandas as pd
import pytest

from biaslib.errors import BiaslibError
from biaslib.gan.directions import (
    _matched,
    as_matrix,
    attribute_direction,
    orthogonalised,
    project_out,
    random_directions,
)


@pytest.fixture(scope="module")
def space():
    """Codes of 16 numbers: the first says Hat, the second Smiling, which comes more often with a hat."""
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(4000, 16))
    codes[:, 1] += 0.8 * codes[:, 0]
    labels = pd.DataFrame({"Hat": codes[:, 0] > 0, "Smiling": codes[:, 1] > 0, "Male": rng.random(4000) < 0.5})
    return codes, labels


def test_the_true_direction_is_found(space):
    found = attribute_direction(*space, "Hat")
    assert np.linalg.norm(found.vector) == pytest.approx(1)
    assert found.vector[0] > 0.95
    assert found.n == 800
    assert found.accuracy.low < found.accuracy.estimate <= 1
    assert found.accuracy.estimate > 0.9
    assert found.accuracy.n == 320  # a fifth of 1,600


def test_codes_are_balanced_on_what_is_asked(space):
    codes, labels = space
    balanced = attribute_direction(codes, labels, "Hat", balanced_on=("Smiling", "Male"))
    assert balanced.n == 800
    # unbalanced, the direction of a hat leans to the smile that comes with it, where the hat itself cannot be seen
    hidden = codes.copy()
    hidden[:, 0] = np.random.default_rng(1).normal(size=len(codes))
    leaning = attribute_direction(hidden, labels, "Hat").accuracy
    even = attribute_direction(hidden, labels, "Hat", balanced_on=("Smiling",)).accuracy
    assert leaning.low > even.high


def test_a_protected_attribute_is_refused(space):
    with pytest.raises(BiaslibError, match="Male is not manipulated: a picture made 'more' or 'less' so would draw"):
        attribute_direction(*space, "Male")


def test_orthogonal_directions_share_nothing_with_the_others():
    vectors = np.random.default_rng(0).normal(size=(4, 20))
    cleaned = orthogonalised(vectors)
    np.testing.assert_allclose(np.linalg.norm(cleaned, axis=1), 1)
    across = cleaned @ vectors.T
    np.testing.assert_allclose(across[~np.eye(4, dtype=bool)], 0, atol=1e-10)
    assert (np.diag(across) > 0).all()
    np.testing.assert_allclose(orthogonalised(np.eye(3)), np.eye(3))
    np.testing.assert_allclose(orthogonalised(np.array([[3.0, 4.0]])), [[0.6, 0.8]])


def test_of_two_directions_by_hand():
    found = orthogonalised(np.array([[1.0, 0.0], [1.0, 1.0]]))
    np.testing.assert_allclose(found, [[0.5**0.5, -(0.5**0.5)], [0, 1]], atol=1e-12)


def test_a_mixture_of_the_others_is_named():
    with pytest.raises(BiaslibError, match="A direction is a mixture of those"):
        orthogonalised(np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]))


def test_random_directions_have_length_one_and_no_preference():
    drawn = random_directions(2000, 8, seed=1)
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), 1)
    assert np.abs(drawn.mean(axis=0)).max() < 0.05
    np.testing.assert_array_equal(drawn, random_directions(2000, 8, seed=1))


def test_directions_as_a_matrix(space):
    found = {name: attribute_direction(*space, name) for name in ("Hat", "Smiling")}
    np.testing.assert_array_equal(as_matrix(found)[1], found["Smiling"].vector)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attribute": "Beard"}, "labels have no Beard: they have Hat, Smiling, Male"),
        ({"codes": np.zeros((3, 16))}, r"codes must be \(N, d\) for the 4000 rows of labels, not \(3, 16\)"),
    ],
)
def test_what_does_not_fit_is_named(space, change, message):
    given = {"codes": space[0], "labels": space[1], "attribute": "Hat"} | change
    with pytest.raises(BiaslibError, match=message):
        attribute_direction(given.pop("codes"), given.pop("labels"), given.pop("attribute"), **given)


def test_too_few_images_and_constant_attributes_are_named(space):
    codes, labels = space
    with pytest.raises(BiaslibError, match="Hat has one value on all 4000 images: a direction needs both"):
        attribute_direction(codes, labels.assign(Hat=True), "Hat")
    rare = labels.assign(Hat=np.arange(4000) < 4)
    with pytest.raises(BiaslibError, match="Hat needs at least 10 images with it and as many without it, and there"):
        attribute_direction(codes, rare, "Hat")
    with pytest.raises(BiaslibError, match="without it that agree in Smiling, and there are 4"):
        attribute_direction(codes, rare, "Hat", balanced_on=("Smiling",))


def test_each_side_has_the_same_mixture_of_what_is_balanced_on(space):
    _, labels = space
    rng = np.random.default_rng(0)
    goatee = labels.Male & (rng.random(4000) < np.where(labels.Smiling, 0.2, 0.1))  # on no face of the other group
    labels = labels.assign(Goatee=goatee).set_index(np.arange(4000) + 7)
    rows = _matched(labels.reset_index(drop=True), "Goatee", ("Smiling", "Male"), 800, rng)
    chosen = labels.iloc[rows]
    counts = chosen.groupby(["Goatee", "Smiling", "Male"]).size()
    assert len(rows) == len(set(rows)) == 2 * goatee.sum()
    assert counts[True].equals(counts[False])
    assert set(counts[True].index) == {(True, True), (False, True)}
    fewer = labels.iloc[_matched(labels.reset_index(drop=True), "Goatee", ("Smiling",), 101, rng)]
    assert (fewer["Goatee"].sum(), len(fewer)) == (101, 202)
    assert fewer.groupby("Smiling")["Goatee"].mean().eq(0.5).all()


def test_controls_are_projected_out_as_directions_are():
    named, controls = random_directions(3, 16, seed=1), random_directions(5, 16, seed=2)
    left = project_out(controls, named)
    np.testing.assert_allclose(left @ named.T, 0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(left, axis=1), 1)
    # by hand: what is shared with one named vector is its part along it
    np.testing.assert_allclose(project_out(np.array([[3.0, 4.0]]), np.array([[0.0, 2.0]])), [[1, 0]], atol=1e-12)
    np.testing.assert_allclose(project_out(2 * controls, named[:0]), controls)
    # one after another as all at once
    np.testing.assert_allclose(project_out(named[:1], named[1:])[0], orthogonalised(named)[0])
    assert project_out(controls[:0], named).shape == (0, 16)
    with pytest.raises(BiaslibError, match="mixture of those that are projected out"):
        project_out(np.eye(3)[:1], np.eye(3)[:2])
