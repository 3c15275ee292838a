"""Functions whose results are kept: called with a key, they look in the store before they compute."""

import contextlib
import functools
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from tqdm import tqdm

from biaslib.store import fingerprint, parallel, results

_Key = TypeVar("_Key")
_Result = TypeVar("_Result")
# of a function's arguments: how many images it makes or reads; how many forward passes it asks of networks for each;
# where there are such, how many more for each channel of their last map
_Passes = Callable[..., tuple[float, ...]]


class Stored(Generic[_Key, _Result]):
    """A function with its results in the store; made by `stored`. A key is its argument, or a tuple of its arguments.

    Its `kind` is what the results are, a folder of the store; `passes` says what a key's result costs (`book.plan`).
    """

    def __init__(
        self, function: Callable[..., _Result], kind: str, code: Sequence[ModuleType] | None, passes: _Passes
    ) -> None:
        functools.update_wrapper(self, function)
        self.kind, self.passes, self._function, self._code = kind, passes, function, code

    def __reduce__(self) -> str:
        return self._function.__qualname__  # a worker imports it by its name

    def compute(self, key: _Key) -> _Result:
        """The result, computed here and not stored; on one thread, so that the number of cores does not change it."""
        with fingerprint.once():
            return parallel.on_threads(1, self._function, *(key if isinstance(key, tuple) else (key,)))

    def __call__(self, *arguments: Any) -> _Result:
        """The result from the store; computed here where it lacks."""
        key: Any = arguments if len(arguments) > 1 else arguments[0]
        return results.get_or_compute(self.kind, key, functools.partial(self.compute, key), code=self._hash())

    def many(self, keys: Sequence[_Key]) -> list[_Result]:
        """The results of all keys, in their order; what the store lacks is computed side by side.

        Each result is stored when it is ready, so that a killed call goes on where it was. Called by a worker, it
        computes one after the other, there. `parallel.workers` says where the work goes.
        """
        code = self._hash()
        with fingerprint.once():
            names = {key: results.key_of(key, code) for key in keys}
        missing = [key for key, name in names.items() if not (results.root() / self.kind / name).exists()]
        # a worker, which comes here for what it needs first, starts no workers of its own
        if missing and multiprocessing.parent_process() is None:
            with parallel.workers() as (executor, at_once), ThreadPoolExecutor(at_once) as waiting, _bar() as bar:

                def submitted(key: _Key) -> Any:
                    # timed by the worker, so that its queue does not count
                    job = functools.partial(executor.submit, results.timed, self.compute, key)
                    return results.under_key(self.kind, names[key], key, lambda: job().result())

                list(tqdm(waiting.map(submitted, missing), total=len(missing), desc=f"computing {self.kind}", **bar))
        return [results.under_key(self.kind, names[key], key, functools.partial(self.compute, key)) for key in keys]

    def calls(self, keys: Sequence[_Key]) -> "Calls[_Key, _Result]":
        """What `many` would be asked, not yet asked."""
        return Calls(self, tuple(keys))

    def stored_at(self, key: _Key) -> Path:
        """Where the result of a key lies, or would."""
        return results.root() / self.kind / results.key_of(key, self._hash())

    def _hash(self) -> str:
        if self._code is None:
            return fingerprint.of_code(self._function)
        named = fingerprint.of_modules(module.__name__ for module in self._code)
        return fingerprint.of_value([fingerprint.of_module(self._function.__module__), named])


@dataclass(frozen=True)
class Calls(Generic[_Key, _Result]):
    """Calls of one function side by side, named before they are made, so that a plan of a run can count them."""

    function: Stored[_Key, _Result]
    keys: tuple[_Key, ...]

    def results(self) -> list[_Result]:
        """As `Stored.many`."""
        return self.function.many(self.keys)


@contextlib.contextmanager
def _bar() -> Iterator[dict[str, Any]]:
    """Where a progress bar goes: into the file $BIASLIB_BARS, by which a build of the book says what its pages do."""
    file = os.environ.get("BIASLIB_BARS")
    with open(file, "a", encoding="utf-8") if file else contextlib.nullcontext() as opened:
        yield {"file": opened, "disable": False, "bar_format": "{desc}: {n_fmt}/{total_fmt}"} if file else {}


def stored(
    kind: str, *, code: Sequence[ModuleType] | None = None, passes: _Passes = lambda *_: (0, 0)
) -> Callable[[Callable[..., _Result]], Stored[Any, _Result]]:
    """Keeps the results of a function: `@stored("maps")` above `def maps(recipe, images)`.

    A result is found again as long as the key, all that it depends on, is the same (`fingerprint.of_value`) and so is
    the code. The function must be one of a module, so that a worker can import it.

    Args:
        kind: what the results are, a folder of the store.
        code: modules whose source counts, with all that they import, beside the function's own module alone; None:
            that module with all that it imports. What a `Recipe` in the key needs, it adds by itself.
        passes: of the function's arguments, what a plan of a run estimates its time by (see `_Passes`). A backward pass
            counts as two; without it, none. It is no part of a result's key.
    """
    return lambda function: Stored(function, kind, code, passes)
