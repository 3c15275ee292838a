"""Hashes of configurations and of code, from which the store makes its keys."""

import ast
import contextlib
import dataclasses
import functools
import hashlib
import inspect
import mmap
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

_PACKAGE = "biaslib"
_PIECE = 2**26  # bytes
_SEAL = 32  # bytes of SHA-256 behind a decoded map, as `files.sealed` writes them
# these keep and name results but have no part in making them; a recipe in a key says by itself what made its model
_KEEPERS = ("errors", "recipes", "store", "store.files", "store.fingerprint", "store.functions", "store.results")
_PLUMBING = tuple(f"{_PACKAGE}.{name}" for name in _KEEPERS)
# fingerprints of objects, inside `once`
_known: ContextVar[dict[Any, str] | None] = ContextVar("known", default=None)


@contextlib.contextmanager
def once() -> Iterator[None]:
    """Inside, in this thread, equal objects are asked for their fingerprint once: many keys share their data."""
    outer = _known.get()
    before = _known.set({} if outer is None else outer)
    try:
        yield
    finally:
        _known.reset(before)


def of_value(value: Any) -> str:
    """Hash of a configuration: equal values, equal hash, in every process.

    Accepts numbers, strings, None, sequences, mappings (in any order), dataclasses, arrays, tables and paths; anything
    else is a `TypeError`, because a hash by identity would never be found again. A dataclass with a method
    `fingerprint` adds what this returns: of the code and the files it stands for. Of a map that the store decoded the
    pixels are not read: its checksum stands for them.
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in _parts(value):
        digest.update(part)
    return digest.hexdigest()


def of_files(path: Path) -> str:
    """Hash of the names and sizes of a file, or of all in a folder; "" where there is none."""
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path] * path.is_file()
    return of_value([(file.name, file.stat().st_size) for file in files]) if files else ""


def of_code(function: Callable[..., Any]) -> str:
    """Hash of the source that a call of `function` can run inside the package.

    A function of the package counts with its module and all package modules this one imports, directly or not. A
    function from elsewhere (a notebook's cell) counts with its own source and with the functions and modules it names.
    The modules of the store itself do not count, nor do comments, docstrings and layout. Values it captures do not
    either: they belong to the configuration.
    A file is read once in a process, so that an edit during a long run does not put old results under a new key.
    """
    found = set(_reachable(function, seen=set()))
    modules = set().union(*(_closure(part) for part in found if isinstance(part, Path)))
    own = sorted(part for part in found if isinstance(part, str))
    return of_value([sorted(_read(path)[1] for path in modules), own])


def of_modules(names: Iterable[str], *, without: Iterable[str] = ()) -> str:
    """Hash of these modules and of all they import, directly or not, but for `without` and what only it imports."""
    left_out = {_module_path(name) for name in without}
    paths = set().union(*(_closure(_module_path(name), left_out) for name in names))
    return of_value(sorted(_read(path)[1] for path in paths))


def of_module(name: str) -> str:
    """Hash of the source of one module, without those that it imports."""
    return _read(_module_path(name))[1]


def of_package() -> str:
    """Hash of every module of the package, and of the style sheets, scripts and lists of words beside them."""
    folder = Path(__file__).parents[1]
    modules = [_read(path)[1] for path in folder.rglob("*.py")]
    beside = [path for kind in ("*.[cj]s*", "*.mplstyle", "*.toml") for path in folder.rglob(kind)]
    return of_value([sorted(modules), [path.read_text() for path in sorted(beside)]])


def _parts(value: Any) -> Iterator[bytes]:
    if value is None or isinstance(value, bool | int | float | str | np.bool_ | np.integer | np.floating):
        plain = value.item() if isinstance(value, np.generic) else value
        yield f"{type(plain).__name__}:{plain!r};".encode()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield f"{type(value).__qualname__}".encode()
        yield from _parts({f.name: getattr(value, f.name) for f in dataclasses.fields(value)})
        if hasattr(value, "fingerprint"):
            yield _fingerprint(value).encode()
    elif isinstance(value, Mapping):
        yield b"{"
        for key in sorted(value, key=str):
            yield from _parts(key)
            yield from _parts(value[key])
        yield b"}"
    elif isinstance(value, np.memmap) and (seal := _seal(value)):
        yield seal.encode()
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        yield f"array:{value.dtype}:{value.shape};".encode()
        # in pieces: a memory map of a whole data set would fill the memory
        rows = max(1, _PIECE * len(value) // max(1, value.nbytes)) if value.ndim else 1
        pieces = (value[start : start + rows] for start in range(0, len(value), rows)) if value.ndim else (value,)
        for piece in pieces:
            yield np.ascontiguousarray(piece).tobytes()
    elif isinstance(value, pd.DataFrame):
        yield f"table:{list(value.columns)}:{[str(t) for t in value.dtypes]};".encode()
        yield pd.util.hash_pandas_object(value, index=True).to_numpy().tobytes()
    elif isinstance(value, Path):
        yield f"path:{value.as_posix()};".encode()
    elif isinstance(value, list | tuple):
        yield b"["
        for item in value:
            yield from _parts(item)
        yield b"]"
    else:
        raise TypeError(f"cannot hash a {type(value).__name__} in a configuration; describe it by plain values instead")


def _seal(value: np.memmap) -> str:
    """The digest at the end of a decoded map, which stands for its pixels, and the part that this is; else ""."""
    whole: Any = value
    while isinstance(whole.base, np.memmap):
        whole = whole.base
    if value.mode != "r" or not isinstance(whole.base, mmap.mmap) or Path(whole.filename).parent.name != "decoded":
        return ""
    with Path(whole.filename).open("rb") as opened:
        if opened.seek(-_SEAL, 2) != whole.offset + whole.nbytes:
            return ""
        start = value.ctypes.data - whole.ctypes.data
        return f"map:{opened.read().hex()}:{value.dtype}:{start}:{value.shape}:{value.strides};"


def _fingerprint(value: Any) -> str:
    known = _known.get()
    if known is None:
        return str(value.fingerprint())
    if value not in known:
        known[value] = value.fingerprint()
    return known[value]


def _reachable(thing: Any, seen: set[int]) -> Iterator[Path | str]:
    while isinstance(thing, functools.partial):
        thing = thing.func
    thing = inspect.unwrap(thing) if callable(thing) else thing
    thing = getattr(thing, "__func__", thing)
    if id(thing) in seen:
        return
    seen.add(id(thing))
    name = thing.__name__ if isinstance(thing, types.ModuleType) else getattr(thing, "__module__", None) or ""
    if name.split(".")[0] == _PACKAGE:
        yield _module_path(name)
    elif isinstance(thing, types.FunctionType):
        yield _function_source(thing)
        for value in _named(thing):
            yield from _reachable(value, seen)


def _named(function: types.FunctionType) -> list[Any]:
    """What the function, and the functions inside it, name among its globals and captured values."""
    scope = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # a cell that is not filled yet
            scope[name] = cell.cell_contents
    names = {name for code in _codes(function.__code__) for name in (*code.co_names, *code.co_freevars)}
    return [scope[name] for name in sorted(names & scope.keys())]


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _function_source(function: types.FunctionType) -> str:
    try:
        return ast.dump(ast.parse(inspect.cleandoc(inspect.getsource(function))))
    except (OSError, SyntaxError):  # typed at a prompt, or a lambda inside a larger expression
        return ";".join(
            f"{code.co_code.hex()}{[c for c in code.co_consts if not isinstance(c, types.CodeType)]}{code.co_names}"
            for code in _codes(function.__code__)
        )


def _module_path(name: str) -> Path:
    if found := _source(name):
        return found
    raise ModuleNotFoundError(f"no source for module {name}")


def _source(name: str) -> Path | None:
    """The file of a module of the package; asking Python for it would import all that is above it."""
    place = Path(__file__).parents[1].joinpath(*name.split(".")[1:])
    return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()), None)


def _closure(path: Path, left_out: Iterable[Path] = ()) -> set[Path]:
    found = set(left_out)
    waiting = {path}
    while waiting:
        path = waiting.pop()
        found.add(path)
        waiting |= set(_read(path)[0]) - found
    return found - set(left_out)


@functools.cache
def _read(path: Path) -> tuple[tuple[Path, ...], str]:
    """The package's modules that a module imports, and the hash of its code and of the TOML file beside it."""
    numbers = path.with_suffix(".toml")
    beside = numbers.read_text(encoding="utf-8") if numbers.is_file() else ""
    return _parsed(path.read_text(encoding="utf-8"), beside)


def parse_all() -> None:
    """Parses the package's modules, so that a process forked from this one does so for those that changed since."""
    of_package()
    _read.cache_clear()


@functools.cache
def _parsed(text: str, beside: str) -> tuple[tuple[Path, ...], str]:
    tree = ast.parse(text)
    imported = _imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            documented = ast.get_docstring(node, clean=False) is not None
            node.body = node.body[1:] if documented else node.body
        for decorator in getattr(node, "decorator_list", ()):  # what a plan estimates by changes no result
            if isinstance(decorator, ast.Call):
                decorator.keywords = [option for option in decorator.keywords if option.arg != "passes"]
    return imported, hashlib.blake2b((ast.dump(tree) + beside).encode(), digest_size=16).hexdigest()


def _imported(tree: ast.Module) -> tuple[Path, ...]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            members = {f"{node.module}.{alias.name}" for alias in node.names}
            modules = {name for name in members if name.split(".")[0] == _PACKAGE and _source(name)}
            # a folder's front door counts only for those who take something from it, not from the rooms behind
            names |= modules if modules == members else modules | {node.module}
    inside = sorted(name for name in names if name.split(".")[0] == _PACKAGE and name not in _PLUMBING)
    return tuple(file for file in map(_source, inside) if file)
