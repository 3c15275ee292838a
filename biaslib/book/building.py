"""Runs what has changed and makes the pages; says how far it is, and how long the rest may take."""

import contextlib
import functools
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import filelock
import yaml
from tqdm import tqdm

from biaslib import store
from biaslib.book import Project, execution, parameters, recorded, site
from biaslib.datasets import registry
from biaslib.errors import BiaslibError, PageError
from biaslib.store import fingerprint, parallel, results

_USUAL = 30.0  # seconds of a page of which nothing is known
_LOOK = 0.5  # seconds between two looks at what the pages compute


def build(
    project: Project,
    *,
    preset: str | None = None,
    only: Iterable[str] = (),
    jobs: int | None = None,
    record: bool = False,
    scheduler: str | None = None,
) -> Path:
    """Runs the notebooks that have changed, then makes the pages if anything on them has; gives the front page.

    A page is published when its last cell has run, so a build that fails or is killed leaves every page whole, old or
    new, and the next one goes on from there.

    `preset` is a name from `notebooks/presets`, None for the notebooks' own defaults, with which a notebook runs that
    the preset does not name. `only` are notebooks, or captions of parts in the table of contents; everything where
    empty. `jobs` is how many notebooks run at a time; None for one a core. `record` keeps under `book/recorded` the
    numbers that the notebooks of the preset mark. `scheduler` is the address of a Dask scheduler for independent
    trainings; None takes $BIASLIB_SCHEDULER, and where that is not set either, workers of this machine that the
    notebooks share. A `BiaslibError` is raised for an unknown preset, part or parameter, a `PageError` where a notebook
    stopped or a page could not be made; the other pages are kept.
    """
    chosen = _chosen(project, only)
    named = parameters.from_preset(project, preset)
    presets = {name: preset if name in named else None for name in chosen}
    with _alone(project):
        _prune(project)
        runs = {name: {"preset": each, "key": _key(project, name, each)} for name, each in presets.items()}
        done = {name: (execution.about(project.page(name)) or {}).get("key") for name in chosen}
        _run_all(project, {name: run for name, run in runs.items() if done[name] != run["key"]}, jobs, scheduler)
        if record:
            for name in chosen if preset in (None, parameters.QUICK) else [name for name in chosen if name in named]:
                _record(project, name, missing_ok=True)
        return site.write(project)


def page(project: Project, notebook: str, *, record: bool = False, **options: Any) -> Path:
    """Runs one notebook with options of `execution.run`, whether or not it has changed, and makes its page."""
    with _alone(project):
        key = "" if options.get("parameters") else _key(project, notebook, options.get("preset"))
        with _Progress(project, [notebook]) as bar:
            _run(project, notebook, bar, key=key, **options)
        if record:
            _record(project, notebook, missing_ok=False)
        site.write(project)
    return project.site / "_executed" / f"{notebook}.html"


def _chosen(project: Project, only: Iterable[str]) -> list[str]:
    known, chosen = project.names(), set[str]()
    inside = {caption.lower(): {*names} & {*known} for caption, names in site.parts(project).items()}
    parts = {caption: names for caption, names in inside.items() if names}
    for word in only:
        if word not in known and word.lower() not in parts:
            listed = ", ".join([*known, *(f'"{part}"' for part in parts)])
            raise BiaslibError(f"there is no notebook or part {word!r}: choose {listed}.")
        chosen |= {word} if word in known else parts[word.lower()]
    return [name for name in known if not chosen or name in chosen]


def _key(project: Project, notebook: str, preset: str | None) -> str:
    """Hash of everything that a page is made from."""
    given = parameters.of_preset(project, preset, notebook)
    text = (project.notebooks / f"{notebook}.md").read_text(encoding="utf-8")
    preset = preset or parameters.QUICK
    files = [file for file in sorted(project.recorded.glob("*.json")) if file.stem.rpartition("-")[0] in text]
    # but for what this very run records
    records = [file.read_text(encoding="utf-8") for file in files if file.stem != f"{notebook}-{preset}"]
    data = []
    if re.search(r"datasets|chapters\.papers|submissions|transformers|repairs", text):  # what is here, or was sent
        data = sorted(folder.name for folder in registry.root().glob("*") if folder.is_dir())
        for tables in ("published/*.csv", "submissions/*/*.*", "transformers/*.py", "repairs/*.py"):
            data += [file.read_text(encoding="utf-8") for file in sorted((project.root / "data").glob(tables))]
    package = fingerprint.of_package()
    return fingerprint.of_value([text, repr(given), preset, package, records, data, results.versions()])


def _run_all(project: Project, todo: Mapping[str, Mapping], jobs: int | None, scheduler: str | None) -> None:
    """Runs notebooks side by side, each with its own options of `execution.run`."""
    if not todo:
        return
    jobs = max(1, min(len(todo), jobs or parallel.cores()))
    failures: list[Exception] = []
    tqdm.write(f"running {len(todo)} of {len(project.names())} notebooks, {jobs} at a time")
    threads = max(1, parallel.cores() // jobs)
    # where their trainings go; notebooks that do not follow one another have no workers to share
    alone = scheduler or os.environ.get("BIASLIB_SCHEDULER") or len(todo) <= jobs
    workers = contextlib.nullcontext(scheduler) if alone else parallel.shared_workers()
    with workers as address, _Progress(project, list(todo)) as bar, contextlib.ExitStack() as end:
        pool = ThreadPoolExecutor(jobs)
        # unlike the pool's own `with`: whoever interrupts a build does not wait for the notebooks that are running
        end.callback(pool.shutdown, wait=False, cancel_futures=True)
        run = functools.partial(_run, project, bar=bar, threads=threads, scheduler=address)
        # a long page that is begun last would keep one core busy while the others wait
        running = {pool.submit(run, name, **todo[name]): name for name in bar.pages}
        for future in as_completed(running):
            try:
                future.result()
            except (BiaslibError, PageError) as error:
                failures.append(error)
                tqdm.write(f"{running[future]}: failed")
    if failures:
        kind = BiaslibError if all(isinstance(failure, BiaslibError) for failure in failures) else PageError
        raise kind("\n".join(str(failure) for failure in failures))


def _run(project: Project, notebook: str, bar: "_Progress", **options: Any) -> None:
    """Runs one notebook for its page, with the options of `execution.run`, and shows how far it is."""
    cells = sum(cell.cell_type == "code" for cell in execution.read(project, notebook).cells)
    options |= {"on_cell": lambda: bar.advance(notebook, 1 / cells), "bars": bar.bars(notebook)}
    seconds = None
    bar.begin(notebook)
    try:
        seconds = execution.run(project, notebook, project.page(notebook), **options)["seconds"]
    finally:
        bar.end(notebook, seconds)


def _record(project: Project, notebook: str, *, missing_ok: bool) -> None:
    about = execution.about(project.page(notebook))
    if about and (about["recorded"]["values"] or not missing_ok):
        file = recorded.write(notebook, about)
        tqdm.write(f"{notebook}: recorded in {file.relative_to(project.root)}")


def _prune(project: Project) -> None:
    """Removes the pages of notebooks that are gone and what killed builds have left."""
    for file in project.executed.glob("*.ipynb"):
        if file.stem not in project.names():
            file.unlink()
    for folder in (*project.executed.glob(".partial-*"), *project.output.glob(".partial-*")):
        shutil.rmtree(folder)


@contextlib.contextmanager
def _alone(project: Project) -> Iterator[None]:
    """Holds the build's lock, so that two builds of one checkout do not mix."""
    project.output.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(project.output / ".lock")
    try:
        held = lock.acquire(timeout=0)
    except filelock.Timeout:
        tqdm.write("waiting for another build of this checkout to end")
        held = lock.acquire()
    with held:
        yield


def _expected_seconds(project: Project, notebooks: list[str]) -> dict[str, float]:
    """About how long each page takes by itself, with its defaults and an empty store; the longest first."""
    file = project.notebooks / "seconds.yml"
    known = yaml.safe_load(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return dict(sorted(((name, float(known.get(name, _USUAL))) for name in notebooks), key=lambda item: -item[1]))


class _Progress(contextlib.ExitStack):
    """A line for each page begun and done, and a bar over all, in seconds of their expected time; shown in a `with`.

    On a terminal the bar also tells what the pages compute at the moment; elsewhere a line says it once. `pages` are in
    the order in which they had best begin.
    """

    def __init__(self, project: Project, notebooks: list[str]) -> None:
        super().__init__()
        self._expected = _expected_seconds(project, notebooks)
        self.pages = list(self._expected)
        self._started = time.monotonic()
        self._done: list[float] = []  # seconds that were expected of the pages that are done
        self._running: dict[str, str] = {}  # page -> what it computes
        project.executed.mkdir(parents=True, exist_ok=True)
        self._folder = self.enter_context(store.scratch(project.executed))
        words = "{percentage:3.0f} % |{bar:20}| {elapsed} gone, about {remaining} to go{postfix}"
        total, silent = sum(self._expected.values()), not sys.stderr.isatty()
        self._bar = self.enter_context(tqdm(total=total, bar_format=words, disable=silent))
        self._ended = threading.Event()
        watch = threading.Thread(target=self._follow, daemon=True)
        watch.start()
        self.callback(watch.join)
        self.callback(self._ended.set)

    def bars(self, page: str) -> Path:
        """The file into which the page writes the bars of its longer computations."""
        return self._folder / page

    def begin(self, page: str) -> None:
        tqdm.write(f"{page}: running")
        self._running[page] = ""

    def advance(self, page: str, share: float) -> None:
        """Moves the bar by a share of the page's time."""
        self._bar.update(share * self._expected[page])

    def end(self, page: str, seconds: float | None) -> None:
        """Says that a page was done in so many seconds; None: it failed, and something else says so."""
        self._running.pop(page, None)
        if seconds is None:
            return
        self._done.append(self._expected[page])
        left = (time.monotonic() - self._started) * (sum(self._expected.values()) / sum(self._done) - 1)
        rest = f", about {recorded.duration(left)} to go" if len(self._done) < len(self.pages) else ""
        count = f" ({len(self._done)} of {len(self.pages)} pages{rest})" if len(self.pages) > 1 else ""
        tqdm.write(f"{page}: done in {recorded.duration(seconds)}{count}")

    def _follow(self) -> None:
        while not self._ended.wait(_LOOK):
            for page, before in list(self._running.items()):
                now = self._computing(page)
                task, _, counts = now.partition(": ")
                if self._bar.disable and task and task != before.partition(": ")[0]:
                    tqdm.write(f"{page}: {task}, {counts.rpartition('/')[2]} in all")
                if page in self._running:
                    self._running[page] = now
            self._bar.set_postfix_str("; ".join(f"{page} {now}" for page, now in self._running.items() if now))

    def _computing(self, page: str) -> str:
        """The last bar that the page wrote, such as "computing model: 3/15"; empty where there is none."""
        with contextlib.suppress(OSError):
            text = self.bars(page).read_text(encoding="utf-8")
            return text.replace("\n", "\r").rstrip("\r ").rpartition("\r")[2]
        return ""
