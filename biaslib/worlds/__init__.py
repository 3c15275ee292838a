"""Generated worlds: data whose bias is a dial and whose counterfactuals are exact."""

from biaslib.errors import check_known
from biaslib.worlds.base import World
from biaslib.worlds.birds import Birds
from biaslib.worlds.digits import Digits
from biaslib.worlds.faces import Faces
from biaslib.worlds.fruits import Fruits
from biaslib.worlds.pets import Pets
from biaslib.worlds.scenes import Scenes

__all__ = ["World", "get", "names"]

_WORLDS: dict[str, World] = {world.name: world for world in (Birds(), Digits(), Scenes(), Pets(), Fruits(), Faces())}


def names() -> tuple[str, ...]:
    """The worlds that `get` knows."""
    return tuple(_WORLDS)


def get(name: str) -> World:
    """The world of that name; any other is a `BiaslibError`."""
    check_known("a world", name, _WORLDS)
    return _WORLDS[name]
