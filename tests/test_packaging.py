"""What `pip install` brings, and what works with it: the instruments alone, the book only with its extra.

`python -m tests.test_packaging` writes environment.yml anew.
"""

import ast
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import biaslib

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]

ENVIRONMENT = """\
# For conda users: conda env create -f environment.yml && conda activate biaslib && biaslib build
# The list is that of pyproject.toml with the extra [book], written by `python -m tests.test_packaging`. Everything
# comes through pip, because torch and torchvision only work as a matching pair from one source.
name: biaslib
channels:
  - conda-forge
dependencies:
  - python{python}
  - pip
  - pip:
      - --editable .
{lines}
"""

# Modules that import what is not declared for them, and why they may.
BESIDE = {
    "figures/table.py": {"IPython"},  # `glue_number` writes to the notebook that runs it, and that is IPython
    "store/parallel.py": {"dask", "distributed"},  # where a scheduler is asked for; a sentence says what to install
    "audit/opening.py": {"onnxruntime"},  # where a model is ONNX's; a sentence says what to install
}
# Declared, though no module imports them, and why.
NOT_IMPORTED = {
    "pyarrow": "pandas reads and writes parquet with it",
    "jupyterlab": "make lab",
    "jsonschema": "nbformat checks notebooks with it; its version is ours for the speed of every start",
    "jupyter-book": "run as a command; loads the extensions of _config.yml",
    "sphinx-book-theme": "_config.yml",
    "sphinx-mathjax-offline": "_config.yml",
    "sphinx-exercise": "_config.yml",
    "sphinxcontrib-bibtex": "_config.yml",
    "myst-nb": "_config.yml",
}

# Leaves Python's own modules and what a `pip install` of the wheel would bring; nothing else can be found.
BLOCKER = """\
import os, sys
from importlib.machinery import PathFinder

class Installed(PathFinder):
    absent = frozenset(os.environ["ABSENT"].split(","))

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split(".")[0] in cls.absent else super().find_spec(name, path, target)

sys.meta_path[:] = [*sys.meta_path[:2], Installed]  # built in, frozen, and in place of all other finders
"""
BIASLIB = "from biaslib.cli import main; main()"
MODEL = """\
import torch

class Red(torch.nn.Module):
    def forward(self, images):
        return 1000 * (images[:, 0] - images.mean(1)).mean((1, 2)).clamp(min=0)[:, None] - 4
"""
AUDIT = (
    *("--model", "mine:Red", "--data", "images", "--labels", "labels.csv", "--target", "green", "--group", "red"),
    *("--size", "32", "--mean", "0", "0", "0", "--std", "1", "1", "1", "--out", "out"),
)


def environment() -> str:
    """The text of environment.yml."""
    lines = "\n".join(f"      - {line}" for line in (*PROJECT["dependencies"], *EXTRAS["book"]))
    return ENVIRONMENT.format(python=PROJECT["requires-python"], lines=lines)


def requirements(*extras: str) -> list[Requirement]:
    """What is declared for the package with these extras, less the package itself."""
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in EXTRAS[extra])]
    return [requirement for requirement in map(Requirement, lines) if requirement.name != PROJECT["name"]]


@cache
def needed(requirement: Requirement) -> frozenset[str]:
    """The names of a distribution and of all that it depends on here."""
    names: set[str] = set()
    waiting = [requirement]
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        if name in names and not wanted.extras:
            continue
        names.add(name)
        try:
            lines = importlib.metadata.requires(name) or ()
        except importlib.metadata.PackageNotFoundError:  # for another platform
            continue
        for line in map(Requirement, lines):
            marked = [line.marker is None or line.marker.evaluate({"extra": extra}) for extra in ("", *wanted.extras)]
            if any(marked) and not (line.extras and canonicalize_name(line.name) in names):
                waiting.append(line)
    return frozenset(names)


@cache
def distributions() -> dict[str, set[str]]:
    """Importable module -> names of the distributions that hold it."""
    found = importlib.metadata.packages_distributions()
    return {module: {canonicalize_name(name) for name in names} for module, names in found.items()}


def absent(*extras: str) -> set[str]:
    """The modules installed here that a `pip install` with these extras only would not bring."""
    brought = {name for requirement in requirements(*extras) for name in needed(requirement)}
    return {module for module, names in distributions().items() if not names & brought} - {PROJECT["name"]}


def imports(file: Path) -> Iterator[str]:
    """The top-level names a module imports when it runs, at its top or inside a function."""
    waiting: list[ast.AST] = [ast.parse(file.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.split(".")[0]
        waiting += ast.iter_child_nodes(node)


@cache
def imported_by(room: str) -> dict[str, set[str]]:
    """Foreign module -> the modules that import it: of the "instruments", or of the "book" above them and its pages."""
    found: dict[str, set[str]] = {}
    package = ROOT / PROJECT["name"]
    for file in (*package.rglob("*.py"), *(ROOT / "book").glob("*.py")):
        name = file.relative_to(package if file.is_relative_to(package) else ROOT).as_posix()
        if name.startswith(("chapters/", "book/")) == (room == "book"):
            for module in set(imports(file)) - sys.stdlib_module_names - {PROJECT["name"]} - BESIDE.get(name, set()):
                found.setdefault(module, set()).add(name)
    return found


def test_the_conda_environment_is_made_of_the_declared_dependencies():
    message = "run `python -m tests.test_packaging`, which writes it anew"
    assert (ROOT / "environment.yml").read_text(encoding="utf-8") == environment(), message


def test_the_lock_holds_every_dependency_at_a_version_within_its_bounds():
    locked: dict[str, list[str]] = {}
    for name, version in re.findall(r"^([\w.-]+)==([^\s;]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE):
        locked.setdefault(canonicalize_name(name), []).append(version)
    for requirement in requirements(*EXTRAS):
        versions = locked.get(canonicalize_name(requirement.name))
        assert versions, f"{requirement.name} is not in requirements.lock: run `make lock`"
        assert any(requirement.specifier.contains(version) for version in versions), requirement.name


def test_the_tests_bring_the_book_and_the_instruments_nothing_of_it():
    assert "biaslib[book,onnx]" in EXTRAS["test"]
    names = {canonicalize_name(requirement.name) for requirement in requirements()}
    assert not names & {canonicalize_name(Requirement(line).name) for line in EXTRAS["book"]}
    assert {"jupyter_book", "jupytext", "papermill", "distributed", "ipywidgets", "sphinx"} <= absent()


@pytest.mark.parametrize(("room", "extras"), [("instruments", ()), ("book", ("book",))])
def test_what_is_imported_is_declared(room, extras):
    declared = {canonicalize_name(requirement.name) for requirement in requirements(*extras)}
    undeclared = {
        module: sorted(files)
        for module, files in imported_by(room).items()
        if not distributions().get(module, set()) & declared
    }
    assert not undeclared


def test_what_is_declared_is_used():
    modules = imported_by("instruments").keys() | imported_by("book").keys() | set().union(*BESIDE.values())
    used = set().union(*(distributions().get(module, set()) for module in modules))
    assert {canonicalize_name(requirement.name) for requirement in requirements("book")} - used == NOT_IMPORTED.keys()


def test_a_room_of_numbers_is_imported_without_torch_and_soon_and_the_front_door_without_any():
    code = """
import os, sys, time
started = time.perf_counter()
import numpy, pandas, scipy.stats
baseline = time.perf_counter() - started
for room in ("metrics", "statistics", "worlds"):
    if os.fork() == 0:
        before = time.perf_counter()
        import biaslib
        assert not [name for name in sys.modules if name.startswith("biaslib.")]
        getattr(biaslib, room)
        print(room, baseline, time.perf_counter() - before, *sys.modules, flush=True)
        os._exit(0)
    os.wait()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 3, done.stderr
    for line in lines:
        room, baseline, own, *modules = line.split()
        assert f"biaslib.{room}" in modules
        assert not {"torch", "timm", "matplotlib", "sklearn", "seaborn"} & set(modules)
        # the baseline is about a second on an idle machine, so that a busy one slows both
        assert float(own) < max(1.0, float(baseline)), room


def test_the_front_door_names_a_dozen_rooms_and_opens_each_when_it_is_asked_for():
    assert set(biaslib.__all__) <= set(dir(biaslib))
    for name in biaslib.__all__:
        assert biaslib.__getattr__(name).__name__ == f"biaslib.{name}"
    assert len(biaslib.__all__) <= 12
    with pytest.raises(AttributeError, match="module 'biaslib' has no attribute 'nothing'"):
        _ = biaslib.nothing


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Runs Python outside the checkout, where only the wheel and what its installation brings can be imported."""
    folder = tmp_path_factory.mktemp("wheel")
    tree, site, away = folder / "tree", folder / "site", folder / "away"
    shutil.copytree(ROOT / "biaslib", tree / "biaslib", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", PROJECT["readme"], *PROJECT["license-files"]):
        shutil.copy(ROOT / name, tree)
    build = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(folder)], cwd=tree, capture_output=True, check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(site)
    (folder / "block").mkdir()
    (folder / "block" / "sitecustomize.py").write_text(BLOCKER)
    away.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BIASLIB_", "PYTHON"))}
    surroundings = kept | {
        "PYTHONPATH": os.pathsep.join(map(str, (folder / "block", site))),
        "ABSENT": ",".join(absent()),
        "BIASLIB_STORE": str(folder / "store"),
    }

    def run(*arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, *arguments], cwd=away, env=surroundings, capture_output=True, text=True, timeout=120
        )

    run.site, run.away = site, away
    return run


def test_the_wheel_holds_the_package_alone_and_says_that_it_is_typed(installed):
    names = {path.name for path in installed.site.iterdir()}
    (described,) = {name for name in names if name.endswith(".dist-info")}
    assert names == {"biaslib", described}
    assert (installed.site / "biaslib" / "py.typed").is_file()
    assert "biaslib = biaslib.cli:main" in (installed.site / described / "entry_points.txt").read_text()
    done = installed("-c", "import biaslib; print(biaslib.__file__)")
    assert Path(done.stdout.strip()) == installed.site / "biaslib" / "__init__.py", done.stderr


@pytest.mark.slow
def test_an_audit_outside_the_checkout_holds_the_table_of_reliability(installed):
    from tests.audit.subjects import draw

    draw(installed.away, n=60)
    (installed.away / "mine.py").write_text(MODEL)
    done = installed("-c", BIASLIB, "audit", *AUDIT)
    assert done.returncode == 0, done.stderr
    assert "the report is at out" in done.stdout
    report = (installed.away / "out" / "report.html").read_text(encoding="utf-8")
    assert "How far these measures can be trusted" in report
    assert json.loads((installed.away / "out" / "audit.json").read_text(encoding="utf-8"))


def test_a_command_of_the_book_and_a_scheduler_without_dask_say_what_they_need(installed):
    code = """
import os, sys
from biaslib.cli import main
from biaslib.store import parallel
for command in (["build"], ["run", "waterbirds"], ["grow", "faces-0"]):
    sys.argv[1:] = command
    try:
        main()
    except SystemExit as ended:
        assert ended.code == 2, command
os.environ["BIASLIB_SCHEDULER"] = "tcp://127.0.0.1:1"
with parallel.workers():
    pass
"""
    done = installed("-c", code)
    assert done.returncode == 1
    said, _, raised = done.stderr.partition("Traceback")
    for command, sentence in zip(("build", "run", "grow"), said.splitlines(), strict=True):
        assert sentence.startswith(f"biaslib: `biaslib {command}` needs a checkout of the book and its libraries")
        assert "`pip install '.[book]'`" in sentence
    assert "needs Dask: run `pip install 'dask[distributed]'`" in raised.splitlines()[-1]


@pytest.mark.slow
def test_the_instruments_can_be_installed_in_an_empty_environment_and_audit(installed, tmp_path):
    from tests.audit.subjects import draw

    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    (wheel,) = installed.site.parent.glob("*.whl")
    subprocess.run([python, "-m", "pip", "install", "--quiet", str(wheel)], check=True)
    draw(tmp_path, n=60)
    (tmp_path / "mine.py").write_text(MODEL)
    done = subprocess.run(
        [tmp_path / "venv" / "bin" / "biaslib", "audit", *AUDIT], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "How far these measures can be trusted" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


if __name__ == "__main__":
    (ROOT / "environment.yml").write_text(environment(), encoding="utf-8")
