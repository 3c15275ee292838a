"""Runs one notebook with parameters and keeps the result only if every cell ran."""

import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import nbformat
from tqdm import tqdm

from biaslib import store
from biaslib.book import Project, recorded
from biaslib.book import parameters as params
from biaslib.book.kernels import manager
from biaslib.errors import BiaslibError, PageError
from biaslib.store import parallel, results


def read(project: Project, notebook: str) -> nbformat.NotebookNode:
    """The notebook's text as cells."""
    import jupytext

    known = project.names()
    if notebook not in known:
        listed = ", ".join(known) or "none yet"
        raise BiaslibError(f"there is no notebook {notebook!r}: the book has {listed}{params.closest(notebook, known)}")
    return jupytext.read(project.notebooks / f"{notebook}.md", fmt="md:myst")


def read_parameters(project: Project, notebook: str, assignments: Iterable[str]) -> dict[str, Any]:
    """The parameters that `name=value` arguments give a notebook."""
    return params.parsed(assignments, params.declared(read(project, notebook), name=notebook), name=notebook)


def opened(
    project: Project, notebook: str, *, parameters: Mapping[str, Any] | None, preset: str | None
) -> tuple[nbformat.NotebookNode, dict[str, Any], dict[str, Any]]:
    """A notebook, its defaults, and what a preset and parameters of a reader, which win over it, change in them."""
    source = read(project, notebook)
    defaults = params.declared(source, name=notebook)
    given = {**params.of_preset(project, preset, notebook), **(parameters or {})}
    given = params.checked(given, defaults, name=notebook)
    return source, defaults, {name: value for name, value in given.items() if value != defaults[name]}


def run(
    project: Project,
    notebook: str,
    out: Path,
    *,
    parameters: Mapping[str, Any] | None = None,
    preset: str | None = None,
    key: str = "",
    threads: int | None = None,
    scheduler: str | None = None,
    on_cell: Callable[[], Any] | None = None,
    bars: Path | None = None,
) -> dict[str, Any]:
    """Executes a notebook and writes it to `out` (.ipynb), replaced in one step, once its last cell has run.

    `parameters` other than the defaults win over those of the `preset` (a name from `notebooks/presets`; None or
    "quick" for the notebook's own defaults). `key` is a hash to keep with the result, by which `build` knows what it
    was made from. `threads` is how many the numerical libraries may use, and half the number of worker processes (None
    leaves that to them), `scheduler` the address of a Dask scheduler for independent trainings, `on_cell` called after
    every code cell, `bars` a file into which the notebook writes the progress of its longer computations.

    Returns what the executed notebook says about itself: preset, parameters, date, commit, device, seconds, cores,
    versions, recorded. A name, parameter or preset that does not exist, a value of the wrong type, or a cell that
    stopped with such an error is a `BiaslibError`; a cell that stopped with any other error, or a kernel that was
    killed, a `PageError`.
    """
    if out.suffix != ".ipynb" or out.is_dir():
        raise BiaslibError(f"the executed notebook must go to a file that ends in .ipynb, not to {str(out)!r}.")
    from biaslib.book import lab  # which runs notebooks, too

    source, defaults, changed = opened(project, notebook, parameters=parameters, preset=preset)
    commit = results.commit(project.root)  # before the run: an edit during it has no part in it
    started = time.perf_counter()
    with store.replacing(out) as partial:
        executed = _executed(
            notebook,
            lab.for_readers(source),
            None,  # its own file would be written anew before and after every cell
            changed,
            on_cell_executed=lambda **_: on_cell() if on_cell else None,
            kernel_manager_class=manager(environment(threads, scheduler, bars), partial.with_name("kernel.json")),
            # papermill's own cwd would move this whole process, which other pages share
            resources={"metadata": {"path": str(project.notebooks)}},
        )
        about = {
            "key": key,
            "notebook": notebook,
            "preset": preset or params.QUICK,
            "parameters": {**defaults, **changed},
            "changed": changed,
            "date": results.now(),
            "commit": commit,
            "device": results.device(),
            "seconds": round(time.perf_counter() - started, 1),
            "cores": parallel.cores(),
            "versions": results.versions(),
            "recorded": recorded.collect(executed),
        }
        errors = "\n".join(output["text"] for output in outputs(executed) if output.get("name") == "stderr")
        for warning in re.findall(r"Damaged\w+Warning: (.+)", errors):  # the pages do not show them
            tqdm.write(f"{notebook}: {warning}")
        del executed.metadata["papermill"]
        executed.metadata["biaslib"] = about
        if changed:
            _say_what_changed(executed, about, defaults)
        lab.as_page(executed)
        _relink(executed, project)
        nbformat.write(executed, partial)
    return about


def _executed(notebook: str, source: nbformat.NotebookNode, *arguments: Any, **options: Any) -> nbformat.NotebookNode:
    """The notebook run by papermill; a cell that stopped is an error with the notebook's name."""
    import papermill
    from jupyter_core.utils import ensure_event_loop
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    try:
        with contextlib.closing(ensure_event_loop()):  # nbclient itself would leave this thread's open
            return papermill.execute_notebook(
                source, *arguments, kernel_name="python3", language="python", progress_bar=False, **options
            )
    except PapermillExecutionError as error:
        if error.ename == BiaslibError.__name__:
            raise BiaslibError(f"{notebook}: {error.evalue}") from None
        cell, traceback = _last_lines(error.source), _last_lines(plain("\n".join(error.traceback)))
        raise PageError(
            f"{notebook} stopped at cell {error.exec_count} with {error.ename}: {error.evalue}\n"
            f"  the cell's last lines:\n{cell}\n  the error's last lines:\n{traceback}"
        ) from None
    except DeadKernelError:
        raise PageError(f"{notebook}: its kernel ended before the last cell; is there memory enough?") from None


def outputs(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """All outputs of an executed notebook's cells."""
    return [output for cell in notebook.cells for output in cell.get("outputs", ())]


def about(file: Path) -> dict[str, Any] | None:
    """What an executed notebook says about itself, or None where it is missing or was not written by `run`."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))["metadata"]["biaslib"]
    except (OSError, ValueError, KeyError):
        return None


def plain(text: str) -> str:
    """The text without a terminal's colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def environment(threads: int | None = None, scheduler: str | None = None, bars: Path | None = None) -> dict[str, str]:
    """What a notebook's process finds in its environment beside what this one has; arguments as for `run`."""
    # a bar that moves and a dial that a kernel answers have no place on a page
    variables = {"TQDM_DISABLE": "1", "BIASLIB_PAGE": "1", **parallel.KEEP_MEMORY}
    for name in ("BIASLIB_DATA", "BIASLIB_STORE"):
        if name in os.environ:  # a relative folder is meant from here, not from where the notebook runs
            variables[name] = str(Path(os.environ[name]).expanduser().resolve())
    if threads:
        variables |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
        # twice its share of the cores for a page's own worker processes: pages seldom need all of theirs at once
        variables["BIASLIB_CORES"] = str(min(parallel.cores(), 2 * threads))
    asked = {"BIASLIB_BARS": bars, "BIASLIB_SCHEDULER": scheduler}
    return variables | {name: str(value) for name, value in asked.items() if value}


def _last_lines(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.strip().splitlines()[-8:])


def _relink(notebook: nbformat.NotebookNode, project: Project) -> None:
    """Turns links between the text notebooks, and to the book's pages, into links that hold where pages are made."""

    def moved(match: re.Match[str]) -> str:
        name = match["name"]
        if (project.notebooks / f"{name}.md").is_file():
            return f"]({name}.ipynb"
        return f"](../{name}.md" if (project.book / f"{name}.md").is_file() else match[0]

    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = re.sub(r"\]\((?:\.\./book/)?(?P<name>[\w-]+)\.md(?=[)#])", moved, cell.source)


def _code(text: str) -> str:
    """As code in Markdown, whatever backticks are in it: a value must not become a part of the page."""
    marks = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{marks} {text} {marks}" if "`" in text else f"{marks}{text}{marks}"


def _say_what_changed(notebook: nbformat.NotebookNode, about: dict[str, Any], defaults: dict[str, Any]) -> None:
    """Puts a note below the title of a page whose parameters are not the book's."""
    changed = about["changed"].items()
    words = [f"{_code(f'{name} = {value!r}')} (default {_code(repr(defaults[name]))})" for name, value in changed]
    preset = "" if about["preset"] == params.QUICK else f" Preset: `{about['preset']}`."
    text = f"This page was run with {', '.join(words)}.{preset}"
    note = f"```{{admonition}} Not the book's own run\n:class: important\n{text}\n```"
    for cell in notebook.cells:
        if "injected-parameters" in cell.metadata.get("tags", ()):
            cell.metadata["tags"].append("remove-cell")  # the note says it better
    first = notebook.cells[0]
    lines = first.source.splitlines()
    title = next((row for row, line in enumerate(lines) if line.startswith("# ")), -1)
    before, after = "\n".join(lines[: title + 1]), "\n".join(lines[title + 1 :]).strip()
    first.source = "\n\n".join(part for part in (before, note, after) if part)
