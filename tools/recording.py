"""Makes the records of larger runs that the book's pages show: `make record`.

    python -m tools.recording [NAME ...]

makes those that are missing or not of their presets as they stand, one part after another, and commits each when it
ends, so that a killed call goes on with the next; what it trained stays in the store.
"""

import subprocess
import sys

from biaslib.book import Project, execution, find_project, parameters, recorded
from biaslib.errors import BiaslibError

# those that records are made with on two cores, in this order: what reads all parts of the dial's record comes last
MADE_WITH = (
    "standard_2",
    "standard_3",
    "standard_4",
    "standard_5",
    "real",
    "real_2",
    "photos_224",
    "photos_224_early",
    "standard",
)


def stale(project: Project) -> list[tuple[str, str]]:
    """The chapters, with their presets, whose record is missing, of other parameters, or of a commit with edits."""
    return [pair for pair in _wanted(project) if not _is_current(project, *pair)]


def make(project: Project, names: list[str]) -> None:
    """Runs and records the stale chapters, or those of these names, and commits each record.

    A `BiaslibError` is raised where tracked files differ from the commit that a record would name, where a name has no
    preset to record, and where data are missing.
    """
    known = _wanted(project)
    unknown = [name for name in names if name not in dict(known)]
    if unknown:
        raise BiaslibError(f"{unknown[0]} is recorded with no preset: choose {', '.join(sorted(dict(known)))}.")
    parts = [pair for pair in known if pair[0] in names] if names else stale(project)
    print(f"{len(parts)} to record: {', '.join(f'{name} ({preset})' for name, preset in parts) or 'none'}", flush=True)
    for name, preset in parts:
        if edited := _git(project, "status", "--porcelain", "--untracked-files=no").splitlines():
            raise BiaslibError(
                f"{len(edited)} tracked files differ from the last commit ({edited[0].split()[-1]}): commit them "
                "first, as a record names the commit that it was made with."
            )
        about = execution.run(project, name, project.output / "recording" / f"{name}.ipynb", preset=preset)
        file = recorded.write(name, about)
        words = f"Record of {name}, preset {preset}: {recorded.duration(about['seconds'])}"
        _git(project, "add", str(file))
        _git(project, "commit", "--quiet", "--message", words, str(file))
        print(words, flush=True)


def _wanted(project: Project) -> list[tuple[str, str]]:
    return [(name, preset) for preset in MADE_WITH for name in parameters.from_preset(project, preset)]


def _is_current(project: Project, name: str, preset: str) -> bool:
    if "recorded.put(" not in (project.notebooks / f"{name}.md").read_text(encoding="utf-8"):
        return True  # there is nothing to record
    if (record := recorded.get(name, preset)) is None or str(record["commit"]).endswith("-dirty"):
        return False
    _, defaults, changed = execution.opened(project, name, parameters=None, preset=preset)
    # a parameter that came later, with its default, changes nothing, and neither does one that the page has no more
    ran = {key: value for key, value in record["parameters"].items() if key in defaults}
    return {**defaults, **ran} == {**defaults, **changed}


def _git(project: Project, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(project.root), *arguments], capture_output=True, text=True)
    if done.returncode:
        raise BiaslibError(f"git {arguments[0]} failed ({done.stderr.strip()}): records are kept in a git checkout.")
    return done.stdout


if __name__ == "__main__":
    try:
        make(find_project(), sys.argv[1:])
    except BiaslibError as error:
        print(f"biaslib: {error}", file=sys.stderr)
        sys.exit(2)
