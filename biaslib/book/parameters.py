"""A notebook's parameters: what it declares, what a preset says, what a reader may set."""

import ast
import contextlib
import difflib
from collections.abc import Iterable, Mapping
from typing import Any

import nbformat
import yaml

from biaslib.book import Project
from biaslib.errors import BiaslibError, refused

QUICK = "quick"


class _EachKeyOnce(yaml.SafeLoader):
    """YAML itself takes the last of two values for one name, and nobody sees that the first is not used."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value]
        if twice := [name for name in names if names.count(name) > 1]:
            raise yaml.YAMLError(f"{twice[0]!r} stands there twice")
        return super().construct_mapping(node, deep)


def declared(notebook: nbformat.NotebookNode, *, name: str) -> dict[str, Any]:
    """The names and default values in the notebook's cell tagged `parameters`, in their order."""
    values: dict[str, Any] = {}
    for cell in notebook.cells:
        if "parameters" not in cell.metadata.get("tags", ()):
            continue
        for statement in ast.parse(cell.source).body:
            match statement:
                case (
                    ast.Assign(targets=[ast.Name(id=key)], value=value)
                    | ast.AnnAssign(target=ast.Name(id=key), value=ast.expr() as value)
                ):
                    try:
                        values[key] = ast.literal_eval(value)
                    except ValueError as error:
                        what = f"the default of {key} in the parameters cell of {name}"
                        raise BiaslibError(f"{what} must be a plain value, not `{ast.unparse(value)}`.") from error
                case ast.Expr(value=ast.Constant()):
                    pass
                case _:
                    raise refused("parameters that are no values", name=name, statement=ast.unparse(statement))
    return values


def checked(given: Mapping[str, Any], defaults: Mapping[str, Any], *, name: str) -> dict[str, Any]:
    """The given values, each of the type of its default; refuses other types, and names that are not declared.

    A whole number is accepted where the default is a float; anything is where the default is None. The items of a list
    are held against the default's first item, and a list is not empty where the default is not.
    """
    for key, value in given.items():
        _known(key, defaults, name=name)
        if not _fits(value, defaults[key]):
            wanted = f"{_type_name(defaults[key])} (its default is {defaults[key]!r})"
            raise BiaslibError(f"parameter {key} of {name} must be {wanted}, not {value!r}.")
    return {key: _as(value, defaults[key]) for key, value in given.items()}


def parsed(assignments: Iterable[str], defaults: Mapping[str, Any], *, name: str) -> dict[str, Any]:
    """The values of `name=value` arguments, read as YAML, or as text where the default is text."""
    given: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise BiaslibError(f"{assignment!r} is not a parameter: write it as name=value, such as -p seed=1.")
        _known(key, defaults, name=name)
        given[key] = text if isinstance(defaults[key], str) else _yaml_value(key, text, defaults[key])
    return checked(given, defaults, name=name)


def _preset_names(project: Project) -> list[str]:
    """The names that `--preset` knows; `quick` stands for the notebooks' own defaults."""
    return sorted({QUICK, *(file.stem for file in project.presets.glob("*.yml"))})


def from_preset(project: Project, preset: str | None) -> dict[str, dict[str, Any]]:
    """Notebook -> parameters, as the preset's file says; empty for None and for `quick`."""
    if preset is None or preset == QUICK:
        return {}
    file = project.presets / f"{preset}.yml"
    if not file.is_file():
        raise BiaslibError(f"there is no preset {preset!r}: choose {', '.join(_preset_names(project))}.")
    try:
        content = yaml.load(file.read_text(encoding="utf-8"), _EachKeyOnce) or {}
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise BiaslibError(f"the preset {file.name} cannot be read as YAML: {reason}.") from error
    parts = content.values() if isinstance(content, dict) else [None]
    if not all(isinstance(part, dict) and all(isinstance(key, str) for key in part) for part in parts):
        raise BiaslibError(f"the preset {file.name} must map notebooks to their parameters, each by its name.")
    return content


def of_preset(project: Project, preset: str | None, notebook: str) -> dict[str, Any]:
    """The parameters that a preset gives a notebook; empty for None and for `quick`."""
    entries = from_preset(project, preset)
    if preset is None or preset == QUICK or notebook in entries:
        return entries.get(notebook, {})
    known = [name for name in _preset_names(project) if name == QUICK or notebook in from_preset(project, name)]
    raise BiaslibError(f"the preset {preset!r} has no entry for {notebook}: choose {', '.join(known)}.")


def closest(word: str, known: Iterable[str]) -> str:
    """A sentence's end that names the closest known word, or nothing."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else "."


def _yaml_value(key: str, text: str, default: Any) -> Any:
    if isinstance(default, float):
        with contextlib.suppress(ValueError):
            return float(text)  # YAML takes 1e-3 for a word
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # also a day or a number that cannot be
        raise BiaslibError(f"cannot read the value {text!r} of {key}: write a number, a word or [a, list].") from error


def _known(key: str, defaults: Mapping[str, Any], *, name: str) -> None:
    if key not in defaults:
        known = f"it has {', '.join(defaults)}" if defaults else "it has none"
        raise BiaslibError(f"{name} has no parameter {key!r}: {known}{closest(key, defaults)}")


def _fits(value: Any, default: Any) -> bool:
    if default is None:
        return True
    if isinstance(default, list | tuple):
        whole = isinstance(value, list | tuple) and (bool(value) or not default)
        return whole and all(_fits(item, default[0]) for item in value if default)
    return type(value) is type(default) or (isinstance(default, float) and type(value) is int)


def _as(value: Any, default: Any) -> Any:
    """A value that fits, as the default's type: 1 as 1.0, [1] as (1.0,)."""
    if isinstance(default, list | tuple):
        return type(default)(_as(item, default[0]) if default else item for item in value)
    return float(value) if isinstance(default, float) else value


def _type_name(value: Any) -> str:
    if isinstance(value, list | tuple) and value:
        many = {int: "whole numbers", float: "numbers", str: "texts"}
        return f"a list of {many.get(type(value[0]), type(value[0]).__name__)}"
    kinds = {bool: "true or false", int: "a whole number", float: "a number", str: "text", dict: "a mapping"}
    return "a list" if isinstance(value, list) else kinds.get(type(value), type(value).__name__)
