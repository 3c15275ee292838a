"""What a run of a notebook would train and measure, from which data and how long, in words: said before it starts.

Times are images times passes over this machine's rates (`book.rates`), side by side in as many processes as work here.
"""

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from biaslib import datasets, models, recipes
from biaslib.book import rates
from biaslib.book.recorded import duration
from biaslib.chapters import face_generators
from biaslib.chapters.face_generators import GeneratorSetup
from biaslib.datasets import registry
from biaslib.recipes import CelebA, Drawn, Recipe, Setup
from biaslib.store import Stored, fingerprint, parallel, results

# seconds: a page's figures and statistics; the start and the checkpoints of each model
_FIGURES, _EACH_MODEL = 5.0, 0.3
_LIBRARIES: Final = 0.7e9  # bytes that a process takes before it has done anything
# photographs in each official split
FACES: Final = {
    "celeba": {"train": 162_770, "val": 19_867, "test": 19_962},
    "celebamask": {"train": 21_000, "val": 4_500, "test": 4_500},
}
_TRAININGS: Final = (recipes.train, face_generators.train)


@dataclass
class _Work:
    """What is asked of the store by one key."""

    function: Stored
    key: Any
    models: list[Any]  # recipes and generators inside the key
    here: bool  # in the store already
    call: int  # results of one call are made side by side

    def seconds(self) -> float | None:
        """What it takes one process, without its models; None where nothing says what it costs."""
        if self.function in _TRAININGS:
            return _training_seconds(self.key)
        if self.function.passes is None:
            return None
        images, passes, *of_channels = self.function.passes(*(self.key if isinstance(self.key, tuple) else (self.key,)))
        drawn = next((rates.of_generating(g.gan.latent, g.gan.widths) for g in _generators(self.key)), math.inf)
        asked = next((model for model in self.models if isinstance(model, Recipe)), None)
        if asked is None:
            return images / drawn
        if math.isinf(drawn):
            drawn = _drawn_per_second(asked.data)
        *_, channels = _network(asked)
        passes += sum(of_channels) * channels
        return images / drawn + images * passes / _asked_per_second(asked)


@dataclass
class Plan:
    """What a run of a notebook would do; `text` says it."""

    notebook: str
    preset: str
    works: dict[tuple[str, Any], _Work] = field(default_factory=dict)  # by kind and key
    asked: list[tuple[Recipe, int, float]] = field(default_factory=list)  # by the page itself: images, passes of each
    data: set[str] = field(default_factory=set)  # names of the registry
    passed_over: list[str] = field(default_factory=list)  # lines that could not be looked at, and why
    calls: int = 0

    def models(self) -> dict[Any, bool]:
        """Every recipe, or set-up of a generator, that the page needs: whether the store has its weights."""
        trained = {work.key: work.here for work in self.works.values() if work.function in _TRAININGS}
        inside = [model for work in self.works.values() for model in work.models]
        return {model: trained[model] if model in trained else _is_stored(_training(model), model) for model in inside}

    def note(self, function: Stored, keys: Sequence[Any]) -> list[bool]:
        """Notes what is asked of the store; whether it has it."""
        self.calls += 1
        with fingerprint.once():
            for key in keys:
                if (function.kind, key) not in self.works:
                    work = _Work(
                        function, key, list(dict.fromkeys(_models(key))), _is_stored(function, key), self.calls
                    )
                    self.works[function.kind, key] = work
        return [self.works[function.kind, key].here for key in keys]

    def seconds(self) -> dict[str, float | None]:
        """How long each kind of work takes, on all processes; None where nothing says so."""
        places = len(parallel.places())
        calls: dict[tuple[str, int], list[float | None]] = {}
        for work in self.works.values():
            if not work.here:
                calls.setdefault((work.function.kind, work.call), []).append(work.seconds())
        times: dict[str, float | None] = {}
        for (kind, _), each in calls.items():
            known = [seconds for seconds in each if seconds is not None]
            times[kind] = (times.get(kind) or 0.0) + _side_by_side(known, places) if known else times.get(kind)
        if self.asked:
            asked = (images * passes / _asked_per_second(recipe) for recipe, images, passes in self.asked)
            times["the page's own questions to networks"] = sum(asked)
        return times

    def text(self) -> str:
        """The plan in words."""
        # the kernel starts as a worker does, before the workers
        start, needed = 2 * rates.of_start() + _FIGURES, self.models()
        times = self.seconds()
        missing = [model for model, here in needed.items() if not here]
        lines = [f"Plan of {self.notebook}, preset {self.preset}; nothing was run.", "", *_of_models(needed)]
        lines += ["", "Measured and kept in the store:", *(self._of_kinds() or ["  nothing"])]
        lines += ["", "Data:", *self._of_data()]
        lines += ["", *_of_space(missing)]
        where = f"{len(parallel.places())} processes on {models.device().type}"
        lines += ["", f"Time on this machine ({where}), images x passes / rate / processes:"]
        lines += [f"  {'training' if kind == 'model' else kind}: {_time(seconds)}" for kind, seconds in times.items()]
        total = start + sum(filter(None, times.values()))
        lines += [f"  start and figures: {_time(start)}", f"In all about {_time(total)}."]
        return "\n".join(lines)

    def _of_kinds(self) -> list[str]:
        works = [work for work in self.works.values() if work.function not in _TRAININGS]
        every = Counter(work.function.kind for work in works)
        here = Counter(work.function.kind for work in works if work.here)
        return [f"  {kind}: {count:,}, {here[kind]:,} of them in the store" for kind, count in every.items()]

    def _of_data(self) -> list[str]:
        needed = self.data | {name for model in self.models() for name in _data_sets(model)}
        files = {recipes._weights_file(model.training) for model in self.models() if isinstance(model, Recipe)}
        lines = [f"  the weights {file}: not here" for file in files if file.name != "none" and not file.exists()]
        if any(isinstance(model, Recipe) and model.training.weights == "imagenet" for model in self.models()):
            lines.append("  ImageNet's weights: from timm's hub, or its cache")
        here = datasets.listing().set_index("name")["here"]
        for name in sorted(needed):
            dataset = registry.get(name)
            state = "here" if here[name] == "yes" else "in part here" if here[name] == "part" else "not here"
            get = "" if state == "here" else f"; {dataset.how_to_get()} (official source: {dataset.source})"
            lines.append(f"  {name}: {state}{get}")
        return lines or ["  none but what is generated or comes with the book"]


def _models(value: Any) -> Iterator[Any]:
    """The recipes, and set-ups of generators, inside a key."""
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


def _generators(value: Any) -> list[GeneratorSetup]:
    """Set-ups of the generators that a key draws with, also of those that it names."""
    parts = value if isinstance(value, tuple) else (value,)
    named = (getattr(part, "generator", None) for part in parts)
    setups = (face_generators.SETUPS.get(each) if isinstance(each, str) else each for each in named)
    return [setup for setup in setups if isinstance(setup, GeneratorSetup)]


def _training(model: Any) -> Stored:
    return recipes.train if isinstance(model, Recipe) else face_generators.train


def _is_stored(function: Stored, key: Any) -> bool:
    """Whether the store has a result; not where its key cannot be made, as its data or its models are missing."""
    if not (results.root() / function.kind).is_dir():
        return False
    try:
        return (function.stored_at(key) / "record.json").is_file()
    except Exception:  # whatever a missing file, or a model that is missing, stops the key with
        return False


@functools.lru_cache(maxsize=1024)
def _images(recipe: Recipe) -> int:
    """How many rows a model is trained on; of CelebA as many as the official split has."""
    left = getattr(recipe.rows, "kept", None)
    if isinstance(recipe.data, CelebA):
        everyone = FACES["celeba"][recipe.data.split]
        return min(left or everyone, recipe.data.images or everyone)
    if recipe.rows is not None and left is None:
        return len(recipe.rows.chosen(recipe.data.table()))
    return int(left or getattr(recipe.data, "images", None) or 0)


def _size(data: Any) -> int:
    return getattr(data, "size", 28)


def _network(recipe: Recipe) -> tuple[int, int, int]:
    config = recipe.training
    return rates.of_network(config.architecture, config.hidden, config.outputs, _size(recipe.data))


def _asked_per_second(recipe: Recipe) -> float:
    return rates.of_asking(recipe.training.architecture, recipe.training.hidden, _size(recipe.data))


def _drawn_per_second(data: Any) -> float:
    photographs = isinstance(data, CelebA) or getattr(data, "photos", None)
    return math.inf if photographs else rates.of_drawing(data)


def _training_seconds(model: Any) -> float:
    if isinstance(model, GeneratorSetup):
        return rates.of_growing(model) + model.images / _drawn_per_second(model.data)
    images, config, size = _images(model), model.training, _size(model.data)
    chosen_by = getattr(model.validation, "images", None) or 0
    seconds = images * config.epochs / rates.of_training(config, size) + _EACH_MODEL
    seconds += chosen_by * config.epochs / _asked_per_second(model)
    return seconds + (getattr(model.data, "images", 0) or 0) / _drawn_per_second(model.data)


def _side_by_side(seconds: Sequence[float], places: int) -> float:
    """How long the work takes where each next piece goes to the first process that is free."""
    busy = [0.0] * places
    for each in seconds:
        busy[busy.index(min(busy))] += each
    return max(busy)


def _of_models(models: Mapping[Any, bool]) -> list[str]:
    if not models:
        return ["Trained: nothing."]
    every = Counter(map(_described, models))
    here = Counter(_described(model) for model, there in models.items() if there)
    lines = [
        f"Trained: {sum(not there for there in models.values()):,} models, {sum(here.values()):,} are in the store."
    ]
    return lines + [f"  {count:,} x {words}; {here[words]:,} in the store" for words, count in every.items()]


def _described(model: Any) -> str:
    if isinstance(model, GeneratorSetup):
        return (
            f"generator of {model.gan.size} px and its encoder, {_of_images(model.data, model.images)}, "
            f"{model.gan.images:,} and {model.encoder.images:,} shown"
        )
    config = model.training
    start = f" from {config.weights}" if config.weights else ""
    network = f"{config.architecture}{start}, {_size(model.data)} px, {_of_images(model.data, _images(model))}"
    return f"{network} x {config.epochs} epochs"


def _of_images(data: Any, images: int) -> str:
    if isinstance(data, CelebA):
        return f"{min(images, data.images or images):,} faces of CelebA"
    if isinstance(data, Drawn):
        return f"{images:,} {'photographs for' if data.photos else 'generated'} {data.world}"
    return f"{images:,} images of {getattr(data, 'source', 'its own data')}"


def _data_sets(model: Any) -> list[str]:
    data = model.data
    if isinstance(data, CelebA):
        return ["celeba"]
    if isinstance(data, Drawn):
        return list(recipes._PHOTOS[data.world][1]) if data.photos else []
    return ["mnist"] if getattr(data, "source", "") == "mnist" else []


def _of_space(models: Sequence[Any]) -> list[str]:
    """Disk for weights and decoded pictures, memory of the largest training in every process."""
    classifiers = [model for model in models if isinstance(model, Recipe)]
    if not classifiers:
        return ["Disk and memory: little."]
    disk, memory, maps = 0.0, 0.0, set()
    for model in classifiers:
        weights, made, _ = _network(model)
        disk += 4 * weights
        pixels = _images(model) * _size(model.data) ** 2 * 3
        if math.isinf(_drawn_per_second(model.data)):
            maps.add((type(model.data).__name__, _size(model.data), pixels))
            pixels = 0
        # weights, gradients and two moments; the layers' results are kept for the way back
        memory = max(memory, pixels + 16 * weights + 8 * made * model.training.batch)
    decoded = sum(pixels for *_, pixels in maps)
    places = len(parallel.places())
    memory = places * (memory + _LIBRARIES)
    return [
        f"Disk: about {(disk + decoded) / 1e9:.1f} GB, of it {decoded / 1e9:.1f} GB decoded pictures.",
        f"Memory: about {memory / 1e9:.1f} GB for {places} processes, their networks' included.",
    ]


def _time(seconds: float | None) -> str:
    return "statistics, seconds" if seconds is None else duration(seconds)
