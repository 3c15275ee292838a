"""Generated worlds: data whose bias is a dial and whose counterfactuals are exact."""

import functools
from pathlib import Path
from types import ModuleType

from biaslib.errors import check_known, refused
from biaslib.store.files import module_of
from biaslib.worlds.base import World
from biaslib.worlds.birds import Birds
from biaslib.worlds.digits import Digits
from biaslib.worlds.faces import Faces
from biaslib.worlds.fruits import Fruits
from biaslib.worlds.pets import Pets
from biaslib.worlds.scenes import Scenes

__all__ = ["World", "get", "is_file", "names", "of_file"]

_WORLDS: dict[str, World] = {world.name: world for world in (Birds(), Digits(), Scenes(), Pets(), Fruits(), Faces())}


def names() -> tuple[str, ...]:
    """The worlds that `get` knows."""
    return tuple(_WORLDS)


def get(name: str) -> World:
    """The world of that name, or of a Python file (see `of_file`); any other is a `BiaslibError`."""
    if is_file(name):
        world: World = of_file(name).WORLD
        return world
    check_known("a world", name, _WORLDS)
    return _WORLDS[name]


def is_file(name: str) -> bool:
    """Whether a name is that of a file with a world."""
    return name.endswith(".py")


@functools.lru_cache(maxsize=8)
def of_file(name: str) -> ModuleType:
    """The module of a file, which is run: `WORLD` is a `World`, and `PLACE` says what it is on the dial.

    A `BiaslibError` is raised where it cannot be run, or lacks one of the two.
    """
    module = module_of(Path(name))
    if not isinstance(getattr(module, "WORLD", None), World) or not isinstance(getattr(module, "PLACE", None), dict):
        raise refused("file without a world", name=name)
    return module
