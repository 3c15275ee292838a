"""Where the book lies on this machine."""

from dataclasses import dataclass
from pathlib import Path

from biaslib.errors import BiaslibError


@dataclass(frozen=True)
class Project:
    """The folders of one checkout of the book."""

    root: Path

    @property
    def notebooks(self) -> Path:
        """The experiments, one text notebook each."""
        return self.root / "notebooks"

    @property
    def presets(self) -> Path:
        """One YAML file a preset: notebook -> parameters."""
        return self.notebooks / "presets"

    @property
    def book(self) -> Path:
        """The narrative pages and the table of contents."""
        return self.root / "book"

    @property
    def executed(self) -> Path:
        """The executed notebooks that the pages are made of."""
        return self.book / "_executed"

    @property
    def generated(self) -> Path:
        """Fragments that a build writes for the narrative pages to include."""
        return self.book / "_generated"

    @property
    def recorded(self) -> Path:
        """The numbers of earlier, larger runs."""
        return self.book / "recorded"

    @property
    def output(self) -> Path:
        """Everything a build makes and a reader looks at."""
        return self.root / "_build"

    @property
    def site(self) -> Path:
        """The finished pages."""
        return self.output / "html"


def find() -> Project:
    """The project around the current folder, else the checkout that this package is installed from."""
    here = Path.cwd()
    for root in (here, *here.parents, Path(__file__).resolve().parents[2]):
        if (root / "_config.yml").is_file() and (root / "notebooks").is_dir():
            return Project(root)
    raise BiaslibError(f"{here} is not inside a checkout of the book: change into the folder that holds _config.yml.")
