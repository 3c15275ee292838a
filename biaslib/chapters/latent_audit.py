"""Classifiers of smiles under audit, while a generator moves faces (Denton et al. 2019); through the store."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
import scipy.stats
from scipy.special import expit

from biaslib import training
from biaslib.chapters import face_generators, latent
from biaslib.chapters.attribute_models import EvaluationFaces, Experiment
from biaslib.chapters.face_generators import GeneratorSetup
from biaslib.chapters.latent import CodeRequest
from biaslib.errors import BiaslibError, check_known, refused
from biaslib.gan.counterfactuals import draw, latent_codes, traversal
from biaslib.gan.directions import project_out, random_directions
from biaslib.recipes import load, train
from biaslib.store import stored
from biaslib.worlds.faces import Faces

TARGET: Final = "Smiling"
CLEAN: Final = "tied to nothing"
# what pages call the two ways to use directions: without and with `DirectionAudit.orthogonal`
PAPERS, PROJECTED = "as fitted (the paper)", "projected out"
STEPS: Final = (-3.0, -2.0, -1.0, 1.0, 2.0, 3.0)
# verdicts are given from -3 to +3, the step at which `gan.counterfactuals.leakage` is measured
STEP: Final = 3.0
# codes and directions of the audit are not those that attribute directions were fitted on
_CODES_SEED, _RANDOM_SEED = 2_000_000, 3_000_000


def target_classifiers(
    tied_to: str, mcc: float, count: int, *, images: int = 6000, kept: int = 3000, epochs: int = 6, seed: int = 0
) -> list[Experiment]:
    """Classifiers of smiles, with which an attribute has this MCC among the `kept` training faces of each."""
    first = Experiment(
        attributes=(TARGET,), images=images, kept=kept, epochs=epochs, size=32, detail=1.0, seed=seed,
        correlation=(TARGET, mcc), tied_to=tied_to,
    )  # fmt: skip
    return [replace(first, seed=seed + number) for number in range(count)]


@dataclass(frozen=True)
class _LineUp:
    """Classifiers of smiles that are audited together, by what smiles are tied to in their training faces."""

    classifiers: dict[str, list[Experiment]]  # a name for each kind -> its classifiers; the first is tied to nothing
    tied_to: dict[str, str]  # the name of each other kind -> the attribute

    @property
    def everyone(self) -> tuple[Experiment, ...]:
        """All classifiers, one kind after the other."""
        return tuple(classifier for group in self.classifiers.values() for classifier in group)

    @property
    def rows(self) -> dict[str, slice]:
        """Where each kind stands among all classifiers."""
        ends = list(accumulate(len(group) for group in self.classifiers.values()))
        return {kind: slice(a, b) for kind, a, b in zip(self.classifiers, [0, *ends], ends, strict=False)}


def line_up(
    ties: Sequence[str],
    correlations: Sequence[float],
    models: Sequence[int],
    clean_models: int,
    *,
    attributes: Sequence[str],
    **options: int,
) -> _LineUp:
    """Classifiers whose smiles are tied to nothing, and a kind for each tie; `options` are `target_classifiers`'."""
    if not len(ties) == len(correlations) == len(models):
        raise BiaslibError("ties, correlations and models describe the same classifiers: give as many of each.")
    if min(clean_models, *models) < 2:
        raise BiaslibError("intervals are over models: give clean_models >= 2 and models >= 2 for each tie.")
    if strange := set(ties) - set(attributes):
        raise BiaslibError(f"{', '.join(sorted(strange))}, to which smiles are tied, must be among the attributes.")
    classifiers, tied_to = {CLEAN: target_classifiers(ties[0], 0.0, clean_models, **options)}, {}
    for attribute, mcc, count in zip(ties, correlations, models, strict=True):
        kind = f"tied to {attribute.replace('_', ' ').lower().removeprefix('wearing ')} ({mcc:g})"
        classifiers[kind] = target_classifiers(attribute, mcc, count, **options)
        tied_to[kind] = attribute
    return _LineUp(classifiers, tied_to)


@dataclass(frozen=True, kw_only=True)
class DirectionAudit:
    """An audit with one generator."""

    generator: str | GeneratorSetup  # the name of one that comes with the book, or one to be trained
    target_classifiers: tuple[Experiment, ...]  # under audit, of one output each
    attributes: tuple[str, ...]  # along whose directions faces are moved
    orthogonal: bool = True  # see `latent.audit_directions`; random directions are treated alike
    fitted: int = 4000  # codes that directions are fitted on
    codes: int = 200  # at which the classifiers are asked
    random: int = 12  # directions without a meaning, the control, each walked at two lengths
    seed: int = 0  # of all codes and directions

    def __post_init__(self) -> None:
        if wrong := [model for model in self.target_classifiers if len(model.outputs) != 1]:
            raise BiaslibError(f"A classifier under audit has one output, not {len(wrong[0].outputs)}.")
        setup = face_generators.SETUPS.get(self.generator) if isinstance(self.generator, str) else self.generator
        sizes = {model.size for model in self.target_classifiers}
        if setup and sizes - {setup.gan.size}:  # an unknown name is refused where it is looked for
            others = ", ".join(map(str, sorted(sizes - {setup.gan.size})))
            raise refused("classifiers of another size", size=setup.gan.size, others=others)

    @property
    def request(self) -> CodeRequest:
        """For the codes that directions are fitted on."""
        return CodeRequest(self.generator, self.fitted, self.seed)

    def fingerprint(self) -> str:
        """Of the generator's weights, which its name does not say."""
        return self.request.fingerprint()


def both_ways(**options: Any) -> dict[str, list[DirectionAudit]]:
    """`PAPERS` and `PROJECTED` -> an audit with each of the book's generators; `options` are `DirectionAudit`'s."""
    names = face_generators.named_generators().values()
    return {
        way: [DirectionAudit(generator=name, orthogonal=way == PROJECTED, **options) for name in names]
        for way in (PAPERS, PROJECTED)
    }


@dataclass(frozen=True)
class _DirectionAuditResult:
    """What came of an audit of M classifiers along A attributes' and R random directions, by S steps from N codes."""

    audit: DirectionAudit
    before: np.ndarray  # (M, N) probabilities of a smile on the faces as drawn
    along: np.ndarray  # (M, A, S, N) the same along each attribute's direction
    random: np.ndarray  # (M, R, S, N) along each random direction
    matched: np.ndarray  # (M, R, S, N) the same, each so long that it changes pictures as much as the attributes' do
    vectors: np.ndarray  # (A, latent), of length 1
    controls: np.ndarray  # (R, latent), the random directions, of length 1
    # mean absolute change of a pixel from `-STEP` to `STEP`, in [0, 255], of all three sets of directions
    pixels: dict[str, np.ndarray]

    def change(self, rows: slice, *, control: str = "", step: float = STEP) -> np.ndarray:
        """(models, directions, N) more smile at step than at -step, along attributes' or "random" or "matched"."""
        check_known("step", step, STEPS)
        scores = {"": self.along, "random": self.random, "matched": self.matched}[control][rows]
        return np.asarray(scores[:, :, STEPS.index(step)] - scores[:, :, STEPS.index(-step)])


def direction_audits(audits: Sequence[DirectionAudit]) -> list[_DirectionAuditResult]:
    """The audits' results, in their order; generators and models are trained where the store lacks them."""
    train.many([model.recipe for audit in audits for model in audit.target_classifiers])
    results = []
    for audit, arrays in zip(audits, audited.many(audits), strict=True):
        pixels = {name: arrays.pop(f"pixels {name}") for name in ("along", "random", "matched")}
        results.append(_DirectionAuditResult(audit, pixels=pixels, **arrays))
    return results


class Verdicts(NamedTuple):
    """Of M classifiers, each by itself, about A attributes."""

    change: np.ndarray  #: (M, A) of the score
    half: np.ndarray  #: (M, A) half the width of the intervals that hold all A changes of a classifier with 95 %
    accused: np.ndarray  #: (M, A) bool: 0 is outside the interval, and the change is at least the margin


def verdicts(change: np.ndarray, error: np.ndarray, freedom: int, *, margin: float) -> Verdicts:
    """One rule for every kind of evidence: Student's t with Bonferroni's correction over the attributes.

    `change` (M, A) with its standard `error` where an attribute does nothing, (M, A) or (M, 1), estimated with so many
    degrees of `freedom`; `margin` is the least change that counts. NaN is never accused.
    """
    half = np.broadcast_to(scipy.stats.t.isf(0.025 / change.shape[1], freedom) * error, change.shape)
    return Verdicts(change, half, (np.abs(change) > half) & (np.abs(change) >= margin))


def generated_verdicts(
    results: Sequence[_DirectionAuditResult], rows: slice, *, control: str = "matched", margin: float
) -> Verdicts:
    """By the mean change of one or several generators' faces; the error is what random directions change.

    A random direction and its opposite are equally likely, so that their changes have mean 0; the root mean square of
    each classifier's own ones is its error, with as many degrees of freedom as there are random directions.
    """
    change = np.mean([result.change(rows).mean(axis=2) for result in results], axis=0)
    random = np.concatenate([result.change(rows, control=control).mean(axis=2) for result in results], axis=1)
    if not random.shape[1]:
        raise BiaslibError("An audit without random directions has no control: give random >= 1.")
    error = np.sqrt(np.square(random).mean(axis=1, keepdims=True) / len(results))
    return verdicts(change, error, random.shape[1], margin=margin)


@stored(
    "face-sensitivity",
    passes=lambda audit: (
        audit.codes * (len(audit.attributes) + 2 * audit.random) * len(STEPS),
        len(audit.target_classifiers),
    ),
)
def audited(audit: DirectionAudit) -> dict[str, np.ndarray]:
    """What `direction_audits` asks of the store: the arrays of its results."""
    generator = face_generators.load(audit.generator).generator
    predict = smiles(audit)
    directions = latent.audit_directions(audit.request, audit.attributes, orthogonal=audit.orthogonal)
    drawn = random_directions(audit.random, generator.latent, seed=_RANDOM_SEED + audit.seed)
    controls = project_out(drawn, directions.named)
    start = latent_codes(audit.codes, generator.latent, seed=_CODES_SEED + audit.seed)

    def walked(several: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(models, directions, steps, codes) scores; (directions,) changes of a pixel."""
        along, pixels = [], []
        for direction in several:
            images = traversal(generator, start, direction, STEPS)
            along.append(np.stack([predict(faces) for faces in images], axis=1))
            pixels.append(pixels_apart(images[STEPS.index(STEP)], images[STEPS.index(-STEP)]))
        return np.stack(along, axis=1), np.array(pixels)

    scores, pixels = walked(directions.vectors)
    random, random_pixels = walked(controls)
    matched, matched_pixels = walked(controls * (pixels.mean() / random_pixels)[:, None])
    return {
        "before": predict(draw(generator, start)), "along": scores, "random": random, "matched": matched,
        "vectors": directions.vectors, "controls": controls,
        "pixels along": pixels, "pixels random": random_pixels, "pixels matched": matched_pixels,
    }  # fmt: skip


def smiles(audit: DirectionAudit) -> Callable[[np.ndarray], np.ndarray]:
    """Images (N, size, size, 3) -> (models, N) probabilities of a smile by the classifiers under audit."""
    targets = [load(model.recipe) for model in audit.target_classifiers]
    return lambda images: np.stack([expit(training.predict(model, images)[:, 0]) for model in targets], dtype="f4")


def pixels_apart(first: np.ndarray, second: np.ndarray) -> float:
    """Mean absolute difference of the pixels of uint8 images, in [0, 255]."""
    return float(np.abs(first.astype(np.int16) - second).mean())


@stored(
    "face-by-face",
    passes=lambda audit, evaluation: (4 * evaluation.images * len(audit.attributes), len(audit.target_classifiers)),
)
def face_by_face(audit: DirectionAudit, evaluation: EvaluationFaces) -> dict[str, np.ndarray]:
    """Drawn faces x, of the audit's M classifiers, A directions and generator G with its encoder E.

    `exact` (M, A, N): the score of the face with the attribute less that of the same face without; `generated`
    (M, A, N): that of G(E(x) + `STEP` d) less that of G(E(x) - `STEP` d); `pixels` (A, 4), mean absolute differences in
    [0, 255]: of x and G(E(x)); of the exact pair; of the generated pair; of the face with the attribute and
    G(E(x) + `STEP` d).
    """
    networks, table, predict = face_generators.load(audit.generator), evaluation.factors(), smiles(audit)

    def rendered(factors: pd.DataFrame) -> np.ndarray:
        return Faces().render(factors, size=networks.size, regions=()).images

    faces = rendered(table)
    codes = networks.encode(faces)
    again = networks.draw(codes)
    exact, generated, pixels = [], [], []
    vectors = latent.audit_directions(audit.request, audit.attributes, orthogonal=audit.orthogonal).vectors
    for attribute, vector in zip(audit.attributes, vectors, strict=True):
        without, having = (rendered(latent.with_attribute(table, attribute, value)) for value in (False, True))
        low, high = traversal(networks.generator, codes, vector, (-STEP, STEP))
        exact.append(predict(having) - predict(without))
        generated.append(predict(high) - predict(low))
        pairs = ((again, faces), (having, without), (high, low), (high, having))
        pixels.append([pixels_apart(*pair) for pair in pairs])
    return {"exact": np.stack(exact, axis=1), "generated": np.stack(generated, axis=1), "pixels": np.array(pixels)}
