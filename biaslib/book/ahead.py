"""Runs a notebook without its work, to learn what a real run would ask of the store and of the data.

Whatever takes long is left out: what the store lacks is stood in for by an object that takes any question, pictures
are blank, networks answer 0, and nothing is trained, downloaded or written. A line that cannot go on with that is
passed over.
"""

import ast
import contextlib
import inspect
import io
import linecache
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final
from unittest import mock

import numpy as np

import biaslib
from biaslib import attribution, audit, datasets, metrics, recipes, statistics, store, training
from biaslib.book import execution
from biaslib.book import parameters as params
from biaslib.book.plan import FACES, Plan
from biaslib.book.project import Project
from biaslib.chapters import attribute_models, face_generators, page
from biaslib.chapters.face_generators import GeneratorSetup
from biaslib.datasets import pictures, registry
from biaslib.errors import BiaslibError
from biaslib.gan import counterfactuals, encoder
from biaslib.recipes import Recipe
from biaslib.samples import Samples
from biaslib.store import Stored, fingerprint, parallel, results
from biaslib.worlds.base import DrawnWorld

_PATIENCE: Final = 20.0  # seconds for one cell of a notebook


class _Absent:
    """What stands for a result that is not there: it takes any question, and is empty and false where it must be."""

    def __init__(self, *, recipe: Recipe | None = None, length: int = 0) -> None:
        self.recipe, self.length = recipe, length

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # numpy and others ask what it is by these
            raise AttributeError(name)
        return _Absent(length=self.length)

    def __call__(self, *_: Any, **__: Any) -> Any:
        return _Absent()

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __bool__(self) -> bool:
        return False

    def __float__(self) -> float:
        return float("nan")

    def __index__(self) -> int:
        return 0

    def __format__(self, spec: str) -> str:
        return ""

    def __exit__(self, *_: Any) -> None:
        return None

    __getitem__ = __enter__ = __call__
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __call__
    __floordiv__ = __mod__ = __pow__ = __matmul__ = __rmatmul__ = __neg__ = __abs__ = __round__ = __call__
    __and__ = __rand__ = __or__ = __ror__ = __invert__ = __call__

    def __lt__(self, other: object) -> bool:
        return False

    __gt__ = __le__ = __ge__ = __lt__


class _TooLong(BaseException):
    """A cell takes longer than a look ahead may."""


class _Unwritten(Exception):
    """Something was about to be written."""


def look_ahead(
    project: Project, notebook: str, *, given: Mapping[str, Any] | None = None, preset: str | None = None
) -> Plan:
    """The plan of one notebook with these parameters; nothing is trained, drawn, downloaded or written.

    Raises:
        BiaslibError: as `execution.run` does for names and values; and what the page itself says of its parameters.
    """
    source = execution.read(project, notebook)
    defaults = params.declared(source, name=notebook)
    changed = execution.changes(project, notebook, defaults, parameters=given, preset=preset)
    plan = Plan(notebook, preset or params.QUICK)
    cells = [cell for cell in source.cells if cell.cell_type == "code"]
    # its name is that of a module, so that dataclasses can be made
    names: dict[str, Any] = {"__name__": "__main__", "display": _Absent()}
    here, output = os.getcwd(), io.StringIO()
    with _without_work(plan, data_at_hand=bool(changed)):
        os.chdir(project.notebooks)
        try:
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
                for number, cell in enumerate(cells, start=1):
                    _run(cell.source, names, plan, file=f"<{notebook}, cell {number}>")
                    if "parameters" in cell.metadata.get("tags", ()):
                        names |= changed
        finally:
            os.chdir(here)
    return plan


class _Guarded(ast.NodeTransformer):
    """Makes a cell go on after a statement that stops, also inside its functions: what that names is then absent."""

    def visit(self, node: ast.AST) -> Any:
        """The node, or a `try` around it."""
        node = self.generic_visit(node)
        unguarded = (ast.FunctionDef, ast.ClassDef, ast.Raise, ast.Pass, ast.Break, ast.Continue, ast.Import)
        if not isinstance(node, ast.stmt) or isinstance(node, unguarded):
            return node
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
        simple = isinstance(node, ast.Assign | ast.AnnAssign)
        lines = ["_passed_over(_error)", *(f"{name} = _absent()" for name in sorted(names) if simple)]
        lines += ["return _absent()"] if isinstance(node, ast.Return) else []
        text = "try:\n    pass\nexcept Exception as _error:\n" + "".join(f"    {line}\n" for line in lines)
        guard = ast.parse(text).body[0]
        for part in ast.walk(guard):
            ast.copy_location(part, node)
        assert isinstance(guard, ast.Try)
        guard.body = [node]
        return guard


def _run(source: str, names: dict[str, Any], plan: Plan, *, file: str) -> None:
    """One cell, in which every statement may stop."""

    def passed_over(error: Exception) -> None:
        if isinstance(error, BiaslibError) and not (plan.works or plan.data or plan.passed_over):
            raise error  # about the parameters
        plan.passed_over.append(f"{file}: {type(error).__name__}: {error}"[:300])

    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)  # the store reads functions
    names |= {"_passed_over": passed_over, "_absent": _Absent}
    try:
        with _patience():
            exec(compile(_Guarded().visit(ast.parse(source)), file, "exec"), names)
    except BiaslibError as error:
        raise BiaslibError(f"{plan.notebook}: {error}") from error
    except (Exception, _TooLong) as error:
        plan.passed_over.append(f"{file}: {type(error).__name__}: {error}"[:300])


@contextlib.contextmanager
def _patience() -> Iterator[None]:
    """Stops what takes longer, where this thread can be stopped."""

    def stop(*_: Any) -> None:
        raise _TooLong(f"longer than {_PATIENCE:g} s")

    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, _PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _without_work(plan: Plan, *, data_at_hand: bool) -> Iterator[None]:
    """Inside, whatever takes long is noted in the plan, or does nothing; data that are missing may be taken as here."""
    once, load, take, missing = pictures.once, datasets.load, Samples.take, registry.missing
    require, restored, parts = registry.Dataset.require, face_generators._restored, fingerprint._parts

    def asked(function: Stored, keys: Sequence[Any]) -> list[Any]:
        if any(isinstance(part, _Absent) for key in keys for part in (key if isinstance(key, tuple) else (key,))):
            return [_Absent() for _ in keys]  # what it is asked of is not known before
        return [_served(function, key, here) for key, here in zip(keys, plan.note(function, keys), strict=True)]

    def unwritten(*_: Any, **__: Any) -> Any:
        raise _Unwritten("a look ahead writes nothing")

    def noted(dataset: registry.Dataset, path: Any) -> Any:
        plan.data.add(dataset.name)
        return require(dataset, path)

    def lacking(*paths: str) -> list[str]:
        owners = {file.path.split("/")[0]: name for name, each in registry.read().items() for file in each.files}
        absent = missing(*paths)
        plan.data.update(owners[path.split("/")[0]] for path in absent if path.split("/")[0] in owners)
        return [] if data_at_hand else absent

    def loaded(*arguments: Any, **options: Any) -> Any:
        try:
            return load(*arguments, **options)
        except BiaslibError:
            if not data_at_hand:
                raise
        return _Absent(length=FACES.get(arguments[0], {}).get(arguments[1], 0))

    def decoded(*arguments: Any, shape: tuple[int, ...], dtype: type = np.bool_, **options: Any) -> np.ndarray:
        try:
            return once(*arguments, shape=shape, dtype=dtype, **options)
        except _Unwritten:
            return _blank(shape, dtype)

    def taken(samples: Samples, index: Any) -> Samples:
        if samples.images.size and any(samples.images.strides):
            return take(samples, index)
        labels = samples.labels.iloc[np.arange(len(samples))[index]].reset_index(drop=True)
        arrays = {name: _blank((len(labels), *mask.shape[1:]), np.bool_) for name, mask in samples.masks.items()}
        return Samples(_blank((len(labels), *samples.images.shape[1:]), np.uint8), labels, arrays)

    def predicted(model: Any, images: Any, **_: Any) -> Any:
        if isinstance(model, _Absent) and model.recipe is not None:
            plan.asked.append((model.recipe, len(images), 1.0))
            return np.zeros((len(images), model.recipe.training.outputs), np.float32)
        return _Absent()

    def explained(passes: float) -> Callable[..., Any]:
        def method(model: Any, images: Any, *_: Any, steps: int = 1, **__: Any) -> Any:
            predicted(model, images)
            if plan.asked:
                plan.asked[-1] = (*plan.asked[-1][:2], passes * steps)
            return _Absent()

        return method

    def generator(setup: GeneratorSetup, state: Any) -> Any:
        return _Absent() if isinstance(state, _Absent) else restored(setup, state)

    def hashed(value: Any) -> Iterator[bytes]:
        """A blank array is not read, and equal to no real one."""
        blank = isinstance(value, np.ndarray) and value.size and not any(value.strides)
        return iter([b"blank"]) if blank or isinstance(value, _Absent) else parts(value)

    replaced: list[tuple[Any, str, Any]] = [
        (Stored, "many", asked),
        (Stored, "__call__", lambda function, *keys: asked(function, [keys if len(keys) > 1 else keys[0]])[0]),
        (Stored, "compute", lambda *_: _Absent()),
        (store, "get_or_compute", lambda *_, **__: _Absent()),
        (store, "sealed", unwritten),
        (parallel, "workers", unwritten),
        (pictures, "once", decoded),
        (pictures, "_is_still_whole", lambda *_: True),  # reads all of it
        (datasets, "load", loaded),
        (registry, "missing", lacking),
        (registry.Dataset, "require", noted),
        (fingerprint, "_parts", hashed),
        (Samples, "take", taken),
        (DrawnWorld, "render", _blank_render),
        (recipes, "_model", lambda recipe, state: _Absent(recipe=recipe)),
        (face_generators, "_trained", face_generators.train),
        (face_generators, "_restored", generator),
        (training, "predict", predicted),
        (attribution, "grad_cam", explained(1.3)),
        (attribution, "integrated_gradients", explained(3.0)),
        (attribution, "completeness_gap", explained(2.0)),
        (biaslib, "figures", _Absent()),
        (page, "figures", _Absent()),
    ]
    for room in (metrics, statistics):  # what they say of zeros takes time and tells nothing
        replaced += [(room, name, _Absent()) for name in room.__all__ if inspect.isfunction(getattr(room, name))]
    replaced += [(attribute_models, "where_drawn", _Absent())]
    replaced += [(audit, name, _Absent()) for name in ("run", "pieces")]
    replaced += [(counterfactuals, name, _Absent()) for name in ("draw", "traversal", "scores_along", "leakage")]
    replaced += [(encoder, "encoded", _Absent())]
    _forget()
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings(action="ignore"))
        stack.enter_context(mock.patch.dict(os.environ, execution.environment()))
        for owner, name, replacement in replaced:
            stack.enter_context(mock.patch.object(owner, name, replacement))
        stack.callback(_forget)  # what was remembered is blank
        yield


def _forget() -> None:
    """Empties what modules remember in memory; the workers stay."""
    for name, module in list(sys.modules.items()):
        if name.startswith("biaslib.") and not name.startswith(("biaslib.store", "biaslib.book")):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear") and getattr(value, "__module__", "") == name:
                    value.cache_clear()


def _served(function: Stored, key: Any, here: bool) -> Any:
    if here and function is not recipes.train:  # no network is asked
        with contextlib.suppress(OSError, ValueError, KeyError):  # damaged: it is there, but not whole
            return results._read(function.stored_at(key))
    return _Absent()


def _blank(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return np.broadcast_to(np.zeros((), dtype), shape)


def _blank_render(world: Any, factors: Any, *, size: int = 64, regions: Sequence[str] | None = None) -> Samples:
    """As a world's `render`, with nothing on the pictures."""
    shape = (len(factors), size, size)
    types = {name: np.int8 if name in world._classes else np.bool_ for name in world.attributes}
    labels = factors[list(world.attributes)].astype(types).reset_index(drop=True)
    masks = {name: _blank(shape, np.bool_) for name in (world.regions if regions is None else regions)}
    return Samples(_blank((*shape, 3), np.uint8), labels, masks)
