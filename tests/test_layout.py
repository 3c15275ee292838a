"""The rooms of the package: few on the top floor, and none that looks up."""

import ast
import importlib
from pathlib import Path

import pytest

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
        if name != "cli/__init__.py" and not name.startswith(("chapters/", "book/")):
            named = imports(file)
            if any(module == above or module.startswith(f"{above}.") for module in named for above in ABOVE):
                looking_up.add(name)
    assert looking_up == set()


def test_no_module_is_longer_than_350_lines():
    long = {file.name for file in PACKAGE.rglob("*.py") if len(file.read_text(encoding="utf-8").splitlines()) > 350}
    assert long == set()


# names that tests, benchmarks and notebooks outside this repository rely on: the page on contracts, `book/design.md`
PROMISED = {
    "samples": "Samples",
    "worlds": "get",
    "datasets": "load root",
    "recipes": "Recipe train load",
    "models": "build device to_tensor",
    "training": "fit predict TrainingConfig",
    "attribution": "grad_cam score_cam integrated_gradients epsilon_lrp",
    "metrics": "attention_iou mask_score relevance_mass_accuracy relevance_rank_accuracy perturbation_curves aopc "
    "Labels bias_amplification group_accuracy worst_group_accuracy normalized_average_precision score_sensitivity "
    "classification_sensitivity flip_rates causal_effect",
    "statistics": "interval crossed_interval welch sign_flip holm kendall minimum_detectable_gap",
    "store": "get_or_compute stored",
    "audit": "run",
}


@pytest.mark.parametrize("room", PROMISED)
def test_what_others_rely_on_can_be_imported(room):
    module = importlib.import_module(f"biaslib.{room}")
    assert [name for name in PROMISED[room].split() if not hasattr(module, name)] == []
