"""Says how far a build is: which pages are done, what the others compute, and how long the rest may take."""

import contextlib
import sys
import threading
import time
from pathlib import Path

import yaml
from tqdm import tqdm

from biaslib import store
from biaslib.book import recorded
from biaslib.book.project import Project

_USUAL = 30.0  # seconds of a page of which nothing is known
_LOOK = 0.5  # seconds between two looks at what the pages compute


def _expected_seconds(project: Project, notebooks: list[str]) -> dict[str, float]:
    """About how long each page takes by itself, with its defaults and an empty store; the longest first."""
    file = project.notebooks / "seconds.yml"
    known = yaml.safe_load(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return dict(sorted(((name, float(known.get(name, _USUAL))) for name in notebooks), key=lambda item: -item[1]))


class Progress:
    """A line for each page begun and done, and a bar over all, in seconds of their expected time; shown in a `with`.

    On a terminal the bar also tells what the pages compute at the moment; elsewhere a line says it once. `pages` are in
    the order in which they had best begin.
    """

    def __init__(self, project: Project, notebooks: list[str]) -> None:
        self._expected = _expected_seconds(project, notebooks)
        self.pages = list(self._expected)
        self._started = time.monotonic()
        self._done: list[float] = []  # seconds that were expected of the pages that are done
        self._running: dict[str, str] = {}  # page -> what it computes
        project.executed.mkdir(parents=True, exist_ok=True)
        self._scratch = contextlib.ExitStack()
        self._folder = self._scratch.enter_context(store.scratch(project.executed))
        self._bar = tqdm(
            total=sum(self._expected.values()),
            bar_format="{percentage:3.0f} % |{bar:20}| {elapsed} gone, about {remaining} to go{postfix}",
            disable=not sys.stderr.isatty(),
        )
        self._ended = threading.Event()
        self._watch = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> "Progress":
        self._watch.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._watch.join()
        self._bar.close()
        self._scratch.close()

    def bars(self, page: str) -> Path:
        """The file into which the page writes the bars of its longer computations."""
        return self._folder / page

    def begin(self, page: str) -> None:
        """Says that a page is running."""
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
        try:
            text = self.bars(page).read_text(encoding="utf-8")
        except OSError:
            return ""
        last = text.replace("\n", "\r").rstrip("\r ").rpartition("\r")[2]
        task, _, rest = last.partition(":")
        counts = rest.rpartition("| ")[2].partition(" [")[0]
        return f"{task}: {counts}" if counts else ""
