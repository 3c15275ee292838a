"""What models with a planted bias answer with and without the cue, and where they look; through the store."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import softmax

from biaslib import attribution, models, training
from biaslib.attribution import METHODS, Method
from biaslib.chapters.planted_models import TEST_SEED, USE_CASES, Setting, known, trained, world_of
from biaslib.errors import BiaslibError
from biaslib.samples import Samples
from biaslib.store import parallel

# what the paper's toolbox computed under the name of the last one
TOOLBOX: Final = "ε-LRP, toolbox"
ALL_METHODS: Final = METHODS | {
    TOOLBOX: functools.partial(attribution.epsilon_lrp, eps=10.0, rule="toolbox", scaled=True)
}


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The images that models are explained on, and what of them is explained.

    Attributes:
        images: how many.
        strength: of their bias; the paper explains all models on biased images.
        explained: the "predicted" class or the "true" one; the same where only correct predictions are used.
        seed: of the images.
    """

    images: int = 120
    strength: float | None = 1.0
    explained: str = "predicted"
    seed: int = TEST_SEED

    def __post_init__(self) -> None:
        if self.explained not in ("predicted", "true"):
            raise BiaslibError(f"explained must be predicted or true, not {self.explained!r}.")

    def samples(self, setting: Setting) -> Samples:
        """The images, as large as the model's."""
        return setting.samples("test", self.images, strength=self.strength, seed=self.seed)


@dataclass(frozen=True)
class Answers:
    """A model's logits for the same test images with the cue and without it.

    Attributes:
        setting: of the model.
        truth: (N,) class of each image.
        with_cue: (N, classes) logits.
        without: (N, classes) logits; nothing but the cue differs.
        seed: of the test images.
    """

    setting: Setting
    truth: np.ndarray
    with_cue: np.ndarray
    without: np.ndarray
    seed: int

    def logits(self, strength: float | None) -> np.ndarray:
        """(N, classes), of the test images at a strength of the bias; None: without the cue."""
        if strength is None:
            return self.without
        world = self.setting.world("test")
        cued = world.factors(len(self.truth), strength=strength, seed=self.seed)[world.cue].to_numpy(bool)
        return np.where(cued[:, None], self.with_cue, self.without)

    def correct(self, strength: float | None) -> np.ndarray:
        """(N,) whether the likeliest class is the true one, at a strength of the bias."""
        return self.logits(strength).argmax(axis=1) == self.truth

    @property
    def effect(self) -> np.ndarray:
        """(N,) how far the cue raises the probability of the class it was planted with, in [-1, 1]."""
        favoured = USE_CASES[self.setting.use_case].favoured
        return softmax(self.with_cue, axis=1)[:, favoured] - softmax(self.without, axis=1)[:, favoured]


def answers(
    settings: Sequence[Setting], *, images: int = 600, seed: int = TEST_SEED, scheduler: str | None = None
) -> list[Answers]:
    """What each model says of the same test images with the cue and without it.

    A test at any strength needs no more: the images are the same, and the cue comes or goes.

    Args:
        settings: of the models, which are trained where the store lacks them.
        images: how many.
        seed: of the images.
        scheduler: see `parallel.workers`.
    """
    trained(settings, scheduler=scheduler)
    keys = [(setting, images, seed) for setting in settings]
    found = parallel.stored("planted-answers", keys, run_answers, scheduler=scheduler)
    return [
        Answers(setting, arrays["truth"], arrays["with_cue"], arrays["without"], seed)
        for setting, arrays in zip(settings, found, strict=True)
    ]


def run_answers(key: tuple[Setting, int, int]) -> dict[str, np.ndarray]:
    """`truth` (N,) and the logits `with_cue` and `without`; on one thread."""
    found: dict[str, np.ndarray] = parallel.single_threaded(_answers, *key)
    return found


def maps(
    settings: Sequence[Setting], evaluation: Evaluation, *, scheduler: str | None = None
) -> list[dict[str, np.ndarray]]:
    """Every method's map of every image, as the method gives it: (N, h, w) float32 under the method's name.

    Beside them `logits` (N, classes), `truth` (N,) and `explained` (N,), the class that the maps explain.
    """
    trained(settings, scheduler=scheduler)
    keys = [(setting, evaluation) for setting in settings]
    return parallel.stored("planted-maps", keys, run_maps, scheduler=scheduler)


def run_maps(key: tuple[Setting, Evaluation]) -> dict[str, np.ndarray]:
    """The maps of one model; on one thread."""
    found: dict[str, np.ndarray] = parallel.single_threaded(explained, *key, ALL_METHODS)
    return found


def explained(setting: Setting, evaluation: Evaluation, methods: Mapping[str, Method]) -> dict[str, np.ndarray]:
    """The maps of one model by these methods, and what `maps` has beside them; inside a worker."""
    samples, model = evaluation.samples(setting), known(setting)
    logits = training.predict(model, samples.images)
    truth = _truth(setting, samples)
    targets = logits.argmax(axis=1) if evaluation.explained == "predicted" else truth
    pixels = models.to_tensor(samples.images, model=model)
    found = {name: method(model, pixels, targets[:, None])[:, 0].numpy() for name, method in methods.items()}
    return found | {"logits": logits, "truth": truth, "explained": targets}


def _answers(setting: Setting, images: int, seed: int) -> dict[str, np.ndarray]:
    model = known(setting)
    with_cue, without = (_cued(setting.use_case, setting.source, images, cue, setting.size, seed) for cue in (1, 0))
    return {
        "truth": _truth(setting, without),
        "with_cue": training.predict(model, with_cue.images),
        "without": training.predict(model, without.images),
    }


@functools.lru_cache(maxsize=2)
def _cued(use_case: str, source: str, images: int, cue: int, size: int, seed: int) -> Samples:
    world = world_of(use_case, source, "test")
    return world.render(world.factors(images, strength=0.0, seed=seed).assign(**{world.cue: cue}), size=size)


def _truth(setting: Setting, samples: Samples) -> np.ndarray:
    return samples.labels[USE_CASES[setting.use_case].world.target].to_numpy(int)
