"""Where the book lies, and in its modules: run a notebook, run them all, record their numbers, make the pages.

This front door imports none of them, since every notebook reads records and should not wait for what builds books.
"""

import importlib.util
from pathlib import Path

from biaslib.errors import BiaslibError, refused

_LIBRARIES = ("jupyter_book", "jupytext", "nbformat", "papermill")  # some of what the extra [book] brings


class Project:
    """The folders of one checkout of the book, and its notebooks."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.notebooks = root / "notebooks"  #: the experiments, one text notebook each
        self.presets = self.notebooks / "presets"  #: one YAML file a preset, notebook -> parameters
        self.book = root / "book"  #: the narrative pages and the table of contents
        self.executed = self.book / "_executed"  #: the executed notebooks that the pages are made of
        self.generated = self.book / "_generated"  #: fragments that a build writes for the narrative pages to include
        self.recorded = self.book / "recorded"  #: the numbers of earlier, larger runs
        self.output = root / "_build"  #: everything a build makes and a reader looks at
        self.site = self.output / "html"  #: the finished pages

    def names(self) -> list[str]:
        """The notebooks of the book, by name."""
        return sorted(file.stem for file in self.notebooks.glob("*.md") if file.name != "README.md")

    def page(self, notebook: str) -> Path:
        """Where an executed notebook lies."""
        return self.executed / f"{notebook}.ipynb"


def find_project() -> Project:
    """The project around the current folder, else the checkout that this package is installed from."""
    here = Path.cwd()
    for root in (here, *here.parents, Path(__file__).resolve().parents[2]):
        if (root / "_config.yml").is_file() and (root / "notebooks").is_dir():
            return Project(root)
    raise BiaslibError(f"{here} is not inside a checkout of the book: change into the folder that holds _config.yml.")


def need_libraries(command: str) -> None:
    """Refuses a command of the book where the libraries that the book is made with are missing."""
    if missing := [name for name in _LIBRARIES if importlib.util.find_spec(name) is None]:
        raise refused("missing libraries", command=command, missing=", ".join(missing))
