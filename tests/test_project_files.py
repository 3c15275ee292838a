"""The files around the package say the same thing."""

import re
import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]


def declared() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [Requirement(line) for line in project["dependencies"]]


def described(requirements) -> dict[str, tuple]:
    return {canonicalize_name(r.name): (str(r.specifier), sorted(r.extras)) for r in requirements}


def test_the_conda_environment_names_the_same_dependencies_with_the_same_bounds():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    *conda, pip = environment["dependencies"]
    assert f"python{project['requires-python']}" in conda
    listed = [Requirement(line) for line in pip["pip"] if not line.startswith("-")]
    assert described(listed) == described(declared())


def test_the_lock_holds_every_dependency_at_a_version_within_its_bounds():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [Requirement(line) for extra in project["optional-dependencies"].values() for line in extra]
    locked: dict[str, list[str]] = {}
    for name, version in re.findall(r"^([\w.-]+)==([^\s;]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE):
        locked.setdefault(canonicalize_name(name), []).append(version)
    for requirement in [*declared(), *extras]:
        versions = locked.get(canonicalize_name(requirement.name))
        assert versions, f"{requirement.name} is not in requirements.lock: run `make lock`"
        assert any(requirement.specifier.contains(version) for version in versions), requirement.name


def test_the_contents_list_every_notebook_and_no_other():
    contents = (ROOT / "book" / "_toc.yml").read_text()
    notebooks = {file.stem for file in (ROOT / "notebooks").glob("*.md")}
    assert set(re.findall(r"_executed/(\w+)", contents)) == notebooks


def test_presets_name_notebooks_that_exist_and_parameters_that_they_have():
    from biaslib.book import execution, parameters
    from biaslib.book.project import Project

    project = Project(ROOT)
    names = parameters.preset_names(project)
    assert {"smoke", "quick", "real", "gpu", "paper"} <= set(names)
    for preset in names:
        for notebook, given in parameters.from_preset(project, preset).items():
            defaults = parameters.declared(execution.read(project, notebook), name=notebook)
            parameters.checked(given, defaults, name=notebook)


def test_every_citation_has_its_entry():
    entries = set(re.findall(r"^@\w+\{([^,]+),", (ROOT / "book" / "references.bib").read_text(), re.MULTILINE))
    pages = [*(ROOT / "book").glob("*.md"), *(ROOT / "notebooks").glob("*.md")]
    cited = {
        key.strip()
        for page in pages
        for keys in re.findall(r"\{cite(?::\w+)?\}`([^`]+)`", page.read_text())
        for key in keys.split(",")
    }
    assert cited <= entries
    assert entries - cited <= {"zhao2017men", "wang2021directional"}, "an entry that nothing cites"
