"""What a run of a notebook would train and measure, from which data and how long, in words: said before it starts.

A notebook that trains has cells tagged `plan`, which only make recipes and name in the list `PLAN` what comes of them:
recipes or set-ups, `Calls` of what is measured, names of data sets. A plan runs the imports and these cells alone.

Its times come from how fast this machine trains, asks and draws, in images a second of one process. Each such rate is
measured in about a second, on the device that networks compute on, in all worker processes at the same time.
"""

import ast
import dataclasses
import functools
import math
import os
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np
import pandas as pd
import torch

from biaslib import datasets, models, recipes, store, training
from biaslib.book import Project, execution
from biaslib.book import parameters as params
from biaslib.book.recorded import duration
from biaslib.chapters import face_generators
from biaslib.chapters.face_generators import GeneratorSetup
from biaslib.datasets import registry
from biaslib.errors import BiaslibError, PageError
from biaslib.gan.training import GanConfig, grow
from biaslib.mitigation.resampling import Resampled
from biaslib.recipes import Drawn, Loaded, Recipe, Setup
from biaslib.samples import Samples
from biaslib.store import Calls, Stored, fingerprint, parallel, results
from biaslib.training import TrainingConfig

# seconds: the kernel, the workers, a page's figures and statistics; the start and the checkpoints of each model
_START, _EACH_MODEL = 15.0, 0.3
_LONG_ENOUGH, _MOST = 0.4, 4096  # seconds beyond what the smallest call takes; images
_LIBRARIES: Final = 0.7e9  # bytes that a process takes before it has done anything
_TRAININGS: Final = (recipes.train, face_generators.train)


@dataclass(frozen=True)
class Plan:
    """What a run of a notebook would do; `text` says it."""

    notebook: str
    preset: str
    here: Mapping[tuple[Stored, Any], bool]  #: whether the store has each model and each measurement
    data: Sequence[str]  #: names of data sets, beside those that models are trained on

    def models(self) -> dict[Any, bool]:
        """Every recipe, or set-up of a generator, that the page needs: whether the store has its weights."""
        return {key: here for (function, key), here in self.here.items() if function in _TRAININGS}

    def seconds(self) -> dict[str, float]:
        """How long each kind of work takes: images x passes / rate, in as many processes as work here."""
        kinds: dict[str, list[float]] = {}
        for (function, key), here in self.here.items():
            if not here:
                kinds.setdefault(function.kind, []).append(_seconds(function, key))
        rounds = {kind: math.ceil(len(each) / len(parallel.places())) for kind, each in kinds.items()}
        return {kind: rounds[kind] * sum(each) / len(each) for kind, each in kinds.items()}

    def text(self) -> str:
        """The plan in words."""
        trained, measured, stored = Counter[str](), Counter[str](), Counter[str]()
        for (function, key), here in self.here.items():
            words, counts = (_described(key), trained) if function in _TRAININGS else (function.kind, measured)
            counts[words], stored[words] = counts[words] + 1, stored[words] + here
        old, times = sum(self.models().values()), self.seconds() | {"start and figures": _START}
        lines = [f"Plan of {self.notebook}, preset {self.preset}; nothing was run.", ""]
        lines += [f"Trained: {trained.total() - old:,} models, {old:,} are in the store."] if trained else []
        lines += [f"  {count:,} x {words}; {stored[words]:,} in the store" for words, count in trained.items()]
        lines += ["", "Measured of them:"] if trained else ["Trained: nothing."]
        lines += [f"  {count:,} x {kind}; {stored[kind]:,} in the store" for kind, count in measured.items()]
        lines += ["", "Data:", *self._of_data(), "", self._of_space(), ""]
        lines += [f"Time on this {models.device().type}, images x passes / rate / {len(parallel.places())} processes:"]
        lines += [f"  {'training' if kind == 'model' else kind}: {duration(each)}" for kind, each in times.items()]
        return "\n".join([*lines, f"In all about {duration(sum(times.values()))}."])

    def _of_data(self) -> list[str]:
        configs = [model.training for model in self.models() if isinstance(model, Recipe)]
        files = [file for file in dict.fromkeys(map(recipes._weights_file, configs)) if file.name != "none"]
        lines = [f"  the weights {file}: not here" for file in files if not file.exists()]
        timm = any(config.weights == "imagenet" for config in configs)
        lines += ["  ImageNet's weights: from timm's hub, or its cache"] * timm
        here = datasets.listing().set_index("name")["here"]
        for name in sorted({*self.data, *(name for model in self.models() for name in _source(model.data)[1])}):
            dataset, state = registry.get(name), {"yes": "here", "part": "in part here"}.get(here[name], "not here")
            get = f"; {dataset.how_to_get()} (official source: {dataset.source})" if here[name] != "yes" else ""
            lines.append(f"  {name}: {state}{get}")
        return lines or ["  none but what is generated or comes with the book"]

    def _of_space(self) -> str:
        """Disk for weights and decoded pictures, memory of the largest training in every process."""
        disk, memory, decoded, places = 0.0, 0.0, {}, len(parallel.places())
        for model in [model for model, here in self.models().items() if isinstance(model, Recipe) and not here]:
            weights, made, _ = _network(model)
            pixels = _images(model) * _size(model.data) ** 2 * 3
            if math.isinf(_rate_of_drawing(model.data)):  # photographs are decoded once, into a memory map
                decoded[_source(model.data)[0], _size(model.data)], pixels = pixels, 0
            # weights, gradients and two moments; the layers' results are kept for the way back
            disk, memory = disk + 4 * weights, max(memory, pixels + 16 * weights + 8 * made * model.training.batch)
        disk, memory = disk + sum(decoded.values()), places * (memory + _LIBRARIES)
        return f"Disk: about {disk / 1e9:.1f} GB. Memory: about {memory / 1e9:.1f} GB for {places} processes."


def of(project: Project, notebook: str, *, given: Mapping[str, Any] | None = None, preset: str | None = None) -> Plan:
    """The plan of one notebook with these parameters; nothing is trained, downloaded or written.

    Raises as `execution.run` does: a `BiaslibError`, also what the cells say of the parameters, or a `PageError`.
    """
    source, defaults, changed = execution.opened(project, notebook, parameters=given, preset=preset)
    names: dict[str, Any] = {"__name__": "__main__", **defaults, **changed, "PLAN": []}
    try:
        exec(compile(_planning(source.cells), f"<the plan of {notebook}>", "exec"), names)
    except Exception as error:  # whatever a page's cell raises is a finding about the page
        kind = BiaslibError if isinstance(error, BiaslibError) else PageError
        raise kind(f"{notebook}: {error}") from error
    keys: dict[tuple[Stored, Any], bool] = {}
    known = {(entry.kind, entry.config) for entry in store.entries()}
    with fingerprint.once(), warnings.catch_warnings(action="ignore", category=datasets.DatasetWarning):
        for model in _models(names["PLAN"]):
            function = recipes.train if isinstance(model, Recipe) else face_generators.train
            keys[function, model] = _is_stored(function, model, known)
        absent = {model for (_, model), here in keys.items() if not here}
        for each in (part for part in names["PLAN"] if isinstance(part, Calls)):
            for key in each.keys:  # what a model that is absent said has no key yet
                keys[each.function, key] = absent.isdisjoint(_models(key)) and _is_stored(each.function, key, known)
    return Plan(notebook, preset or params.QUICK, keys, [name for name in names["PLAN"] if isinstance(name, str)])


def _planning(cells: Sequence[Any]) -> ast.Module:
    """The statements of the cells tagged `plan`, and the imports of all cells."""
    code = [(ast.parse(cell.source).body, cell.metadata.get("tags", ())) for cell in cells if cell.cell_type == "code"]
    imports = ast.Import | ast.ImportFrom
    taken = [part for body, tags in code for part in body if "plan" in tags or isinstance(part, imports)]
    return ast.Module(taken, type_ignores=[])


def _is_stored(function: Stored, key: Any, known: set[tuple[str, str]]) -> bool:
    words = function.kind, repr(key)[: results.CONFIG_LENGTH]
    try:  # the exact key, for which the data are decoded, comes last
        return words in known and (function.stored_at(key) / "record.json").is_file()
    except (BiaslibError, OSError):  # its data or weights are no longer here
        return False


def _models(value: Any) -> Iterator[Any]:
    """The recipes, and set-ups of generators, inside a value."""
    if isinstance(value, Recipe | GeneratorSetup):
        yield value
    elif isinstance(value, Setup):
        yield value.recipe
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _models(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for part in dataclasses.fields(value):
            yield from _models(getattr(value, part.name))


def _images(recipe: Recipe) -> int:
    """How many rows a model is trained on; of photographs at most as many as the split has."""
    kept = getattr(recipe.rows, "kept", None)
    if isinstance(recipe.rows, Resampled):  # some more, or half of them: to choose these would take longer than a plan
        kept = getattr(recipe.data, "images", None)
    if recipe.rows is not None and kept is None and not isinstance(recipe.data, Loaded):
        return len(recipe.rows.chosen(recipe.data.table()))
    split = None
    if isinstance(recipe.data, Loaded):
        splits = registry.WORDS["photographs"].get(recipe.data.name.partition("-")[0])
        split = splits[recipe.data.split] if splits else len(recipe.data.table())
    return min(filter(None, (kept, getattr(recipe.data, "images", None), split)))


def _size(data: Any) -> int:
    return getattr(data, "size", 28)


def _network(recipe: Recipe) -> tuple[int, int, int]:
    config = recipe.training
    return _counts_of(config.architecture, config.hidden, config.outputs, _size(recipe.data))


def _seconds(function: Stored, key: Any) -> float:
    """Of one process, for one model, or for one measurement without its models."""
    if isinstance(key, GeneratorSetup):
        shown = key.gan.images + key.encoder.images  # an encoder's image takes about as long
        rate = _everywhere(_growing, replace(key.gan, seed=0, images=16 * key.gan.batch, chunks=1))
        return shown / rate + key.images / _rate_of_drawing(key.data)
    if (model := next((model for model in _models(key) if isinstance(model, Recipe)), None)) is None:
        return 0.0  # not known
    config, size, drawn = model.training, _size(model.data), _rate_of_drawing(model.data)
    asked = _everywhere(_asking, config.architecture, config.hidden, size)
    if model is key:
        chosen_by = getattr(model.validation, "images", None) or 0
        seconds = _EACH_MODEL + (getattr(model.data, "images", 0) or 0) / drawn + chosen_by * config.epochs / asked
        # what it starts from and is trained for makes no difference to how many images a second it shows
        plain = replace(config, weights=None, epochs=1, schedule="constant", learning_rate=1e-3, seed=0)
        rate = _everywhere(_training, replace(plain, loss="binary", balanced=False, keep="last"), size)
        return seconds + _images(model) * config.epochs / rate
    images, passes, *of_channels = function.passes(*(key if isinstance(key, tuple) else (key,)))
    return images / drawn + images * (passes + sum(of_channels) * _network(model)[-1]) / asked


def _described(model: Any) -> str:
    size, data = _size(model.data), _source(model.data)[0]
    if isinstance(model, GeneratorSetup):
        return f"generator of {size} px and its encoder, shown {model.gan.images:,} and {model.encoder.images:,} {data}"
    config = model.training
    start = f" from {config.weights}" if config.weights else ""
    return f"{config.architecture}{start}, {size} px, {_images(model):,} {data} x {config.epochs} epochs"


def _source(data: Any) -> tuple[str, Sequence[str]]:
    """Where the images come from, in words, and the data sets that it takes."""
    if isinstance(data, Drawn) and not hasattr(data, "source"):  # digits say whose they are
        folders = {folder.split("/")[0] for folder in recipes._PHOTOS[data.world][1]} if data.photos else set()
        used = [name for name, each in registry.read().items() if folders & {f.path.split("/")[0] for f in each.files}]
        return f"{'photographs for' if used else 'generated'} {data.world}", used
    # as the registry calls it: "celeba" of its cropped faces, too
    source = data.name.partition("-")[0] if isinstance(data, Loaded) else getattr(data, "source", "its own data")
    return f"images of {source}", [source] if source in registry.read() else []


def _rate_of_drawing(data: Any) -> float:
    """Images that a world draws for the data of a recipe; of photographs as many as you like."""
    if isinstance(data, Loaded) or getattr(data, "photos", None):
        return math.inf
    plain = {"source": "scikit-learn"} if hasattr(data, "source") else {}  # MNIST may be missing
    return _everywhere(_drawing, replace(data, images=2, seed=0, strength=0.5, **plain))


@functools.cache
def _everywhere(measure: Callable[..., float], *arguments: Any) -> float:
    """The mean over all worker processes, at the same time: they share the machine's memory, and perhaps a card."""
    with parallel.workers() as (executor, at_once):
        jobs = [executor.submit(measure, *arguments) for _ in range(at_once)]
        return sum(job.result() for job in jobs) / at_once


def _training(config: TrainingConfig, size: int) -> float:
    def trained(n: int) -> None:
        answers = np.arange(n)[:, None] % 2 == np.arange(config.outputs) % 2
        training.fit(Samples(_blank(n, size), pd.DataFrame(index=range(n))), answers, config)

    return _measured(trained)


def _asking(architecture: str, hidden: int | None, size: int) -> float:
    """Images that a network answers."""
    network = models.placed(models.build(architecture, 2, hidden=hidden))
    return _measured(lambda n: training.predict(network, _blank(n, size)))


def _drawing(data: Any) -> float:
    return _measured(lambda n: replace(data, images=n).samples())


def _growing(config: GanConfig) -> float:
    """Images that the training of a generator shows it, over all its levels."""
    images, shown = _blank(max(64, config.batch), config.size), 16 * config.batch  # a share of them at every level

    def grown(n: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            grow(images, replace(config, images=n * shown), checkpoint=Path(folder) / "generator.pt")

    return shown * _measured(grown)


@functools.cache
def _counts_of(architecture: str, hidden: int | None, outputs: int, size: int) -> tuple[int, int, int]:
    """How many weights a network has, how many numbers its layers make of an image, and its last map's channels."""
    network: Any = models.build(architecture, outputs, hidden=hidden).eval()
    made = []
    for layer in (layer for layer in network.modules() if not list(layer.children())):
        layer.register_forward_hook(lambda *parts: made.append(math.prod(parts[2].shape)))
    with torch.inference_mode():
        channels = network.forward_features(torch.zeros(1, 3, size, size)).shape[1]
    return sum(weights.numel() for weights in network.parameters()), sum(made), channels


def _measured(work: Callable[[int], Any]) -> float:
    """Units of work a second, by the difference between a short call and a longer one: not the start of a call."""
    before = dict(os.environ)

    def clocked(n: int) -> float:
        start = perf_counter()
        parallel.on_threads(1, work, n)
        return perf_counter() - start

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):
        os.environ["BIASLIB_STORE"] = folder  # a training leaves a checkpoint while it runs
        try:
            clocked(2)  # the first call imports and compiles
            least, n, seconds = clocked(2), 2, 0.0
            while seconds < _LONG_ENOUGH and n < _MOST:
                n *= 4
                seconds = clocked(n) - least
        finally:
            os.environ.clear()
            os.environ.update(before)
    return (n - 2) / max(seconds, 1e-3)


def _blank(n: int, size: int) -> np.ndarray:
    return np.zeros((n, size, size, 3), np.uint8)
