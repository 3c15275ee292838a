"""Models on the dial: a world, a strength of its bias, a seed; trained by the modules of the worlds' own chapters."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd
from torch import nn

from biaslib import worlds
from biaslib.chapters import attribute_models, ensembles, planted_models, scene_models
from biaslib.errors import BiaslibError
from biaslib.training.config import TrainingConfig
from biaslib.worlds.base import World

Recipe = ensembles.Recipe | planted_models.Setting | attribute_models.Experiment | scene_models.Experiment


@dataclass(frozen=True)
class Place:
    """What a world is on the dial.

    Attributes:
        target: words for what the model is asked.
        cue: words for what it should not lean on.
        kind: of cue.
        regions: where that is which the target is about.
        cue_regions: where the cue is.
        architecture: of its models where a trial names none; the only one of scenes.
    """

    target: str
    cue: str
    kind: str
    regions: tuple[str, ...]
    cue_regions: tuple[str, ...]
    architecture: str = "small"


PLACES: Final = {
    "birds": Place("waterbird or landbird", "water behind the bird", "a background", ("bird",), ("background",)),
    "pets": Place("cat or dog", "a ball beside it", "a small object", ("animal",), ("ball",), "small_mobilenet"),
    "faces": Place("wavy hair", "the clan's face", "a group of people", ("hair",), ("eyebrows", "eyes", "mouth")),
    "scenes": Place("the robot's maker", "a mug", "one of many objects", ("robot",), ("mug",)),
}


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One model and the images it is measured on.

    Attributes:
        world: one of `PLACES`.
        strength: of its bias, in [0, 1]: the correlation of target and cue among the training images.
        seed: of the training images, the initial weights and the order; it tells models of one strength apart.
        architecture: a name that `models.build` knows; None: the world's usual one.
        images: for training; None: as many as the world's own recipe takes.
        epochs: passes over them; None: likewise.
        size: of the images, in pixels.
        test_images: that every model of a world is measured on; the same for all.
        explained: the first so many of them, for methods that take many passes an image; a divisor of test_images.
    """

    world: str
    strength: float
    seed: int = 0
    architecture: str | None = None
    images: int | None = None
    epochs: int | None = None
    size: int = 64
    test_images: int = 1000
    explained: int = 100

    def __post_init__(self) -> None:
        if self.world not in PLACES:
            raise BiaslibError(f"The dial has the worlds {', '.join(PLACES)}, not {self.world!r}.")
        if not 0 <= self.strength <= 1:
            raise BiaslibError(f"strength must lie in [0, 1], not {self.strength}.")
        if self.world == "scenes" and self.architecture not in (None, scene_models.ARCHITECTURE):
            raise BiaslibError(f"Scenes have models of one architecture, {scene_models.ARCHITECTURE}: leave it out.")
        if self.explained < 1 or self.test_images % self.explained:
            raise BiaslibError(
                f"explained must divide the {self.test_images} test images, so that each is drawn as often as any "
                f"other; {self.explained} does not."
            )

    @property
    def place(self) -> Place:
        """What the world is on the dial."""
        return PLACES[self.world]

    @property
    def drawn_by(self) -> World:
        """The world."""
        return worlds.get(self.world)

    @property
    def recipe(self) -> Recipe:
        """The model as the world's own chapters describe it."""
        network = self.architecture or self.place.architecture
        shared = {"strength": self.strength, "size": self.size, "seed": self.seed}
        shared |= {name: value for name in ("images", "epochs") if (value := getattr(self, name)) is not None}
        match self.world:
            case "birds":
                config = TrainingConfig(architecture=network, epochs=self.epochs or 6, seed=self.seed)
                return ensembles.Recipe(
                    world="birds", strength=self.strength, images=self.images or 3000, config=config, size=self.size,
                    data_seed=self.seed,
                )  # fmt: skip
            case "pets":
                return planted_models.Setting(use_case="pets", architecture=network, **shared)  # type: ignore[arg-type]
            case "faces":
                return attribute_models.Experiment(architecture=network, **shared)  # type: ignore[arg-type]
        return scene_models.Experiment(**shared)  # type: ignore[arg-type]

    def training_table(self) -> pd.DataFrame:
        """The rows that its training images are drawn from."""
        return self.drawn_by.factors(self.recipe.images, strength=self.strength, seed=self.seed)


def grid(
    names: Sequence[str],
    *,
    strengths: Sequence[float],
    models: int,
    twins: int,
    images: Sequence[int | None] | None = None,
    epochs: Sequence[int | None] | None = None,
    seed: int = 0,
    **shared: Any,
) -> list[Trial]:
    """Trials of several worlds: `twins` at strength 0, `models` at every other strength, world by world.

    Args:
        names: of worlds, of `PLACES`.
        strengths: of the bias; 0 is added where it is missing.
        models: at every strength above 0.
        twins: unbiased models.
        images: for training, a number for each world; None: see `Trial`.
        epochs: likewise.
        seed: of the first model of each strength.
        **shared: what else a `Trial` takes.

    Raises:
        BiaslibError: as `Trial` does, and where there are not as many numbers as worlds.
    """
    images, epochs = images or [None] * len(names), epochs or [None] * len(names)
    if not len(names) == len(images) == len(epochs):
        raise BiaslibError(
            f"give training images and epochs for each world: {len(images)} and {len(epochs)} numbers are not "
            f"{len(names)} ({', '.join(names)})."
        )
    return [
        Trial(world=name, strength=float(strength), seed=seed + number, images=n, epochs=passes, **shared)
        for name, n, passes in zip(names, images, epochs, strict=True)
        for strength in sorted({0.0, *strengths})
        for number in range(models if strength else twins)
    ]


def train(trials: Sequence[Trial], *, scheduler: str | None = None) -> None:
    """Trains the models that the store lacks, side by side; a killed call goes on where it was.

    Args:
        trials: of any worlds.
        scheduler: see `parallel.workers`.
    """
    recipes = [trial.recipe for trial in trials]
    ensembles.trained([one for one in recipes if isinstance(one, ensembles.Recipe)], scheduler=scheduler)
    planted_models.trained([one for one in recipes if isinstance(one, planted_models.Setting)], scheduler=scheduler)
    attribute_models.trained(
        [one for one in recipes if isinstance(one, attribute_models.Experiment)], scheduler=scheduler
    )
    scene_models.outcomes([one for one in recipes if isinstance(one, scene_models.Experiment)], scheduler=scheduler)


def network(trial: Trial) -> nn.Module:
    """The model of one trial, for use inside a worker; trained here where the store lacks it."""
    match trial.recipe:
        case ensembles.Recipe() as recipe:
            return ensembles.known(recipe)
        case planted_models.Setting() as recipe:
            return planted_models.known(recipe)
        case attribute_models.Experiment() as recipe:
            return attribute_models.known(attribute_models.keyed([recipe])[0])
        case scene_models.Experiment() as recipe:
            return scene_models.known(recipe)
