"""Classifiers of smiles under audit: what they say while a generator changes faces along directions; through the store.

After Denton et al. (2019), sections 4.3, 4.5 and 5, with random directions as the control that the paper has not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from scipy.special import expit
from torch import nn

from biaslib import training
from biaslib.chapters import attribute_models, face_generators
from biaslib.chapters.attribute_models import Experiment, Key, keyed, known
from biaslib.chapters.face_codes import WAYS, Request, generator_of, labelled, readable, request
from biaslib.chapters.face_directions import BALANCED_ON, Looks, answers, directions, looks
from biaslib.errors import BiaslibError
from biaslib.gan.counterfactuals import draw, latent_codes, traversal
from biaslib.gan.directions import Direction, as_matrix, orthogonalised, project_out, random_directions
from biaslib.store import parallel

TARGET: Final = "Smiling"
STEPS: Final = (-3.0, -2.0, -1.0, 1.0, 2.0, 3.0)
# verdicts are given from -3 to +3, the step at which `gan.counterfactuals.leakage` is measured
STEP: Final = 3.0
# codes and directions of the audit are not those that attribute directions were fitted on
_CODES_SEED, _RANDOM_SEED = 2_000_000, 3_000_000


def audited(
    tied_to: str, mcc: float, count: int, *, images: int = 6000, kept: int = 3000, epochs: int = 6, seed: int = 0
) -> list[Experiment]:
    """Classifiers of smiles whose training faces tie smiles to another attribute.

    Args:
        tied_to: the attribute.
        mcc: its correlation with `Smiling` among the training faces; 0 for a clean twin.
        count: how many classifiers, each with its own faces.
        images: drawn for each, before faces are left out.
        kept: how many are left, the same for every correlation.
        epochs: passes over them.
        seed: of the first classifier.
    """
    return [
        Experiment(
            attributes=(TARGET,), images=images, kept=kept, epochs=epochs, size=32, detail=1.0, seed=seed + number,
            correlation=(TARGET, mcc), tied_to=tied_to,
        )
        for number in range(count)
    ]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Walk:
    """An audit with one generator.

    Attributes:
        generator: the name of one that comes with the book, or one to be trained.
        models: the classifiers under audit, of one output each.
        judges: models of all attributes, which say what else a direction changes.
        attributes: whose directions are walked.
        way: what directions are fitted on, see `face_codes.request`.
        orthogonal: whether each direction is freed of what it shares with the others, with those of `BALANCED_ON` and
            with those of the looks that can be read; random directions are then freed of all of these.
        fitted: codes that directions are fitted on.
        codes: at which the classifiers are asked.
        random: directions without a meaning, the control.
        steps: how far along each direction; with `STEP` and its negative.
        seed: of all codes and directions.
    """

    generator: str | face_generators.Experiment
    models: tuple[Experiment, ...]
    judges: tuple[Experiment, ...]
    attributes: tuple[str, ...]
    way: str = "encoded"
    orthogonal: bool = True
    fitted: int = 4000
    codes: int = 200
    random: int = 12
    steps: tuple[float, ...] = STEPS
    seed: int = 0

    def __post_init__(self) -> None:
        if self.way not in WAYS:
            raise BiaslibError(f"way must be {' or '.join(WAYS)}, not {self.way!r}.")
        if not {STEP, -STEP} <= set(self.steps):
            raise BiaslibError(f"steps must hold {-STEP:g} and {STEP:g}, between which verdicts are given.")
        if wrong := [one for one in self.models if len(one.outputs) != 1]:
            raise BiaslibError(f"A classifier under audit has one output, not {len(wrong[0].outputs)}.")
        recipe = face_generators.RECIPES.get(self.generator) if isinstance(self.generator, str) else self.generator
        sizes = {one.size for one in (*self.models, *self.judges)}
        if recipe and sizes - {recipe.gan.size}:  # an unknown name is refused where it is looked for
            raise BiaslibError(
                f"The generator draws faces of {recipe.gan.size} px, but classifiers or judges read "
                f"{', '.join(str(size) for size in sorted(sizes - {recipe.gan.size}))} px: train them at its size."
            )


@dataclass(frozen=True)
class Walked:
    """What came of a walk with M classifiers, A attributes, R random directions, S steps and N codes.

    Attributes:
        walk: what was asked for.
        before: (M, N) probabilities of a smile on the faces as drawn.
        along: (M, A, S, N) the same along each attribute's direction.
        random: (M, R, S, N) along each random direction.
        judged: attribute or look -> (A, N) its change from `-STEP` to `STEP` along each attribute's direction:
            differences of probabilities, of looks in standard deviations.
        accuracy: of the linear classifier behind each direction, on codes that it was not fitted on; a row an
            attribute, with `low`, `high` and `n`.
        vectors: (A, latent), of length 1.
        controls: (R, latent), the random directions, of length 1.
    """

    walk: Walk
    before: np.ndarray
    along: np.ndarray
    random: np.ndarray
    judged: dict[str, np.ndarray]
    accuracy: pd.DataFrame
    vectors: np.ndarray
    controls: np.ndarray

    def change(self, rows: slice, *, random: bool = False, step: float = STEP) -> np.ndarray:
        """(models, directions, N): how much more of a smile the classifiers in these rows see at step than at -step.

        Raises:
            BiaslibError: for a step that was not walked.
        """
        if not {step, -step} <= set(self.walk.steps):
            raise BiaslibError(
                f"{step:g} was not walked: the steps are {', '.join(f'{s:g}' for s in self.walk.steps)}."
            )
        scores = (self.random if random else self.along)[rows]
        return scores[:, :, self.walk.steps.index(step)] - scores[:, :, self.walk.steps.index(-step)]


def walked(walks: Sequence[Walk], *, scheduler: str | None = None) -> list[Walked]:
    """The walks' results, in their order; generators and models are trained where the store lacks them.

    Raises:
        BiaslibError: for an unknown generator, or faces of too few kinds to fit a direction.
    """
    everyone = dict.fromkeys(one for walk in walks for one in (*walk.judges, *walk.models))
    attribute_models.trained(list(everyone), scheduler=scheduler)
    keys = [
        (
            walk, tuple(keyed(walk.models)), tuple(keyed(walk.judges)),
            request(walk.generator, walk.judges, way=walk.way, count=walk.fitted, seed=walk.seed),
        )
        for walk in walks
    ]  # fmt: skip
    found = parallel.stored("face-sensitivity", keys, run, scheduler=scheduler)
    return [_walked(walk, arrays) for walk, arrays in zip(walks, found, strict=True)]


def run(key: tuple[Walk, tuple[Key, ...], tuple[Key, ...], Request]) -> dict[str, np.ndarray]:
    """The arrays of one walk; on one thread."""
    found: dict[str, np.ndarray] = parallel.single_threaded(_run, *key)
    return found


@dataclass(frozen=True)
class Bearings:
    """The directions of an audit with one generator.

    Attributes:
        fitted: attribute -> its direction as fitted.
        vectors: (A, latent), of length 1: what is walked along, in the same order.
        named: (K, latent): what random directions are freed of, so that a control is treated as what it is compared
            with; K is 0 where directions are walked as fitted.
    """

    fitted: dict[str, Direction]
    vectors: np.ndarray
    named: np.ndarray


def bearings(asked: Request, attributes: Sequence[str], *, orthogonal: bool = True) -> Bearings:
    """Directions of attributes, freed of one another, of `BALANCED_ON` and of every look that can be read.

    Args:
        asked: for the codes that they are fitted on.
        attributes: whose directions.
        orthogonal: False leaves the directions as fitted.

    Raises:
        BiaslibError: for faces of too few kinds to fit a direction.
    """
    codes, labels = labelled(asked)
    # a look that is the same on all faces has no direction
    varied = [name for name in (*BALANCED_ON, *readable(labels)) if labels[name].any() and not labels[name].all()]
    others = [name for name in varied if name not in attributes] if orthogonal else []
    found = directions(codes, labels, [*attributes, *others], seed=asked.seed)
    own, named = {name: found[name] for name in attributes}, as_matrix(found)
    if not orthogonal:
        return Bearings(own, named, named[:0])
    return Bearings(own, orthogonalised(named)[: len(own)], named)


def _run(walk: Walk, models: tuple[Key, ...], judges: tuple[Key, ...], asked: Request) -> dict[str, np.ndarray]:
    trained = generator_of(walk.generator)
    generator = trained.generator
    read = looks(size=4 * 2 ** (len(generator.widths) - 1))
    networks, judge_networks = [known(key) for key in models], [known(key) for key in judges]
    found = bearings(asked, walk.attributes, orthogonal=walk.orthogonal)
    vectors = found.vectors
    controls = project_out(random_directions(walk.random, generator.latent, seed=_RANDOM_SEED + walk.seed), found.named)

    def predict(images: np.ndarray) -> np.ndarray:
        return np.stack([expit(training.predict(model, images)[:, 0]) for model in networks], axis=1)

    start = latent_codes(walk.codes, generator.latent, seed=_CODES_SEED + walk.seed)
    before = predict(draw(generator, start))
    along, judged = [], []
    for number, direction in enumerate(np.concatenate([vectors, controls])):
        images = traversal(generator, start, direction, walk.steps)
        along.append([predict(faces) for faces in images])
        if number < len(vectors):
            low, high = (_said(judge_networks, read, images[walk.steps.index(step)]) for step in (-STEP, STEP))
            judged.append(high - low)
    scores = np.moveaxis(np.array(along, np.float32), 3, 0)  # (models, directions, steps, codes)
    accuracy = [one.accuracy for one in found.fitted.values()]
    return {
        "before": before.T.astype(np.float32), "along": scores[:, : len(vectors)], "random": scores[:, len(vectors) :],
        "accuracy": np.array([[one.estimate, one.low, one.high, one.n] for one in accuracy]),
        "vectors": vectors, "controls": controls,
        **{f"judged {name}": np.stack([change[name] for change in judged]) for name in judged[0].columns},
    }  # fmt: skip


def _said(judges: Sequence[nn.Module], read: Looks, images: np.ndarray) -> pd.DataFrame:
    """Judges' probabilities and the looks, a column each."""
    return pd.concat([answers(judges, images), read(images)], axis=1).astype(np.float32)


def _walked(walk: Walk, arrays: dict[str, np.ndarray]) -> Walked:
    judged = {name.removeprefix("judged "): values for name, values in arrays.items() if name.startswith("judged ")}
    accuracy = pd.DataFrame(arrays["accuracy"], columns=["estimate", "low", "high", "n"], index=list(walk.attributes))
    return Walked(
        walk,
        arrays["before"],
        arrays["along"],
        arrays["random"],
        judged,
        accuracy,
        arrays["vectors"],
        arrays["controls"],
    )
