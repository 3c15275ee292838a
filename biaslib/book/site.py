"""Makes the HTML pages from the narrative pages and the executed notebooks."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
import yaml
from tqdm import tqdm

from biaslib.book import Project, execution, lab, recorded
from biaslib.errors import PageError
from biaslib.figures import pieces, theme
from biaslib.store import fingerprint

_STUB = "not run yet"
_BOARD = ("dial", "board")  # the page and the name of the front page's figure
# the head of a chapter: how many minutes it takes, what it needs first, and what one can do after it
_HEAD = re.compile(
    r"^\*(\d+) minutes\..*?Needs: (.*?)\. `biaslib run .*?^\*\*After this (?:page|lab) you can\*\* (.*?)\.?$",
    re.M | re.S,
)


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
    lab.write_downloads(project, partial / "_build" / "html" / "_sources" / "_executed")
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
    files = [f for root in roots for f in (root, *root.rglob("*")) if f.is_file() and f.suffix != ".pyc"]
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
    """Writes what the narrative pages include: status, what chapters teach, datasheets, gallery, board, palette."""
    runs = {name: execution.about(project.page(name)) or {} for name in project.names()}
    runs = {name: run for name, run in runs.items() if "date" in run}
    records = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(project.recorded.glob("*.json"))]
    versions: dict[str, set[str]] = {}
    for library, version in (pair for run in runs.values() for pair in run["versions"].items()):
        versions.setdefault(library, set()).add(version)
    _update(project.generated / "status.md", _filled("status.md.j2", runs=runs, versions=versions, records=records))
    _update(project.generated / "objectives.md", objectives(project))
    sheets = [sheet.name for sheet in sorted((project.root / "data" / "datasheets").glob("*.md"))]
    _update(project.generated / "datasheets.md", _filled("datasheets.md.j2", sheets=sheets))
    _update(project.book / "_static" / "palette.css", theme.css("page"))
    _gallery(project)


def _filled(template: str, **said: Any) -> str:
    """A template beside this module, with what it speaks of."""
    environment = theme.templates("book")
    environment.filters["cell"] = lambda value: str(value).replace("|", r"\|")  # a bar would end a table's cell
    return environment.get_template(template).render(said, recorded=recorded).strip()


def parts(project: Project) -> dict[str, list[str]]:
    """Caption of each part in the table of contents -> the names of its pages."""
    contents = yaml.safe_load((project.book / "_toc.yml").read_text(encoding="utf-8")).get("parts", ())
    return {part.get("caption", ""): [Path(entry["file"]).name for entry in part["chapters"]] for part in contents}


def objectives(project: Project) -> str:
    """For each part of the contents a table of its chapters: what one can do after it, minutes and needs, by its head.

    A chapter whose head does not say so is left out, and so is a part that has no other.
    """
    tables: dict[str, list[tuple[str, ...]]] = {}
    for caption, names in parts(project).items():
        for name in names:
            source = project.notebooks / f"{name}.md"
            if source.is_file() and (head := _HEAD.search(source.read_text(encoding="utf-8"))):
                minutes, needs, can = head.groups()
                needs = re.sub(r"\[([^]]+)\]\((?:\.\./)?(\w+)\.md\)", partial(_to_page, project), needs)
                tables.setdefault(caption, []).append((name, can, minutes, needs))
    return _filled("objectives.md.j2", tables=tables)


def _to_page(project: Project, link: re.Match[str]) -> str:
    """A link to a chapter, or to one of the book's own pages, from anywhere in the book."""
    folder = "/_executed" if (project.notebooks / f"{link[2]}.md").is_file() else ""
    return f"{{doc}}`{link[1]} <{folder}/{link[2]}>`"


def _gallery(project: Project) -> None:
    """Writes the drawings of all pages as files, the page that shows them, and the board of the front page."""
    shown: dict[str, list[tuple[str, str, str]]] = {}
    board = ""
    for caption, pages in parts(project).items():
        for page in pages:
            for name, alt, framed in _drawings(project.page(page)):
                board = framed if (page, name) == _BOARD else board
                _update(project.generated / "gallery" / "gallery" / f"{page}-{name}.svg", pieces.svg_file(framed) or "")
                shown.setdefault(caption, []).append((page, name, alt))
    _update(project.generated / "gallery.md", _filled("gallery.md.j2", shown=shown))
    _update(project.generated / "board.html", board)


def _drawings(page: Path) -> Iterator[tuple[str, str, str]]:
    """The name, the description and the HTML of each drawing of an executed page that has a name."""
    if not page.is_file():
        return
    for output in execution.outputs(nbformat.read(page, as_version=4)):
        framed = output.get("data", {}).get("text/html", "")
        name = re.match(r'<figure class="biaslib-figure biaslib-drawing" id="([^"]+)"', framed)
        alt = re.search(r'role="img" aria-label="([^"]*)"', framed)
        if name and alt:
            yield name[1], alt[1], framed


def _update(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")
