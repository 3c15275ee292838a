"""Lets the API page read docstrings as people write them: `$...$` is a formula, a bar is a bar."""

import re
from typing import Any

# code, then formulas; `$BIASLIB_DATA` is neither
_SPECIAL = re.compile(r"(``.+?``|`[^`]+`|\$\$.+?\$\$|\$(?!BIASLIB_)[^$]+\$)", re.DOTALL)


def setup(app: Any) -> dict[str, bool]:
    """Registers with Sphinx, which finds this function by its name."""
    app.connect("autodoc-process-docstring", _process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def readable(text: str) -> str:
    """The docstring in the markup that Sphinx reads."""
    return "".join(_part(part) for part in _SPECIAL.split(text))


def _part(part: str) -> str:
    if part.startswith("`"):
        return part
    if _SPECIAL.fullmatch(part):
        return f":math:`{' '.join(part.strip('$').split())}`"
    return part.replace("|", r"\|")


def _process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = readable("\n".join(lines)).split("\n")
