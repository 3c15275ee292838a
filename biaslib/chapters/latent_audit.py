"""Classifiers of smiles under audit: what they say while a generator changes faces along directions; through the store.

After Denton et al. (2019), sections 4.3, 4.5 and 5, with random directions as the control that the paper has not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

import numpy as np
import pandas as pd
import scipy.stats
from scipy.special import expit

from biaslib import training
from biaslib.chapters import face_generators, latent
from biaslib.chapters.attribute_models import EvaluationFaces, Experiment
from biaslib.chapters.face_generators import GeneratorSetup
from biaslib.chapters.latent import CodeRequest
from biaslib.errors import BiaslibError
from biaslib.gan.counterfactuals import draw, latent_codes, traversal
from biaslib.gan.directions import project_out, random_directions
from biaslib.recipes import load, train
from biaslib.statistics import holm
from biaslib.store import Calls, stored
from biaslib.worlds.faces import Faces

TARGET: Final = "Smiling"
CLEAN: Final = "tied to nothing"
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
    attribute_classifiers: tuple[Experiment, ...]  # models of all attributes, which say what else a direction changes
    attributes: tuple[str, ...]  # along whose directions faces are moved
    way: str = "encoded"  # what directions are fitted on, see `latent.CodeRequest`
    orthogonal: bool = True  # see `latent.audit_directions`; random directions are treated alike
    fitted: int = 4000  # codes that directions are fitted on
    codes: int = 200  # at which the classifiers are asked
    random: int = 12  # directions without a meaning, the control
    steps: tuple[float, ...] = STEPS  # how far along each direction; with `STEP` and its negative
    seed: int = 0  # of all codes and directions

    def __post_init__(self) -> None:
        _ = self.request  # says what is wrong with the way and the codes
        if not {STEP, -STEP} <= set(self.steps):
            raise BiaslibError(f"steps must hold {-STEP:g} and {STEP:g}, between which verdicts are given.")
        if wrong := [model for model in self.target_classifiers if len(model.outputs) != 1]:
            raise BiaslibError(f"A classifier under audit has one output, not {len(wrong[0].outputs)}.")
        setup = face_generators.SETUPS.get(self.generator) if isinstance(self.generator, str) else self.generator
        sizes = {model.size for model in (*self.target_classifiers, *self.attribute_classifiers)}
        if setup and sizes - {setup.gan.size}:  # an unknown name is refused where it is looked for
            raise BiaslibError(
                f"The generator draws faces of {setup.gan.size} px, but classifiers or judges read "
                f"{', '.join(str(size) for size in sorted(sizes - {setup.gan.size}))} px: train them at its size."
            )

    @property
    def request(self) -> CodeRequest:
        """For the codes that directions are fitted on."""
        return CodeRequest(self.generator, self.attribute_classifiers, self.way, self.fitted, self.seed)

    def fingerprint(self) -> str:
        """Of the generator's weights, which its name does not say."""
        return self.request.fingerprint()


@dataclass(frozen=True)
class _DirectionAuditResult:
    """What came of an audit of M classifiers along A attributes' and R random directions, by S steps from N codes."""

    audit: DirectionAudit
    before: np.ndarray  # (M, N) probabilities of a smile on the faces as drawn
    along: np.ndarray  # (M, A, S, N) the same along each attribute's direction
    random: np.ndarray  # (M, R, S, N) along each random direction
    # attribute or unlabelled factor -> (A, N) its change from `-STEP` to `STEP` along each attribute's direction:
    # differences of probabilities, of factors in standard deviations
    judged: dict[str, np.ndarray]
    # of the linear classifier behind each direction, on other codes: a row an attribute, with `low`, `high` and `n`
    accuracy: pd.DataFrame
    vectors: np.ndarray  # (A, latent), of length 1
    controls: np.ndarray  # (R, latent), the random directions, of length 1

    def change(self, rows: slice, *, random: bool = False, step: float = STEP) -> np.ndarray:
        """(models, directions, N): how much more of a smile the classifiers in these rows see at step than at -step."""
        steps = self.audit.steps
        if not {step, -step} <= set(steps):
            raise BiaslibError(f"{step:g} was not walked: the steps are {', '.join(f'{s:g}' for s in steps)}.")
        scores = (self.random if random else self.along)[rows]
        return scores[:, :, steps.index(step)] - scores[:, :, steps.index(-step)]


def planned(audits: Sequence[DirectionAudit]) -> list[Calls]:
    """What `direction_audits` asks of the store."""
    return [_audited.calls(audits)]


def direction_audits(audits: Sequence[DirectionAudit]) -> list[_DirectionAuditResult]:
    """The audits' results, in their order; generators and models are trained where the store lacks them."""
    everyone = [(*audit.attribute_classifiers, *audit.target_classifiers) for audit in audits]
    train.many([model.recipe for models in everyone for model in models])
    return [_result(audit, arrays) for audit, arrays in zip(audits, planned(audits)[0].results(), strict=True)]


def compare_with_random(changes: np.ndarray, random: np.ndarray) -> pd.DataFrame:
    """Whether directions change answers, `changes` (G, A) of G generators, more than `random` ones do, (G, R).

    A random direction and its opposite are equally likely, so that the changes have mean 0 over random directions;
    their root mean square is what chance gives: Student's t with G R degrees of freedom. A row a direction: `change`
    (mean over generators), `chance` (its standard deviation by chance), `t`, `p` two-sided, `p_holm`.
    """
    if len(changes) != len(random) or random.size == 0:
        raise BiaslibError(
            f"changes {changes.shape} and random {random.shape} must have the same generators, and some."
        )
    mean = changes.mean(axis=0)
    chance = np.sqrt(np.square(random).mean() / len(random))
    t = mean / chance if chance > 0 else np.full(len(mean), np.nan)
    p = 2 * scipy.stats.t.sf(np.abs(t), random.size)
    return pd.DataFrame({"change": mean, "chance": chance, "t": t, "p": p, "p_holm": holm(p)})


def changes(results: Sequence[_DirectionAuditResult], rows: slice, attribute: str) -> np.ndarray:
    """(models, codes of all generators): what `change` gives along one attribute's direction."""
    at = results[0].audit.attributes.index(attribute)
    return np.concatenate([result.change(rows)[:, at] for result in results], axis=1)


def accusations(
    results: Sequence[_DirectionAuditResult], rows: slice, *, step: float = STEP, margin: float
) -> pd.DataFrame:
    """`compare_with_random`, a row an attribute, with `accused`: beyond chance, corrected, and at least the margin."""
    own, random = (
        np.stack([result.change(rows, random=chance, step=step).mean(axis=(0, 2)) for result in results])
        for chance in (False, True)
    )
    table = compare_with_random(own, random).set_axis(list(results[0].audit.attributes))
    return table.assign(accused=(table["p_holm"] < 0.05) & (table["change"].abs() >= margin))


def minimum_detectable_change(chance: float, draws: int, directions: int) -> float:
    """What `compare_with_random` notices four times in five of as many directions, with `draws` random ones in all."""
    return chance * float(scipy.stats.t.isf(0.025 / directions, draws) + scipy.stats.t.ppf(0.8, draws))


def change_components(judged: pd.DataFrame, effects: Mapping[str, float], total: pd.Series) -> pd.DataFrame:
    """What the total change along each direction is made of, were answers the sum of what attributes do.

    A row a direction: `exact` (its attribute's own effect), `own` (that effect times how much of the attribute came, of
    `judged`), `target` (leakage into `TARGET`), `leaked` (into all other columns), `rest`, `total`, their sum.
    """
    if missing := [name for name in judged.columns if name not in effects]:
        raise BiaslibError(f"No exact effect is given for {', '.join(missing)}.")
    products = judged * pd.Series({name: effects[name] for name in judged.columns})
    explained = products.to_numpy().sum(axis=1)
    own = [products.loc[name, name] for name in judged.index]
    table = judged[[]].assign(exact=[effects[name] for name in judged.index], own=own, target=products.get(TARGET, 0.0))
    table["leaked"] = explained - table["own"] - table["target"]
    return table.assign(rest=total[judged.index] - explained, total=total[judged.index])


def slopes(experiments: Sequence[Experiment], evaluation: EvaluationFaces, factors: Sequence[str]) -> pd.DataFrame:
    """The exact effect of one standard deviation of factors that are shares: a row a model, a column a factor."""
    train.many([experiment.recipe for experiment in experiments])
    results = _slope.many([(tuple(experiments), evaluation, name) for name in factors])
    return pd.DataFrame(dict(zip(factors, results, strict=True)))


@stored(
    "face-sensitivity",
    passes=lambda audit: (
        audit.codes * (len(audit.attributes) + audit.random) * len(audit.steps),
        len(audit.target_classifiers) + len(audit.attribute_classifiers) / len(audit.steps),
    ),
)
def _audited(audit: DirectionAudit) -> dict[str, np.ndarray]:
    networks = face_generators.load(audit.generator)
    generator, factors_of = networks.generator, latent.NuisanceRegressor(networks.size)
    targets, judges = (
        [load(model.recipe) for model in several] for several in (audit.target_classifiers, audit.attribute_classifiers)
    )
    directions = latent.audit_directions(audit.request, audit.attributes, orthogonal=audit.orthogonal)
    vectors = directions.vectors
    drawn = random_directions(audit.random, generator.latent, seed=_RANDOM_SEED + audit.seed)
    controls = project_out(drawn, directions.named)

    def predict(images: np.ndarray) -> np.ndarray:
        return np.stack([expit(training.predict(model, images)[:, 0]) for model in targets]).astype(np.float32)

    def judge(images: np.ndarray) -> pd.DataFrame:
        probabilities = latent.attribute_probabilities(judges, images)
        return probabilities.join(factors_of(images)).astype(np.float32)

    start = latent_codes(audit.codes, generator.latent, seed=_CODES_SEED + audit.seed)
    along, judged = [], []
    for number, direction in enumerate(np.concatenate([vectors, controls])):
        images = traversal(generator, start, direction, audit.steps)
        along.append(np.stack([predict(faces) for faces in images], axis=1))
        if number < len(vectors):
            low, high = (judge(images[audit.steps.index(step)]) for step in (-STEP, STEP))
            judged.append(high - low)
    scores = np.stack(along, axis=1)  # (models, directions, steps, codes)
    accuracy = [direction.accuracy for direction in directions.fitted.values()]
    return {
        "before": predict(draw(generator, start)),
        "along": scores[:, : len(vectors)], "random": scores[:, len(vectors) :],
        "accuracy": np.array([[value.estimate, value.low, value.high, value.n] for value in accuracy]),
        "vectors": vectors, "controls": controls,
        **{f"judged {name}": np.stack([change[name] for change in judged]) for name in judged[0].columns},
    }  # fmt: skip


def _result(audit: DirectionAudit, arrays: dict[str, np.ndarray]) -> _DirectionAuditResult:
    judged = {name.removeprefix("judged "): values for name, values in arrays.items() if name.startswith("judged ")}
    accuracy = pd.DataFrame(arrays["accuracy"], columns=["estimate", "low", "high", "n"], index=list(audit.attributes))
    same = {name: values for name, values in arrays.items() if name != "accuracy" and not name.startswith("judged ")}
    return _DirectionAuditResult(audit, judged=judged, accuracy=accuracy, **same)


@stored("face-slopes", passes=lambda models, evaluation, name: (2 * evaluation.images, len(models)))
def _slope(experiments: tuple[Experiment, ...], evaluation: EvaluationFaces, name: str) -> np.ndarray:
    networks, table = [load(experiment.recipe) for experiment in experiments], evaluation.factors()
    quartiles, means = table[name].quantile([0.25, 0.75]), []
    for value in quartiles:
        edited = table.assign(**{name: value}).astype(table.dtypes)
        images = Faces().render(edited, size=experiments[0].size, regions=()).images
        means.append(np.array([expit(training.predict(model, images)[:, 0]).mean() for model in networks]))
    return np.asarray((means[1] - means[0]) / (np.diff(quartiles) / table[name].std(ddof=0)))
