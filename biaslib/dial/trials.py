"""Models on the dial: a world, a strength of its bias, a seed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from biaslib import recipes, worlds
from biaslib.errors import BiaslibError
from biaslib.recipes import Drawn, Recipe, Setup
from biaslib.training import TrainingConfig
from biaslib.training.objectives import Joint
from biaslib.worlds.base import World
from biaslib.worlds.faces import Faces
from biaslib.worlds.scenes import OBJECTS, Scenes


@dataclass(frozen=True)
class _Place:
    """What a world is on the dial; its training and number of images are those of its own chapters."""

    target: str  # words for what the model is asked
    cue: str  # words for what it should not lean on
    kind: str  # of cue
    regions: tuple[str, ...]  # where that is which the target is about
    cue_regions: tuple[str, ...]
    training: TrainingConfig
    images: int = 3000  # for training

    @property
    def architecture(self) -> str:
        """Of its models where a trial names none; the only one of scenes."""
        return self.training.architecture


_BIRDS = TrainingConfig()
_PETS = TrainingConfig(architecture="small_mobilenet", batch=32, learning_rate=1e-2, momentum=0.0, precision="float32")
_FACES = TrainingConfig(outputs=len(Faces.attributes), loss="binary", epochs=7)
_MAKERS = Joint(attributes=len(OBJECTS), groups=2)
_SCENES = TrainingConfig(outputs=_MAKERS.outputs, epochs=10, augmentation=())

PLACES: Final = {
    "birds": _Place(
        "waterbird or landbird", "water behind the bird", "a background", ("bird",), ("background",), _BIRDS
    ),
    "pets": _Place("cat or dog", "a ball beside it", "a small object", ("animal",), ("ball",), _PETS),
    "faces": _Place(
        "wavy hair", "the clan's face", "a group of people", ("hair",), ("eyebrows", "eyes", "mouth"), _FACES, 6000
    ),
    "scenes": _Place("the robot's maker", "a mug", "one of many objects", ("robot",), ("mug",), _SCENES),
}


@dataclass(frozen=True, kw_only=True)
class Trial(Setup):
    """One model and the images it is measured on."""

    world: str  #: one of `PLACES`
    strength: float  #: of its bias, in [0, 1]: the correlation of target and cue among the training images
    seed: int = 0  #: of the training images, the initial weights and the order; it tells models of one strength apart
    architecture: str | None = None  #: a name that `models.build` knows; None: the world's usual one
    images: int | None = None  #: for training; None: as many as the world's own recipe takes
    epochs: int | None = None  #: passes over them; None: likewise
    size: int = 64  #: of the images, in pixels
    test_images: int = 1000  #: that every model of a world is measured on; the same for all
    explained: int = 100  #: the first of them, for methods of many passes an image; a divisor of `test_images`

    def __post_init__(self) -> None:
        if self.world not in PLACES:
            raise BiaslibError(f"The dial has the worlds {', '.join(PLACES)}, not {self.world!r}.")
        if not 0 <= self.strength <= 1:
            raise BiaslibError(f"strength must lie in [0, 1], not {self.strength}.")
        if self.world == "scenes" and self.architecture not in (None, _SCENES.architecture):
            raise BiaslibError(f"Scenes have models of one architecture, {_SCENES.architecture}: leave it out.")
        if self.explained < 1 or self.test_images % self.explained:
            raise BiaslibError(
                f"explained must divide the {self.test_images} test images, so that each is drawn as often as any "
                f"other; {self.explained} does not."
            )

    @property
    def place(self) -> _Place:
        """What the world is on the dial."""
        return PLACES[self.world]

    @property
    def drawn_by(self) -> World:
        """The world."""
        return worlds.get(self.world)

    @property
    def data(self) -> Drawn:
        """The training images."""
        return Drawn(
            world=self.world, images=self.images or self.place.images, strength=self.strength, seed=self.seed,
            size=self.size,
        )  # fmt: skip

    @property
    def recipe(self) -> Recipe:
        """The model as the world's own chapters train it."""
        usual = self.place.training
        config = replace(
            usual, architecture=self.architecture or usual.architecture, epochs=self.epochs or usual.epochs,
            seed=self.seed,
        )  # fmt: skip
        match self.world:
            case "faces":
                return Recipe(data=self.data, targets=Faces.attributes, training=config)
            case "scenes":
                return Recipe(data=self.data, targets=(*OBJECTS, Scenes.target), training=config, objective=_MAKERS)
        return recipes.target_of_world(self.data, config)


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
    """Trials of several worlds, of `PLACES`: `twins` at strength 0, `models` at every other strength, world by world.

    Strength 0 is added where it is missing. `images` and `epochs` are a number for each world (None: see `Trial`),
    `seed` is that of the first model of each strength, `shared` is what else a `Trial` takes.
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
