"""The rooms of the package: few on the top floor, and none that looks up."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "biaslib"
# what is above the instruments: `cli` alone may ask it, inside the command that needs it
ABOVE = ("biaslib.chapters", "biaslib.book")


def imports(file: Path) -> set[str]:
    """Every package module that a file names in an import, at its top or inside a function."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def test_the_top_floor_has_at_most_nineteen_names():
    names = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert len(names - {"__init__"}) <= 19


def test_instruments_import_neither_chapters_nor_book():
    looking_up = set()
    for file in PACKAGE.rglob("*.py"):
        name = file.relative_to(PACKAGE).as_posix()
        if name != "cli.py" and not name.startswith(("chapters/", "book/")):
            named = imports(file)
            if any(module == above or module.startswith(f"{above}.") for module in named for above in ABOVE):
                looking_up.add(name)
    assert looking_up == set()


def test_no_module_is_longer_than_350_lines():
    long = {file.name for file in PACKAGE.rglob("*.py") if len(file.read_text(encoding="utf-8").splitlines()) > 350}
    assert long == set()
