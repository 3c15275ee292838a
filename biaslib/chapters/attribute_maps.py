"""Where classifiers of faces look for each attribute, and what attributes do to their answers; through the store."""

import functools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import expit

from biaslib import attribution, datasets, training
from biaslib.chapters.attribute_models import Experiment, Key, celeba, keyed, known, trained
from biaslib.errors import BiaslibError
from biaslib.metrics import attention_iou, causal_effect, mask_score
from biaslib.samples import Samples
from biaslib.store import fingerprint, parallel
from biaslib.worlds.faces import STRENGTH, Faces

TEST_SEED = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The faces that models are asked about.

    Attributes:
        source: "generated", "celeba" (the test split) or "celebamask-pairs" (faces with masks, of any split).
        images: how many; of photographs as many as there are, at most.
        strength: of the generated world.
        confounder: whether eye shadow ties Blond_Hair to the clan in the generated world.
        detail: of the generated world.
        seed: of the generated faces.
    """

    source: str = "generated"
    images: int = 1000
    strength: float = STRENGTH
    confounder: bool = True
    detail: float = 0.0
    seed: int = TEST_SEED

    def __post_init__(self) -> None:
        if self.source not in ("generated", "celeba", "celebamask-pairs"):
            raise BiaslibError(f"source must be generated, celeba or celebamask-pairs, not {self.source!r}.")

    def factors(self) -> pd.DataFrame:
        """The table of the generated faces."""
        if self.source != "generated":
            raise BiaslibError(f"Only generated faces have factors, not those of {self.source}.")
        return Faces().factors(
            self.images, strength=self.strength, seed=self.seed, confounder=self.confounder, detail=self.detail
        )

    def samples(self, *, size: int) -> Samples:
        """The faces with their labels, and with masks of the 14 regions but for CelebA's."""
        if self.source == "generated":
            return _rendered(self, size)
        everyone = celeba("test", size=size) if self.source == "celeba" else _pairs(size)
        return everyone if self.images >= len(everyone) else everyone.take(np.arange(self.images))


@dataclass(frozen=True)
class Attended:
    """What one model says of some faces, and where it looks.

    Attributes:
        experiment: the model.
        attributes: its T outputs.
        labels: of the N faces: one bool column an attribute.
        logits: (N, T).
        maps: (N, T, h, w) Grad-CAM of each |logit|, as in the paper.
    """

    experiment: Experiment
    attributes: tuple[str, ...]
    labels: pd.DataFrame
    logits: np.ndarray
    maps: np.ndarray

    def of(self, attribute: str) -> int:
        """The number of an attribute's output.

        Raises:
            BiaslibError: where the model does not tell this attribute.
        """
        if attribute not in self.attributes:
            raise BiaslibError(f"This model has no {attribute!r}: it tells {', '.join(self.attributes)}.")
        return self.attributes.index(attribute)

    @property
    def predicted(self) -> pd.DataFrame:
        """Whether each logit is positive: N rows, one bool column an attribute."""
        return pd.DataFrame(self.logits > 0, columns=list(self.attributes))

    @property
    def scores(self) -> np.ndarray:
        """(N, T) heatmap scores: Attention-IoU of each attribute's map with the group's; NaN where a map is empty."""
        return attention_iou(self.maps, self.maps[:, [self.of(self.experiment.group)]])

    def mask_scores(self, region: np.ndarray) -> np.ndarray:
        """(N, T) mask scores of a region (N, H, W); NaN where the region or the map is empty."""
        return np.stack([mask_score(self.maps[:, at], region) for at in range(len(self.attributes))], axis=1)

    def average_map(self, attribute: str, rows: np.ndarray | None = None) -> np.ndarray:
        """(h, w) mean of the maps of an attribute, each as shares, over the rows given by (N,) bool; sums to 1."""
        maps = self.maps[:, self.of(attribute)]
        maps = maps if rows is None else maps[rows]
        totals = maps.sum((1, 2), keepdims=True)
        shares = maps[totals[:, 0, 0] > 0] / totals[totals[:, 0, 0] > 0]
        return shares.mean(0) if len(shares) else np.full(maps.shape[1:], np.nan)


def attended(
    experiments: Sequence[Experiment], evaluation: Evaluation, *, scheduler: str | None = None
) -> list[Attended]:
    """What each model says of the same faces and where it looks; models are trained where the store lacks them.

    Raises:
        BiaslibError: as `attribute_models.trained` does.

    Warns:
        DatasetWarning: what is known to be wrong with CelebA, where its faces are used.
    """
    trained(experiments, scheduler=scheduler)
    seen = {size: _pictures(evaluation, size) for size in {experiment.size for experiment in experiments}}
    keys = [(key, evaluation, seen[key[0].size]) for key in keyed(experiments)]
    found = parallel.stored("attribute-maps", keys, run, scheduler=scheduler)
    labels = {size: evaluation.samples(size=size).labels for size in seen}
    return [
        Attended(experiment, experiment.outputs, labels[experiment.size], arrays["logits"], arrays["maps"])
        for experiment, arrays in zip(experiments, found, strict=True)
    ]


def run(key: tuple[Key, Evaluation, str]) -> dict[str, np.ndarray]:
    """`logits` (N, T) and `maps` (N, T, h, w) of one model; on one thread."""
    found: dict[str, np.ndarray] = parallel.single_threaded(_run, key[0], key[1])
    return found


def effects(
    experiments: Sequence[Experiment], evaluation: Evaluation, causes: Sequence[str], *, scheduler: str | None = None
) -> dict[str, np.ndarray]:
    """The true causal effect of each cause on every answer: all faces drawn with it and without, all else the same.

    Args:
        experiments: models of one size and with the same outputs.
        evaluation: generated faces.
        causes: binary columns of the world's table.
        scheduler: see `parallel.workers`.

    Returns:
        For each cause (models, N, T): probability with it less probability without it, in [-1, 1].

    Raises:
        BiaslibError: for models of different sizes or outputs; for a cause that is not a binary column.
    """
    if len({(experiment.size, experiment.outputs) for experiment in experiments}) != 1:
        raise BiaslibError("Effects are measured on models of one size with the same outputs: ask for each apart.")
    trained(experiments, scheduler=scheduler)
    keys = [(tuple(keyed(experiments)), evaluation, cause) for cause in causes]
    found = parallel.stored("attribute-effects", keys, run_effects, scheduler=scheduler)
    return dict(zip(causes, found, strict=True))


def run_effects(key: tuple[tuple[Key, ...], Evaluation, str]) -> np.ndarray:
    """(models, N, T) effects of one cause; on one thread."""
    found: np.ndarray = parallel.single_threaded(_effects, *key)
    return found


def _run(key: Key, evaluation: Evaluation) -> dict[str, np.ndarray]:
    model, images = known(key), evaluation.samples(size=key[0].size).images
    maps = attribution.grad_cam(model, images, np.arange(len(key[0].outputs)), absolute=True)
    return {"logits": training.predict(model, images), "maps": maps.numpy()}


def _effects(keys: tuple[Key, ...], evaluation: Evaluation, cause: str) -> np.ndarray:
    size = keys[0][0].size
    effect = causal_effect(
        functools.partial(_probabilities, keys), Faces(), evaluation.factors(), cue=cause, size=size,
        as_drawn=_as_drawn(keys, evaluation),
    )  # fmt: skip
    return np.moveaxis(np.asarray(effect, np.float32), 2, 1)


@functools.lru_cache(maxsize=2)
def _as_drawn(keys: tuple[Key, ...], evaluation: Evaluation) -> np.ndarray:
    """Kept in a worker's memory for the next cause."""
    return _probabilities(keys, _rendered(evaluation, keys[0][0].size).images)


def _probabilities(keys: tuple[Key, ...], images: np.ndarray) -> np.ndarray:
    """(models, T, N)."""
    return np.stack([expit(training.predict(known(key), images)).T for key in keys])


@functools.lru_cache(maxsize=2)
def _rendered(evaluation: Evaluation, size: int) -> Samples:
    """Kept in memory for the next model."""
    return Faces().render(evaluation.factors(), size=size)


def _pairs(size: int) -> Samples:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", datasets.DatasetWarning)  # said once, by `attended`
        return datasets.load("celebamask-pairs", "test", size=size)


def _pictures(evaluation: Evaluation, size: int) -> str:
    """A fingerprint of the photographs asked about, which others replace; "" for generated faces."""
    if evaluation.source == "generated":
        return ""
    samples = datasets.load(evaluation.source, "test", size=size)
    return fingerprint.of_value((samples.images, samples.labels))
