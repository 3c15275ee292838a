"""Directions of a latent space along which one attribute comes and goes (Denton et al. 2019, section 4.2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from sklearn.svm import LinearSVC

from biaslib.errors import BiaslibError, check_number, refused
from biaslib.statistics import Interval, interval
from biaslib.store.files import beside

_NOT_MOVED: Final[dict[str, str]] = beside(__file__)  # attribute -> why no face is moved along it
_HELD_OUT: Final = 0.2  # of the codes, on which the accuracy is measured


@dataclass(frozen=True)
class Direction:
    """An attribute vector."""

    vector: np.ndarray  #: (d,) of length 1; along it the attribute comes
    accuracy: Interval  #: of the linear classifier on codes that it was not fitted on
    n: int  #: how many codes with the attribute, and as many without, it was fitted and tested on


def attribute_direction(
    codes: np.ndarray,
    labels: pd.DataFrame,
    attribute: str,
    *,
    balanced_on: tuple[str, ...] = (),
    each: int = 800,
    seed: int = 0,
) -> Direction:
    """The normal of the plane that best parts codes (N, d) with an attribute from codes without.

    `labels` of the same N images have one bool column an attribute. Within every combination of the attributes that are
    balanced on, as many codes are taken with the attribute as without it, so that none of these can be what tells the
    two apart; a combination that one side lacks is left out. `each` codes are taken on each side at most (the paper has
    800, and balances on the target and the protected attribute). The classifier is a linear support vector machine,
    `seed` that of the choice of codes and of the split. A `BiaslibError` is raised for what is not manipulated
    (`check_movable`), an unknown or constant attribute, too few images of a side, or codes that do not fit the labels.
    """
    check_movable(attribute)
    if codes.ndim != 2 or len(codes) != len(labels):
        raise BiaslibError(f"codes must be (N, d) for the {len(labels)} rows of labels, not {codes.shape}.")
    if missing := {attribute, *balanced_on} - set(labels.columns):
        raise BiaslibError(f"labels have no {', '.join(sorted(missing))}: they have {', '.join(labels.columns)}.")
    rng = np.random.default_rng(seed)
    has = labels[attribute].to_numpy(bool)
    if has.all() or not has.any():
        raise BiaslibError(f"{attribute} has one value on all {len(has)} images: a direction needs both.")
    others = tuple(name for name in balanced_on if name != attribute)
    rows = _matched(labels.reset_index(drop=True), attribute, others, each, rng)
    tested = np.zeros(len(rows), bool)
    for side in (True, False):  # as many of each side are held out
        members = np.flatnonzero(has[rows] == side)
        tested[rng.permutation(members)[: max(1, round(_HELD_OUT * len(members)))]] = True
    # codes of one scale, so that the classifier's own penalty means the same for all encoders
    scale = codes[rows].std() or 1.0
    model = LinearSVC(C=0.01, random_state=0).fit(codes[rows[~tested]] / scale, has[rows[~tested]])
    right = model.predict(codes[rows[tested]] / scale) == has[rows[tested]]
    accuracy = interval(right.astype(float), seed=seed, bounds=(0.0, 1.0))
    vector, length = model.coef_[0], np.linalg.norm(model.coef_[0])
    if not length > 0:
        raise BiaslibError("A direction of length 0 points nowhere: the classifier found nothing to tell apart.")
    return Direction(vector / length, accuracy, len(rows) // 2)


def check_movable(attribute: str) -> None:
    """Refuses an attribute along which no face is moved, whatever the faces are."""
    if attribute in _NOT_MOVED:
        reason = _NOT_MOVED[attribute]
        raise BiaslibError(f"{attribute} is not manipulated: {reason}. Compare groups on real images instead.")


def orthogonalised(vectors: np.ndarray) -> np.ndarray:
    """Each vector without what it shares with any of the others, of length 1 again (Shen et al. 2020, section 3.3).

    Vectors are (A, d); row a of the result (A, d) is at a right angle to all their other rows. A vector in the span of
    the others, of which nothing is left, is a `BiaslibError`.
    """
    others = (np.delete(vectors, number, axis=0) for number in range(len(vectors)))
    return np.concatenate([project_out(vector[None], rest) for vector, rest in zip(vectors, others, strict=True)])


def project_out(vectors: np.ndarray, onto: np.ndarray) -> np.ndarray:
    """Each vector (R, d) with its projection onto the span of others (K, d) taken out, of length 1 again.

    What `orthogonalised` does to directions, done to the random directions that they are compared with, and with the
    same error. No vector is of length 0; K < d, and with K = 0 the vectors come back as they are, at length 1.
    """
    basis, _ = np.linalg.qr(onto.T)
    left = vectors - vectors @ basis @ basis.T
    length, whole = (np.linalg.norm(rows, axis=1, keepdims=True) for rows in (left, vectors))
    if not (length > 1e-6 * whole).all():
        raise BiaslibError("A direction is a mixture of those that are projected out: leave one of them out.")
    return left / length


def random_directions(count: int, latent: int, *, seed: int = 0) -> np.ndarray:
    """(count, latent) directions without a meaning, of length 1, evenly over the sphere: what a direction must beat."""
    drawn = np.random.default_rng(seed).normal(size=(count, latent))
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def as_matrix(directions: Mapping[str, Direction]) -> np.ndarray:
    """(A, d): the vectors, in their order."""
    return np.stack([direction.vector for direction in directions.values()])


def _matched(
    labels: pd.DataFrame, attribute: str, others: tuple[str, ...], each: int, rng: np.random.Generator
) -> np.ndarray:
    """Rows: in every combination of the other columns as many with the attribute as without, `each` a side at most."""
    cells = labels[[attribute, *others]].astype(bool).groupby(list(others)) if others else [((), labels[[attribute]])]
    sides = [(cell.index[cell[attribute]], cell.index[~cell[attribute].astype(bool)]) for _, cell in cells]
    pairs = np.array([min(map(len, side)) for side in sides])
    check_number("each, codes on either side,", each, 10, whole=True)
    if pairs.sum() < 10:
        among = f" that agree in {', '.join(others)}" if others else ""
        raise refused("too few codes", attribute=attribute, among=among, n=pairs.sum())
    kept = np.floor(pairs * min(1.0, each / pairs.sum())).astype(int)
    kept[np.argsort(kept - pairs, kind="stable")[: min(each, pairs.sum()) - kept.sum()]] += 1  # what rounding left
    chosen = [rng.permutation(rows)[:count] for side, count in zip(sides, kept, strict=True) for rows in side]
    return np.sort(np.concatenate(chosen))
