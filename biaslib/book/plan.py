"""What a run of a notebook would train and measure, from which data and how long, in words: said before it starts.

A notebook that trains has cells tagged `plan`, which only make recipes and name in the list `PLAN` what comes of them:
recipes or set-ups, `Calls` of what is measured, names of data sets. A plan runs the imports and these cells alone.
"""

import ast
import dataclasses
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
from biaslib.recipes import Drawn, Loaded, Recipe, Setup
from biaslib.store import Calls, Stored, fingerprint, parallel

# seconds: the kernel, the workers, a page's figures and statistics; the start and the checkpoints of each model
_START, _EACH_MODEL = 15.0, 0.3
_LIBRARIES: Final = 0.7e9  # bytes that a process takes before it has done anything
_TRAININGS: Final = (recipes.train, face_generators.train)
# photographs in the splits of the data sets that models are trained on as they are
_PHOTOGRAPHS: Final = {
    "celeba": {"train": 162_770, "val": 19_867, "test": 19_962},
    "coco": {"train": 82_783, "val": 20_252, "test": 20_252},
}


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
            if math.isinf(rates.of_drawing(model.data)):  # photographs are decoded once, into a memory map
                decoded[_source(model.data)[0], _size(model.data)], pixels = pixels, 0
            # weights, gradients and two moments; the layers' results are kept for the way back
            disk, memory = disk + 4 * weights, max(memory, pixels + 16 * weights + 8 * made * model.training.batch)
        disk, memory = disk + sum(decoded.values()), places * (memory + _LIBRARIES)
        return f"Disk: about {disk / 1e9:.1f} GB. Memory: about {memory / 1e9:.1f} GB for {places} processes."


def of(project: Project, notebook: str, *, given: Mapping[str, Any] | None = None, preset: str | None = None) -> Plan:
    """The plan of one notebook with these parameters; nothing is trained, downloaded or written.

    Raises as `execution.run` does: a `BiaslibError`, also what the cells say of the parameters, or a `PageError`.
    """
    source = execution.read(project, notebook)
    defaults = params.declared(source, name=notebook)
    changed = execution.changes(project, notebook, defaults, parameters=given, preset=preset)
    names: dict[str, Any] = {"__name__": "__main__", **defaults, **changed, "PLAN": []}
    try:
        exec(compile(_planning(source.cells), f"<the plan of {notebook}>", "exec"), names)
    except Exception as error:  # whatever a page's cell raises is a finding about the page
        kind = BiaslibError if isinstance(error, BiaslibError) else execution.PageError
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
    words = function.kind, repr(key)[: store.CONFIG_LENGTH]
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
    if recipe.rows is not None and kept is None and not isinstance(recipe.data, Loaded):
        return len(recipe.rows.chosen(recipe.data.table()))
    split = None
    if isinstance(recipe.data, Loaded):
        splits = _PHOTOGRAPHS.get(_data_set(recipe.data))
        split = splits[recipe.data.split] if splits else len(recipe.data.table())
    return min(filter(None, (kept, getattr(recipe.data, "images", None), split)))


def _size(data: Any) -> int:
    return getattr(data, "size", 28)


def _network(recipe: Recipe) -> tuple[int, int, int]:
    config = recipe.training
    return rates.of_network(config.architecture, config.hidden, config.outputs, _size(recipe.data))


def _seconds(function: Stored, key: Any) -> float:
    """Of one process, for one model, or for one measurement without its models."""
    if isinstance(key, GeneratorSetup):
        shown = key.gan.images + key.encoder.images  # an encoder's image takes about as long
        return shown / rates.of_growing(key) + key.images / rates.of_drawing(key.data)
    if (model := next((model for model in _models(key) if isinstance(model, Recipe)), None)) is None:
        return 0.0  # not known
    config, size, drawn = model.training, _size(model.data), rates.of_drawing(model.data)
    asked = rates.of_asking(config.architecture, config.hidden, size)
    if model is key:
        chosen_by = getattr(model.validation, "images", None) or 0
        seconds = _EACH_MODEL + (getattr(model.data, "images", 0) or 0) / drawn + chosen_by * config.epochs / asked
        return seconds + _images(model) * config.epochs / rates.of_training(config, size)
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
    if isinstance(data, Drawn):
        folders = {folder.split("/")[0] for folder in recipes._PHOTOS[data.world][1]} if data.photos else set()
        used = [name for name, each in registry.read().items() if folders & {f.path.split("/")[0] for f in each.files}]
        return f"{'photographs for' if used else 'generated'} {data.world}", used
    source = _data_set(data) if isinstance(data, Loaded) else getattr(data, "source", "its own data")
    return f"images of {source}", [source] if source in registry.read() else []


def _data_set(data: Loaded) -> str:
    """As the registry calls it: "celeba" of its cropped faces, too."""
    return data.name.partition("-")[0]
