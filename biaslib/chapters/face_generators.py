"""Generators of faces with their encoders: trained through the store, and those that come with the book."""

import dataclasses
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np
import pandas as pd
import safetensors
import safetensors.torch
import torch

from biaslib import store
from biaslib.book import project
from biaslib.errors import BiaslibError
from biaslib.gan.encoder import Encoder, EncoderConfig, latent_correlation, train_encoder
from biaslib.gan.networks import Generator
from biaslib.gan.training import GanConfig, grow
from biaslib.recipes import CelebA, Drawn
from biaslib.store import fingerprint, parallel, provenance, stored
from biaslib.worlds.faces import STRENGTH

State = dict[str, torch.Tensor]

SOURCES: Final = ("generated", "celeba")
LOG: Final = ("images", "level", "alpha", "critic", "generator")


@dataclass(frozen=True, kw_only=True)
class GeneratorSetup:
    """One generator, the encoder of its images, and the faces it is trained on.

    Attributes:
        source: "generated" (`worlds.faces`) or "celeba".
        images: how many different faces it is shown; of CelebA's as many as there are, at most.
        strength: the generated world's dial; its default gives CelebA's correlations.
        detail: of the generated faces, see `worlds.faces`; 1 is for generators of few pixels.
        gan: how the generator is grown; its last level is the faces' size, its seed also the faces'.
        encoder: how the encoder is trained.
        threads: on which both are trained, whatever cores there are: their last bits depend on it.
    """

    source: str = "generated"
    images: int = 30_000
    strength: float = STRENGTH
    detail: float = 1.0
    gan: GanConfig = field(default_factory=GanConfig)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    threads: int = 1

    def __post_init__(self) -> None:
        if self.source not in SOURCES:
            raise BiaslibError(f"source must be {' or '.join(SOURCES)}, not {self.source!r}.")
        if self.threads < 1:
            raise BiaslibError(f"threads must be at least 1, not {self.threads}.")
        if self.gan.size != 4 * 2 ** len(self.encoder.widths):
            raise BiaslibError(
                f"The generator draws {self.gan.size} px, the encoder reads {4 * 2 ** len(self.encoder.widths)}: give "
                f"the encoder {len(self.gan.widths) - 1} widths."
            )

    @property
    def data(self) -> Drawn | CelebA:
        """The faces it is trained on."""
        if self.source == "celeba":
            return CelebA(size=self.gan.size, images=self.images)
        return Drawn(
            world="faces", images=self.images, strength=self.strength, seed=self.gan.seed, size=self.gan.size,
            options=(("detail", self.detail),),
        )  # fmt: skip

    def fingerprint(self) -> str:
        """Hash of the code and the photographs that the faces depend on."""
        return self.data.fingerprint()


def _recipe(seed: int) -> GeneratorSetup:
    """32 pixels, in widths of which two generators with their encoders have room in the repository."""
    gan = GanConfig(
        widths=(96, 96, 64, 32), growth=((0.0, 0.06), (0.06, 0.06), (0.12, 0.14), (0.16, 0.40)), images=160_000,
        decay=0.25, seed=seed,
    )  # fmt: skip
    return GeneratorSetup(gan=gan, encoder=EncoderConfig(widths=(48, 96, 96), images=200_000, seed=seed))


# what `biaslib grow` trains and keeps
RECIPES: Final = {f"faces-{seed}": _recipe(seed) for seed in range(2)}


def quick(images: int = 60_000, *, seed: int = 0, threads: int = 2) -> GeneratorSetup:
    """32 pixels within minutes on two cores: another loss and a penalty at every fourth step, for a first look.

    Args:
        images: shown to the generator; its encoder is shown half as many.
        seed: of everything.
        threads: see `GeneratorSetup`; two are 1.7 times as fast as one, unless another generator has the other core.
    """
    gan = GanConfig(
        widths=(96, 96, 64, 32), images=images, loss="r1", penalty=0.5, penalty_every=4, learning_rate=2e-3,
        decay=0.25, chunks=30, seed=seed,
    )  # fmt: skip
    encoder = EncoderConfig(widths=(48, 96, 96), images=images // 2, seed=seed)
    return GeneratorSetup(gan=gan, encoder=encoder, threads=threads)


@dataclass(frozen=True)
class Trained:
    """A generator and its encoder, on the CPU, in evaluation mode.

    Attributes:
        generator: latent codes to images.
        encoder: images to latent codes.
        frames: (chunks, faces, size, size, 3) uint8: the same codes after every part of the training.
        log: a row each part: images shown, level, alpha, and the mean losses of critic and generator.
        latent_correlation: (latent,) between each number of a code and what the encoder makes of its image.
    """

    generator: Generator
    encoder: Encoder
    frames: np.ndarray
    log: pd.DataFrame
    latent_correlation: np.ndarray


def trained(setups: Sequence[GeneratorSetup]) -> list[Trained]:
    """The generators, in this order, trained side by side where the store lacks them.

    A training that was killed goes on where it was, the generator's and the encoder's: their checkpoints are removed
    only when the result is stored.

    Raises:
        BiaslibError: where CelebA's files are missing.
    """
    states = train.many(setups)
    for setup in setups:
        shutil.rmtree(_checkpoints(setup), ignore_errors=True)
    return [_restored(setup, state) for setup, state in zip(setups, states, strict=True)]


@stored("face-generator")
def train(setup: GeneratorSetup) -> State:
    """All tensors of one generator and its encoder, trained on the set-up's threads: cores do not change them."""
    return parallel.on_threads(setup.threads, _train, setup)


def kept(name: str) -> tuple[Trained, dict[str, Any]]:
    """A generator that comes with the book, and the record of its training.

    Args:
        name: of a file in `book/generators`, such as "faces-0".

    Returns:
        The generator, and its record: `command`, `preset` (the recipe), `experiment` (all settings), `device`, `date`,
        `commit`, `seconds`.

    Raises:
        BiaslibError: where there is none of this name, it cannot be read, or its recipe has changed since.
    """
    weights, record = _files(name)
    if not weights.is_file():
        there = ", ".join(names()) or "none"
        raise BiaslibError(f"There is no generator {name!r} in book/generators, which holds {there}.")
    if name not in RECIPES:
        raise BiaslibError(f"{name} has no recipe in face_generators.RECIPES: it cannot be built.")
    try:
        state = _unpacked(safetensors.torch.load_file(weights))
        found, described = _restored(RECIPES[name], state), json.loads(record.read_text(encoding="utf-8"))
        recorded_recipe = described["experiment"]
    except (OSError, RuntimeError, ValueError, KeyError, safetensors.SafetensorError) as error:
        raise BiaslibError(f"The generator {name} is damaged ({error}): restore book/generators from git.") from error
    if recorded_recipe != json.loads(json.dumps(dataclasses.asdict(RECIPES[name]))):
        raise BiaslibError(
            f"The generator {name} was grown by another recipe than face_generators.RECIPES has now: "
            f"grow it again with `biaslib grow {name}`, or take the recipe back."
        )
    return found, described


def names() -> list[str]:
    """The generators that come with the book."""
    return sorted(path.stem for path in _folder().glob("*.safetensors"))


def said(name: str) -> str:
    """How pages call a generator: "generator 1" for faces-0; another name stays as it is."""
    number = name.removeprefix("faces-")
    return f"generator {int(number) + 1}" if number.isdigit() else name


def keep(name: str) -> Path:
    """Trains one of `RECIPES` and writes it to `book/generators`, at lower precision, with its record.

    Raises:
        BiaslibError: for an unknown recipe.
    """
    if name not in RECIPES:
        raise BiaslibError(f"There is no recipe {name!r}: choose {', '.join(RECIPES)}.")
    setup, start = RECIPES[name], perf_counter()
    state = train(setup)
    shutil.rmtree(_checkpoints(setup), ignore_errors=True)
    record = {
        "command": f"biaslib grow {name}",
        "preset": name,
        "experiment": dataclasses.asdict(setup),
        "device": provenance.device(),
        "date": provenance.now(),
        "commit": provenance.commit(project.find().root),
        "seconds": round(perf_counter() - start),
    }
    weights, file = _files(name)
    with store.replacing(weights) as partial:
        safetensors.torch.save_file(_packed(state), partial)
    with store.replacing(file) as partial:
        partial.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return weights


def _checkpoints(setup: GeneratorSetup) -> Path:
    """The folder of what a training leaves when it is killed."""
    name = fingerprint.of_value([setup, fingerprint.of_code(_train)])
    return store.root() / "checkpoints" / f"face-generator-{name}"


def _train(setup: GeneratorSetup) -> State:
    folder = _checkpoints(setup)
    grown = grow(setup.data.samples().images, setup.gan, checkpoint=folder / "generator.pt")
    print(f"the generator is grown; its encoder is next ({setup.encoder.images:,} images)", file=sys.stderr)
    encoder = train_encoder(grown.generator, setup.encoder, checkpoint=folder / "encoder.pt")
    return {
        **{f"generator.{name}": tensor for name, tensor in grown.generator.state_dict().items()},
        **{f"encoder.{name}": tensor for name, tensor in encoder.state_dict().items()},
        "frames": torch.from_numpy(grown.frames),
        "log": torch.tensor([[row[name] for name in LOG] for row in grown.log], dtype=torch.float64),
        "latent_correlation": torch.from_numpy(latent_correlation(encoder, grown.generator)),
    }


def _restored(setup: GeneratorSetup, state: State) -> Trained:
    generator = Generator(latent=setup.gan.latent, widths=setup.gan.widths)
    encoder = Encoder(latent=setup.gan.latent, size=setup.gan.size, widths=setup.encoder.widths)
    for prefix, network in (("generator.", generator), ("encoder.", encoder)):
        own = {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
        network.load_state_dict(own)
        network.to(memory_format=torch.channels_last).eval()  # convolutions read this memory order faster
    log = pd.DataFrame(state["log"].numpy(), columns=list(LOG))
    frames = state["frames"].to(torch.uint8).numpy()
    return Trained(generator, encoder, frames, log, state["latent_correlation"].numpy())


def _packed(state: State) -> State:
    """As it is kept: large layers in bytes with a scale a row, the rest in half precision, a few of the pictures."""
    packed: State = {}
    for name, tensor in state.items():
        if name == "frames":
            packed[name] = tensor[::4, :8].contiguous()
        elif name.startswith(("encoder.", "generator.first.")) and tensor.ndim > 1:
            rows = tensor.flatten(1)
            scale = rows.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / 127
            packed[name] = (rows / scale).round().to(torch.int8).reshape(tensor.shape)
            packed[f"scale.{name}"] = scale
        else:
            half = tensor.is_floating_point() and name != "log"
            packed[name] = (tensor.half() if half else tensor).contiguous()
    return packed


def _unpacked(packed: State) -> State:
    state = {}
    for name, tensor in packed.items():
        if f"scale.{name}" in packed:
            state[name] = (tensor.flatten(1) * packed[f"scale.{name}"]).reshape(tensor.shape)
        elif not name.startswith("scale."):
            state[name] = tensor.float() if tensor.dtype == torch.float16 else tensor
    return state


def _files(name: str) -> tuple[Path, Path]:
    return _folder() / f"{name}.safetensors", _folder() / f"{name}.json"


def _folder() -> Path:
    return project.find().book / "generators"
