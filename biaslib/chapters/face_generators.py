"""Generators of faces with their encoders: trained through the store, and those that come with the book."""

import ast
import dataclasses
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np
import safetensors
import safetensors.torch
import torch

from biaslib import models, store
from biaslib.book import find_project
from biaslib.errors import BiaslibError, check_known, check_number, refused
from biaslib.gan.counterfactuals import draw, latent_codes, opened
from biaslib.gan.networks import Encoder, GeneratorNetwork
from biaslib.gan.training import EncoderConfig, GanConfig, encoded, grow, latent_correlation, train_encoder
from biaslib.recipes import CELEBA, Drawn, Loaded
from biaslib.store import fingerprint, parallel, results, stored
from biaslib.store.files import beside, tupled
from biaslib.worlds.faces import STRENGTH

_State = dict[str, torch.Tensor]

_ENDING: Final = ".safetensors"
_LOG: Final = ("images", "level", "alpha", "critic", "generator")  # kept with the weights: how the training went


@dataclass(frozen=True, kw_only=True)
class GeneratorSetup:
    """One generator, the encoder of its images, and the faces it is trained on."""

    source: str = "generated"  # `worlds.faces`, or "celeba" or "celeba-cropped" as `datasets.load` has them
    images: int = 30_000  # different faces that it is shown; of CelebA's as many as there are, at most
    strength: float = STRENGTH  # the generated world's dial; the default gives CelebA's correlations
    detail: float = 1.0  # of the generated faces, see `worlds.faces`; 1 is for generators of few pixels
    gan: GanConfig = field(default_factory=GanConfig)  # its last level is the faces' size, its seed also the faces'
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    threads: int = 1  # on which both are trained, whatever cores there are: their last bits depend on it

    def __post_init__(self) -> None:
        check_known("source", self.source, ("generated", *CELEBA))
        check_number("threads", self.threads, 1, whole=True)
        if self.gan.size != 4 * 2 ** len(self.encoder.widths):
            read = 4 * 2 ** len(self.encoder.widths)
            raise refused("encoder of another size", size=self.gan.size, read=read, widths=len(self.gan.widths) - 1)

    @property
    def data(self) -> Drawn | Loaded:
        """The faces it is trained on."""
        if self.source in CELEBA:
            return Loaded(name=self.source, size=self.gan.size, images=self.images)
        return Drawn(
            world="faces", images=self.images, strength=self.strength, seed=self.gan.seed, size=self.gan.size,
            options=(("detail", self.detail),),
        )  # fmt: skip

    def fingerprint(self) -> str:
        """Hash of the code and the photographs that the faces depend on."""
        return self.data.fingerprint()


def by_recipe(recipe: str, images: int = 60_000, *, encoder_images: int = 0, seed: int = 0) -> GeneratorSetup:
    """As the TOML file beside this module says: "quick" takes minutes on two cores, "celeba" an hour on one.

    The encoder is shown half as many images, unless it is said.
    """
    said = beside(__file__)[recipe]
    gan = GanConfig(**said.pop("gan"), images=images, seed=seed)
    encoder = EncoderConfig(**said.pop("encoder"), images=encoder_images or images // 2, seed=seed)
    return GeneratorSetup(**said, gan=gan, encoder=encoder)


# what `biaslib grow` trains and saves
SETUPS: Final = {f"faces-{n}": by_recipe("book", 160_000, encoder_images=200_000, seed=n) for n in range(2)}


def progressive(images: int = 10_000_000, *, size: int = 128, seed: int = 0) -> GeneratorSetup:
    """As Karras et al. (2018) grow a generator of CelebA, which Denton et al. (2019) take: WGAN-GP, level after level.

    The faces are cropped and mirrored as theirs; the channels are a smaller network's; the batch is 16 at every level.
    """
    levels = int(np.log2(size)) - 1
    shares = np.array([(0, 1), *[(1, 1)] * (levels - 2), (1, 2)])
    gan = GanConfig(
        widths=(512, 512, 256, 128, 64, 32)[:levels], growth=tuple(map(tuple, (shares / shares.sum()).tolist())),
        images=images, average=0.999, mirror=True, chunks=200, seed=seed,
    )  # fmt: skip
    encoder = EncoderConfig(widths=(64, 128, 256, 256, 256)[: levels - 1], images=500_000, seed=seed)
    return GeneratorSetup(source="celeba-cropped", images=162_770, gan=gan, encoder=encoder)


def configured(source: str, *, size: int, images: int, options: Sequence[str] = ()) -> GeneratorSetup:
    """As `by_recipe` "quick" at 32 pixels, "celeba" at 64, and `progressive` at 128, of any source, with options.

    Options such as "gan.loss=wgan-gp", "encoder.images=30000" or "threads=2" are fields of `GanConfig`, `EncoderConfig`
    and `GeneratorSetup`; another one is a `BiaslibError`. `images` is how many are shown.
    """
    recipes: dict[int, Any] = {32: partial(by_recipe, "quick"), 64: partial(by_recipe, "celeba"), 128: progressive}
    check_known("size, in pixels,", size, recipes)
    faces = 30_000 if source == "generated" else 162_770
    setup = dataclasses.replace(recipes[size](images), source=source, images=faces)
    parts: dict[str, Any] = {"": setup, "gan": setup.gan, "encoder": setup.encoder}
    for option in options:
        name, _, words = option.partition("=")
        part, _, named = name.rpartition(".")
        try:
            known = getattr(parts[part], named)
            value = words if isinstance(known, str) else type(known)(ast.literal_eval(words))
            parts[part] = dataclasses.replace(parts[part], **{named: value})
        except (AttributeError, KeyError, TypeError, ValueError, SyntaxError) as error:
            raise BiaslibError(f"{option!r} is no option: {error}. Give one as gan.loss=r1.") from error
    return dataclasses.replace(parts[""], gan=parts["gan"], encoder=parts["encoder"])


@dataclass(frozen=True)
class FaceGenerator:
    """A `gan.Generator` of ours: a network and its encoder, in evaluation mode."""

    setup: GeneratorSetup
    generator: GeneratorNetwork
    encoder: Encoder
    latent_correlation: np.ndarray  # (latent,) of each number of a code with what the encoder makes of its image

    @property
    def size(self) -> int:
        """Height and width of its images, in pixels."""
        return self.setup.gan.size

    def sample(self, n: int, seed: int) -> np.ndarray:
        """(n, latent) normal numbers."""
        return latent_codes(n, self.generator.latent, seed=seed)

    def draw(self, codes: np.ndarray) -> np.ndarray:
        """(N, size, size, 3) uint8."""
        return draw(self.generator, codes)

    def encode(self, images: np.ndarray) -> np.ndarray:
        """(N, latent)."""
        return encoded(self.encoder, images)


@stored("face-generator")
def train(setup: GeneratorSetup) -> _State:
    """All tensors of one generator and its encoder; a training that was killed goes on where it was."""
    return parallel.on_threads(setup.threads, _train, setup)


def load(generator: str | GeneratorSetup) -> Any:
    """A `gan.Generator`: one to be trained, of the book by its name, of a file that was grown, or `module:object`."""
    if isinstance(generator, GeneratorSetup):
        return _restored(generator, _trained(generator))
    return opened(generator) if ":" in generator else _read(generator)[0]


def setup_of(generator: str | GeneratorSetup) -> GeneratorSetup:
    """Of a generator that was grown, by its name or its file, or of one to be trained."""
    return load(generator).setup if isinstance(generator, str) else generator


def record(name: str) -> dict[str, Any]:
    """How a generator of the book was trained: `command`, `experiment` (its set-up), `commit`, `seconds` ..."""
    return _read(name)[1]


def named_generators() -> dict[str, str]:
    """What pages call the generators that come with the book -> their names."""
    if not (names := _names()):
        raise BiaslibError("The book's generators are missing from book/generators: restore them from git.")
    return {f"generator {number}": name for number, name in enumerate(names, start=1)}


def train_for_book(name: str) -> Path:
    """Trains one of `SETUPS` and writes it to `book/generators`."""
    check_known("a recipe of the book's generators", name, SETUPS)
    origin = {"command": f"biaslib grow {name}", "preset": name, "commit": results.commit(find_project().root)}
    return train_to(SETUPS[name], _folder() / f"{name}{_ENDING}", **origin)


def train_to(setup: GeneratorSetup, path: Path, **origin: Any) -> Path:
    """Trains a generator and writes it at lower precision, and the record of its training in a JSON file beside it."""
    if path.suffix != _ENDING:
        raise BiaslibError(f"A generator is written to a file that ends in {_ENDING}, not to {path}.")
    start, state = perf_counter(), _trained(setup)
    record = origin | {"experiment": dataclasses.asdict(setup), "device": results.device()}
    record |= {"date": results.now(), "seconds": round(perf_counter() - start)}
    with store.replacing(path) as partial, store.replacing(path.with_suffix(".json")) as partial_record:
        safetensors.torch.save_file(_packed(state), partial)
        partial_record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return path


def _read(name: str) -> tuple[FaceGenerator, dict[str, Any]]:
    """A generator of the book by its name, or of a file, and the record of its training."""
    file = Path(name) if name.endswith(_ENDING) else _folder() / f"{name}{_ENDING}"
    if not file.is_file():
        there = ", ".join(_names()) or "none"
        raise BiaslibError(f"There is no generator {name!r} in book/generators, which holds {there}.")
    try:
        training = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
        said = tupled(training["experiment"])
        gan, encoder = GanConfig(**said.pop("gan")), EncoderConfig(**said.pop("encoder"))
        setup = GeneratorSetup(**said, gan=gan, encoder=encoder)
        return _restored(setup, _unpacked(safetensors.torch.load_file(file))), training
    except (OSError, RuntimeError, TypeError, ValueError, KeyError, safetensors.SafetensorError) as error:
        raise BiaslibError(f"The generator {name} is damaged ({error}): restore it, or grow it again.") from error


def _names() -> list[str]:
    return sorted(path.stem for path in _folder().glob("*.safetensors"))


def _trained(setup: GeneratorSetup) -> _State:
    """From the store, which has it before its checkpoints are removed."""
    state = train(setup)
    shutil.rmtree(_checkpoints(setup), ignore_errors=True)
    return state


def _checkpoints(setup: GeneratorSetup) -> Path:
    """The folder of what a training leaves when it is killed."""
    name = fingerprint.of_value([setup, fingerprint.of_code(_train)])
    return store.root() / "checkpoints" / f"face-generator-{name}"


def _train(setup: GeneratorSetup) -> _State:
    folder = _checkpoints(setup)
    generator, log = grow(setup.data.samples().images, setup.gan, checkpoint=folder / "generator.pt")
    print(f"the generator is grown; its encoder is next ({setup.encoder.images:,} images)", file=sys.stderr)
    encoder = train_encoder(generator, setup.encoder, checkpoint=folder / "encoder.pt")
    return {
        **{f"generator.{name}": tensor.cpu() for name, tensor in generator.state_dict().items()},
        **{f"encoder.{name}": tensor.cpu() for name, tensor in encoder.state_dict().items()},
        "log": torch.tensor([[row[name] for name in _LOG] for row in log], dtype=torch.float64),
        "latent_correlation": torch.from_numpy(latent_correlation(encoder, generator)),
    }


def _restored(setup: GeneratorSetup, state: _State) -> FaceGenerator:
    generator = GeneratorNetwork(latent=setup.gan.latent, widths=setup.gan.widths)
    encoder = Encoder(latent=setup.gan.latent, size=setup.gan.size, widths=setup.encoder.widths)
    for prefix, network in (("generator.", generator), ("encoder.", encoder)):
        own = {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
        network.load_state_dict(own)
        models.placed(network).to(memory_format=torch.channels_last)  # convolutions read this memory order faster
    return FaceGenerator(setup, generator, encoder, state["latent_correlation"].numpy())


def _packed(state: _State) -> _State:
    """As it is kept: large layers in bytes with a scale a row, the rest in half precision."""
    packed: _State = {}
    for name, tensor in state.items():
        if name.startswith(("encoder.", "generator.first.")) and tensor.ndim > 1:
            rows = tensor.flatten(1)
            scale = rows.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / 127
            packed[name] = (rows / scale).round().to(torch.int8).reshape(tensor.shape)
            packed[f"scale.{name}"] = scale
        else:
            half = tensor.is_floating_point() and name != "log"
            packed[name] = (tensor.half() if half else tensor).contiguous()
    return packed


def _unpacked(packed: _State) -> _State:
    state = {}
    for name, tensor in packed.items():
        if f"scale.{name}" in packed:
            state[name] = (tensor.flatten(1) * packed[f"scale.{name}"]).reshape(tensor.shape)
        elif not name.startswith("scale."):
            state[name] = tensor.float() if tensor.dtype == torch.float16 else tensor
    return state


def _folder() -> Path:
    return find_project().book / "generators"
