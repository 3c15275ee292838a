"""Makes the HTML pages from the narrative pages and the executed notebooks; `setup` is its extension of Sphinx."""

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
from tqdm import tqdm

from biaslib.book import execution, recorded
from biaslib.book.execution import PageError
from biaslib.book.project import Project
from biaslib.figures import theme
from biaslib.store import fingerprint

_STUB = "not run yet"
# in a docstring: code, then formulas; `$BIASLIB_DATA` is neither
_SPECIAL = re.compile(r"(``.+?``|`[^`]+`|\$\$.+?\$\$|\$(?!BIASLIB_)[^$]+\$)", re.DOTALL)


def write(project: Project) -> Path:
    """Makes the pages in a clean folder and puts them in the place of the old ones; nothing where nothing changed."""
    missing = _stubs(project)
    _fragments(project)
    key = _key(project)
    front, stamp = project.site / "index.html", project.site / ".made-from"
    if front.is_file() and stamp.is_file() and stamp.read_text(encoding="utf-8") == key:
        return front
    tqdm.write("making the pages")
    partial = project.output / ".partial-site"
    shutil.rmtree(partial, ignore_errors=True)
    _sphinx(project, partial, strict=not missing)
    (partial / "_build" / "html" / stamp.name).write_text(key, encoding="utf-8")
    old = project.site.with_name(".partial-old-site")
    shutil.rmtree(old, ignore_errors=True)
    if project.site.exists():
        project.site.rename(old)
    (partial / "_build" / "html").rename(project.site)
    for folder in (old, partial):
        shutil.rmtree(folder, ignore_errors=True)
    if missing:
        tqdm.write(f"not run yet: {', '.join(missing)}; `biaslib build` runs them")
    return front


def _key(project: Project) -> str:
    """Hash of everything the pages are made from."""
    roots = (project.book, project.root / "data" / "datasheets", project.root / "_config.yml")
    files = [file for root in roots for file in ([root] if root.is_file() else root.rglob("*")) if file.is_file()]
    package = [file.read_text(encoding="utf-8") for file in sorted(Path(__file__).parents[1].rglob("*.py"))]
    sources = {str(file.relative_to(project.root)): file.read_bytes().hex() for file in sorted(files)}
    return fingerprint.of_value({"files": sources, "package": package})


def _sphinx(project: Project, output: Path, *, strict: bool) -> None:
    python = (sys.executable, "-c", "from jupyter_book.cli.main import main; main()")
    places = (str(project.book), "--config", str(project.root / "_config.yml"), "--path-output", str(output))
    command = [*python, "build", *places, *(["-W"] if strict else []), "-n", "--keep-going"]
    done = subprocess.run(command, cwd=project.root, capture_output=True, text=True)
    if done.returncode:
        lines = execution.plain(done.stdout + done.stderr).splitlines()
        telling = [line for line in lines if re.search("WARNING|ERROR|CRITICAL", line)] or lines[-15:]
        raise PageError("the pages could not be made:\n" + "\n".join(telling))


def _stubs(project: Project) -> list[str]:
    """Puts a stand-in for every page that has never run, and returns their names."""
    missing = []
    project.executed.mkdir(parents=True, exist_ok=True)
    for name in project.names():
        file = project.page(name)
        about = execution.about(file)
        if about is None:
            source = execution.read(project, name).cells[0].source.splitlines()
            title = next((line for line in source if line.startswith("# ")), f"# {name}")
            text = f"{title}\n\nThis page has not been run on this machine yet: `biaslib build` runs it."
            stub = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text)])
            stub.metadata["biaslib"] = {"key": _STUB}
            nbformat.write(stub, file)
        if about is None or about["key"] == _STUB:
            missing.append(name)
    return missing


def _fragments(project: Project) -> None:
    """Writes what the narrative pages include: the status of every page, the list of datasheets, the palette."""
    runs = {name: execution.about(project.page(name)) or {} for name in project.names()}
    _update(project.generated / "status.md", _status({name: run for name, run in runs.items() if "date" in run}))
    sheets = sorted((project.root / "data" / "datasheets").glob("*.md"))
    text = "\n\n".join(f"```{{include}} ../data/datasheets/{sheet.name}\n:heading-offset: 1\n```" for sheet in sheets)
    _update(project.generated / "datasheets.md", text + "\n")
    _update(project.book / "_static" / "palette.css", theme.page_css())


def _update(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")


def _status(runs: dict[str, dict]) -> str:
    if not runs:
        return "No page has been run yet.\n"
    pages = [("Page", "Scale", "Parameters other than the defaults", "Run (UTC)", "Took", "Cores")]
    for name, run in runs.items():
        changed = ", ".join(f"`{key} = {value!r}`" for key, value in run["changed"].items()) or "none"
        when, took = run["date"][:16].replace("T", " "), recorded.duration(run["seconds"])
        pages.append((f"{{doc}}`/_executed/{name}`", run["preset"], changed, when, took, run["cores"]))
    versions = [("Library", "Version")]
    for library in sorted({library for run in runs.values() for library in run["versions"]}):
        versions.append((library, ", ".join(sorted({run["versions"].get(library, "") for run in runs.values()}))))
    return f"{_table(pages)}\n\n## Versions\n\n{_table(versions)}\n"


def _table(lines: Sequence[Sequence[object]]) -> str:
    text = ["| " + " | ".join(str(item).replace("|", r"\|") for item in line) + " |" for line in lines]
    text.insert(1, "|" + "---|" * len(lines[0]))
    return "\n".join(text)


def setup(app: Any) -> dict[str, bool]:
    """Lets Sphinx, which finds this function by its name, read docstrings as people write them."""
    app.connect("autodoc-process-docstring", _process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = _readable("\n".join(lines)).split("\n")


def _readable(docstring: str) -> str:
    """The docstring in Sphinx's markup: `$...$` is a formula, a bar is a bar."""
    return "".join(map(_marked, _SPECIAL.split(docstring)))


def _marked(part: str) -> str:
    if part.startswith("`"):
        return part
    if _SPECIAL.fullmatch(part):
        return f":math:`{' '.join(part.strip('$').split())}`"
    return part.replace("|", r"\|")
