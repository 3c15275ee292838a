"""What a run of a notebook would train and measure, from which data and how long, in words: said before it starts.

A notebook that trains has cells tagged `plan`, which only make recipes and name in the list `PLAN` what comes of them:
recipes or set-ups, `Calls` of what is measured, names of data sets. A plan runs the imports and these cells alone.
"""

import ast
import dataclasses
import functools
import math
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from biaslib import datasets, models, recipes, store
from biaslib.book import execution, rates
from biaslib.book import parameters as params
from biaslib.book.project import Project
from biaslib.book.recorded import duration
from biaslib.chapters import face_generators
from biaslib.chapters.face_generators import GeneratorSetup
from biaslib.datasets import registry
from biaslib.errors import BiaslibError
from biaslib.recipes import CelebA, Drawn, Recipe, Setup
from biaslib.store import Calls, Stored, parallel

# seconds: the kernel, the workers, a page's figures and statistics; the start and the checkpoints of each model
_START, _EACH_MODEL = 15.0, 0.3
_LIBRARIES: Final = 0.7e9  # bytes that a process takes before it has done anything
_TRAININGS: Final = (recipes.train, face_generators.train)
_FACES: Final = {"train": 162_770, "val": 19_867, "test": 19_962}  # photographs in CelebA's official splits


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
            if not here and (function in _TRAININGS or function.passes):
                kinds.setdefault(function.kind, []).append(_seconds(function, key))
        places = len(parallel.places())
        # the last pieces leave processes without work
        return {kind: math.ceil(len(each) / places) * sum(each) / len(each) for kind, each in kinds.items()}

    def text(self) -> str:
        """The plan in words."""
        trained, measured = Counter[tuple[str, bool]](), Counter[tuple[str, bool]]()
        for (function, key), here in self.here.items():
            of_kind, what = (trained, _described(key)) if function in _TRAININGS else (measured, function.kind)
            of_kind[what, here] += 1
        new, old = (sum(count for (_, here), count in trained.items() if here == stored) for stored in (False, True))
        lines = [f"Plan of {self.notebook}, preset {self.preset}; nothing was run.", ""]
        lines += [f"Trained: {new:,} models, {old:,} are in the store." if trained else "Trained: nothing."]
        lines += _counted(trained) + ["", "Measured of them and kept in the store:"]
        lines += (_counted(measured) or ["  nothing"]) + ["", "Data:", *self._of_data(), "", *self._of_space(), ""]
        times, places = self.seconds() | {"start and figures": _START}, len(parallel.places())
        lines += [
            f"Time on this machine ({places} processes on {models.device().type}), images x passes / rate / processes:"
        ]
        lines += [f"  {'training' if kind == 'model' else kind}: {duration(each)}" for kind, each in times.items()]
        return "\n".join([*lines, f"In all about {duration(sum(times.values()))}."])

    def _of_data(self) -> list[str]:
        configs = [model.training for model in self.models() if isinstance(model, Recipe)]
        files = [file for file in dict.fromkeys(map(recipes._weights_file, configs)) if file.name != "none"]
        lines = [f"  the weights {file}: not here" for file in files if not file.exists()]
        if any(config.weights == "imagenet" for config in configs):
            lines.append("  ImageNet's weights: from timm's hub, or its cache")
        here = datasets.listing().set_index("name")["here"]
        for name in sorted({*self.data, *(name for model in self.models() for name in _data_sets(model.data))}):
            dataset, state = registry.get(name), {"yes": "here", "part": "in part here"}.get(here[name], "not here")
            get = f"; {dataset.how_to_get()} (official source: {dataset.source})" if here[name] != "yes" else ""
            lines.append(f"  {name}: {state}{get}")
        return lines or ["  none but what is generated or comes with the book"]

    def _of_space(self) -> list[str]:
        """Disk for weights and decoded pictures, memory of the largest training in every process."""
        disk, decoded, memory, places = 0.0, {"": 0.0}, 0.0, len(parallel.places())
        for model in [model for model, here in self.models().items() if isinstance(model, Recipe) and not here]:
            weights, made, _ = _network(model)
            pixels = _images(model) * _size(model.data) ** 2 * 3
            if math.isinf(_drawn_per_second(model.data)):  # photographs are decoded once, into a memory map
                decoded[f"{_source(model.data)}, {_size(model.data)} px"], pixels = pixels, 0
            # weights, gradients and two moments; the layers' results are kept for the way back
            disk, memory = disk + 4 * weights, max(memory, pixels + 16 * weights + 8 * made * model.training.batch)
        pictures, memory = sum(decoded.values()), places * (memory + _LIBRARIES)
        return [
            f"Disk: about {(disk + pictures) / 1e9:.1f} GB, of it {pictures / 1e9:.1f} GB decoded pictures.",
            f"Memory: about {memory / 1e9:.1f} GB for {places} processes, with the libraries in each.",
        ]


def of(project: Project, notebook: str, *, given: Mapping[str, Any] | None = None, preset: str | None = None) -> Plan:
    """The plan of one notebook with these parameters; nothing is trained, downloaded or written.

    Raises:
        BiaslibError: as `execution.run` does for names and values; and what the plan's cells say of the parameters.
        PageError: where one of them stops with any other error.
    """
    source = execution.read(project, notebook)
    defaults = params.declared(source, name=notebook)
    changed = execution.changes(project, notebook, defaults, parameters=given, preset=preset)
    names: dict[str, Any] = {"__name__": "__main__", **defaults, **changed, "PLAN": []}
    try:
        exec(compile(_planning(source.cells), f"<the plan of {notebook}>", "exec"), names)
    except BiaslibError as error:
        raise BiaslibError(f"{notebook}: {error}") from error
    except Exception as error:
        raise execution.PageError(f"the plan of {notebook} stopped with {type(error).__name__}: {error}") from error
    keys: dict[tuple[Stored, Any], bool] = {}
    known = {(entry.kind, entry.config) for entry in store.entries()}
    with warnings.catch_warnings(action="ignore", category=datasets.DatasetWarning):
        for model in _models(names["PLAN"]):
            function = recipes.train if isinstance(model, Recipe) else face_generators.train
            keys[function, model] = _is_stored(function, model, known)
        absent = {model for (_, model), here in keys.items() if not here}
        for each in (part for part in names["PLAN"] if isinstance(part, Calls)):
            for key in each.keys:  # what a model that is absent said has no key yet
                keys[each.function, key] = absent.isdisjoint(_models(key)) and _is_stored(each.function, key, known)
    return Plan(notebook, preset or params.QUICK, keys, [name for name in names["PLAN"] if isinstance(name, str)])


def _planning(cells: Sequence[Any]) -> ast.Module:
    """The statements of the cells tagged `plan`, and all imports above them."""
    body, imports = [], []
    for cell in (cell for cell in cells if cell.cell_type == "code"):
        statements = ast.parse(cell.source).body
        imports += [part for part in statements if isinstance(part, ast.Import | ast.ImportFrom)]
        if "plan" in cell.metadata.get("tags", ()):
            body, imports = [*body, *imports, *statements], []
    return ast.Module(body, type_ignores=[])


def _is_stored(function: Stored, key: Any, known: set[tuple[str, str]]) -> bool:
    if (function.kind, repr(key)[: store.CONFIG_LENGTH]) not in known:
        return False  # without a look at the data, which have to be decoded for the exact key
    try:
        return (function.stored_at(key) / "record.json").is_file()
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


@functools.lru_cache(maxsize=1024)
def _images(recipe: Recipe) -> int:
    """How many rows a model is trained on; of CelebA at most as many as the official split has."""
    kept = getattr(recipe.rows, "kept", None)
    if recipe.rows is not None and kept is None and not isinstance(recipe.data, CelebA):
        return len(recipe.rows.chosen(recipe.data.table()))
    split = _FACES[recipe.data.split] if isinstance(recipe.data, CelebA) else 0
    return min(filter(None, (kept, getattr(recipe.data, "images", None), split)))


def _size(data: Any) -> int:
    return getattr(data, "size", 28)


def _network(recipe: Recipe) -> tuple[int, int, int]:
    config = recipe.training
    return rates.of_network(config.architecture, config.hidden, config.outputs, _size(recipe.data))


def _drawn_per_second(data: Any) -> float:
    photographs = isinstance(data, CelebA) or getattr(data, "photos", None)
    return math.inf if photographs else rates.of_drawing(data)


def _seconds(function: Stored, key: Any) -> float:
    """Of one process, for one model, or for one measurement without its models."""
    if isinstance(key, GeneratorSetup):
        shown = key.gan.images + key.encoder.images  # an encoder's image takes about as long
        return shown / rates.of_growing(key) + key.images / _drawn_per_second(key.data)
    model = next((model for model in _models(key) if isinstance(model, Recipe)), None)
    drawn = _drawn_per_second(model.data) if model else math.inf
    config = model and model.training
    asked = rates.of_asking(config.architecture, config.hidden, _size(model.data)) if model else math.inf
    if isinstance(key, Recipe):
        chosen_by = getattr(key.validation, "images", None) or 0
        seconds = _images(key) * config.epochs / rates.of_training(config, _size(key.data)) + _EACH_MODEL
        return seconds + chosen_by * config.epochs / asked + (getattr(key.data, "images", 0) or 0) / drawn
    images, passes, *of_channels = function.passes(*(key if isinstance(key, tuple) else (key,)))
    setup = getattr(key, "generator", None)
    if setup := face_generators.SETUPS.get(setup) if isinstance(setup, str) else setup:
        drawn = rates.of_generating(setup)
    return images / drawn + images * (passes + sum(of_channels) * (_network(model)[-1] if model else 0)) / asked


def _counted(counts: Mapping[tuple[str, bool], int]) -> list[str]:
    every = {what: counts[what, False] + counts[what, True] for what, _ in counts}
    return [f"  {count:,} x {what}; {counts[what, True]:,} in the store" for what, count in every.items()]


def _described(model: Any) -> str:
    size, data = _size(model.data), _source(model.data)
    if isinstance(model, GeneratorSetup):
        return f"generator of {size} px and its encoder, shown {model.gan.images:,} and {model.encoder.images:,} {data}"
    start = f" from {model.training.weights}" if model.training.weights else ""
    return (
        f"{model.training.architecture}{start}, {size} px, {_images(model):,} {data} x {model.training.epochs} epochs"
    )


def _source(data: Any) -> str:
    if isinstance(data, Drawn):
        return f"{'photographs for' if data.photos else 'generated'} {data.world}"
    return "faces of CelebA" if isinstance(data, CelebA) else f"images of {getattr(data, 'source', 'its own data')}"


def _data_sets(data: Any) -> Sequence[str]:
    if isinstance(data, Drawn):
        return recipes._PHOTOS[data.world][1] if data.photos else ()
    return ["celeba"] if isinstance(data, CelebA) else ["mnist"] if getattr(data, "source", "") == "mnist" else ()
