"""DPA and leakage: do cue and answers foretell each other better than cue and equally wrong labels do?

Tokas, Nair and Kerner 2025 (arXiv 2412.11060). One attacker guesses the model's answers from the cue and is right in a
share M of the images. Another guesses the labels, after as many of them, chosen at random, were turned as the model
gets wrong; its share is D. DPA is (M - D) / (M + D). For a cue and a target of two values the best attacker is a table:
where the cue is, and where it is not, it says what is more frequent. So nothing is trained, and nothing is random.

* *DPA, images as in training*: the labels are those of the training images. The model's rate of saying the target in
  each of the four groups of target and cue is that on the test images; M and its errors follow for images that are
  mixed like the training images. D is that of the expected table.
* *DPA, balanced images*: the labels are those of the test images, which are balanced, so that D is near 1/2. As the
  package has it, and without training labels.

* *Leakage of the cue* (Wang et al. 2019, arXiv 1811.08489): the other way round. The attacker guesses the cue from the
  answers, and from labels that are wrong as often. It is the first share less the second, on the test images; the
  second is that of the expected table. Here it does not matter whether the target is frequent.

Expected above for all: where a biased model errs it says what goes with the cue. The first, for training labels that
the cue foretells fully, is 0 whatever the model does in images that it was never shown: nothing is left to amplify.

NaN where a group of the training images has no test image, where only one kind of cue is there, and, for the first,
where training labels hold more than one attribute (digits, faces): which is the target is not said.

bias-amplification 0.2.1 guesses answers alone (its `Leakage` is DPA without the division). It trains networks as
attackers, several times, each on from the last, and prints mean and deviation with four digits. Its default quality is
1 / mean squared error: NaN where both attackers are always right. Two examples of its README stop with a TypeError:
`model_acc=`, and both directions at once.
"""

import numpy as np

from biaslib import dial, metrics
from biaslib.dial.entries import Seen


def by_group(values: np.ndarray, cue: np.ndarray, target: np.ndarray) -> np.ndarray:
    """(2, 2) sums of values, by cue and target."""
    return np.bincount(2 * cue.astype(int) + target, weights=values, minlength=4).reshape(2, 2)


def best_guess(marked: np.ndarray, of: np.ndarray) -> float:
    """The share that a table guesses: `marked` with the target of all `of`, for each kind of cue, (2,)."""
    return float(np.maximum(marked, of - marked).sum())


def amplification(shares: np.ndarray, said: np.ndarray) -> float:
    """DPA of images with these shares of the groups, (2, 2) by cue and target, and this rate of saying the target."""
    if np.isnan(said[shares > 0]).any() or not shares.sum(axis=1).all():
        return float("nan")
    said = np.where(shares > 0, said, 0.0)
    wrong = (shares * np.array([said[:, 0], 1 - said[:, 1]]).T).sum()
    cue = shares.sum(axis=1)
    model = best_guess((shares * said).sum(axis=1), cue)
    labels = best_guess(shares[:, 1] * (1 - wrong) + shares[:, 0] * wrong, cue)
    return (model - labels) / (model + labels)


@dial.metric(name="DPA, images as in training", tier=5, side="above", passes=1)
def as_in_training(case: Seen) -> float:
    """From the training labels, and the answers on the test images."""
    train = case.train
    if train.attributes.shape[1] != 1 or train.groups.max() > 1:
        return float("nan")
    shares = by_group(np.full(len(train), 1 / len(train)), train.groups, train.attributes[:, 0])
    images, said = (by_group(values, case.cue, case.truth) for values in (np.ones(len(case.cue)), case.answer))
    return amplification(shares, np.divide(said, images, out=np.full((2, 2), np.nan), where=images > 0))


@dial.metric(name="DPA, balanced images", tier=1, side="above", passes=1)
def balanced(case: Seen) -> float:
    """From the test images alone."""
    if case.cue.all() or not case.cue.any():
        return float("nan")
    return metrics.predictability_amplification(case.cue.astype(int), case.truth, case.answer).value


@dial.metric(name="Leakage of the cue", tier=1, side="above", passes=1)
def leakage(case: Seen) -> float:
    """How much better the answers tell the cue than labels that are wrong as often."""
    if case.cue.all() or not case.cue.any():
        return float("nan")
    shares = by_group(np.full(len(case.cue), 1 / len(case.cue)), case.cue, case.truth)
    answers = by_group(np.full(len(case.cue), 1 / len(case.cue)), case.cue, case.answer)
    wrong = float(np.mean(case.truth != case.answer))
    turned = shares * (1 - wrong) + shares[:, ::-1] * wrong
    return float(answers.max(axis=0).sum() - turned.max(axis=0).sum())
