"""Worlds that are held out: the SHA-256 of a world's source is published before its source is.

    python -m tools.held_out commit WORLD.py
    python -m tools.held_out reveal WORLD.py
    python -m tools.held_out check

`commit` enters a world of a file that is kept elsewhere; `reveal` takes that file, unchanged, into `data/held_out`;
`check` compares what was revealed with what was committed. The registry lies in the package, so that
`biaslib dial run --world WORLD.py` can say that it was given a world that is held out.
"""

import argparse
import datetime
import json
import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

from biaslib import worlds
from biaslib.dial import board
from biaslib.dial.trials import Trial
from biaslib.errors import BiaslibError
from biaslib.store import replacing
from biaslib.store.files import sha256

ROOT = Path(__file__).resolve().parents[1]
REGISTRY = Path(board.__file__).with_name("held_out.toml")
REVEALED = "data/held_out"  # the folder of the sources that are no longer held out
_HEAD = """\
# Worlds that are held out (`python -m tools.held_out`): the SHA-256 of the source, the day of the commitment, the
# protocol it is for, and, once the source is revealed, where that lies.
"""


def read(registry: Path = REGISTRY) -> dict[str, dict[str, Any]]:
    """What the registry says of each world, by its name."""
    return tomllib.loads(registry.read_text(encoding="utf-8"))


def commit(file: Path, registry: Path = REGISTRY) -> str:
    """Enters a world of a file, by its name. A `BiaslibError` is raised where it is no world of the dial, or is known.

    It is drawn once before, with and without its cue, and its place on the dial is read.
    """
    name, known = worlds.get(str(file)).name, read(registry)
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name in {*known, *worlds.names()}:
        raise BiaslibError(f"{name!r} is taken, or not a word of small letters: give the world another name.")
    trial = Trial(world=str(file.resolve()), strength=1.0, images=8, test_images=8, explained=8)
    regions = {*trial.place.regions, *trial.place.cue_regions}
    if missing := regions - {*trial.data.with_masks().masks}:
        raise BiaslibError(f"PLACE in {file} names regions that the world has not: {', '.join(sorted(missing))}.")
    pairs = [trial.drawn_by.render(trial.edited(trial.data.table(), there), regions=()).images for there in (0, 1)]
    if (pairs[0] == pairs[1]).all():
        raise BiaslibError(f"The pictures of {file} are the same with the cue and without it: draw the cue.")
    today = datetime.datetime.now(datetime.UTC).date()
    told = {"sha256": sha256(file), "committed": today, "protocol": board.PROTOCOL}
    _write(registry, known | {name: told})
    return name


def reveal(file: Path, registry: Path = REGISTRY, root: Path = ROOT) -> Path:
    """Takes the source of a world into the repository. It has to be, to the byte, what was committed."""
    known, given = read(registry), sha256(file)
    name = next((name for name, told in known.items() if told["sha256"] == given), None)
    if name is None:
        raise BiaslibError(f"{file} is not what was committed, to the byte: give the file as it was on that day.")
    place = f"{REVEALED}/{name}.py"
    (root / REVEALED).mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, root / place)
    _write(registry, known | {name: known[name] | {"revealed": place}})
    return root / place


def check(registry: Path = REGISTRY, root: Path = ROOT) -> list[str]:
    """A sentence for whatever is not as it should be: an entry, a revealed source, a source that nobody committed."""
    known, problems = read(registry), []
    for name, told in known.items():
        if not re.fullmatch("[0-9a-f]{64}", told["sha256"]) or not isinstance(told["committed"], datetime.date):
            problems.append(f"{name} has no SHA-256, or no day.")
        place = root / told.get("revealed", ".")
        if place != root and not (place.is_file() and sha256(place) == told["sha256"]):
            problems.append(f"{told['revealed']} is not the source of {name} that was committed.")
    named = {root / told["revealed"] for told in known.values() if "revealed" in told}
    problems += [f"{file} was never committed." for file in sorted({*(root / REVEALED).glob("*.py")} - named)]
    return problems


def _write(registry: Path, known: dict[str, dict[str, Any]]) -> None:
    parts = [_HEAD]
    for name, told in known.items():
        values = {key: f"{of}" if isinstance(of, datetime.date) else json.dumps(of) for key, of in told.items()}
        parts.append(f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in values.items()))
    with replacing(registry) as partial:
        partial.write_text("\n".join(parts), encoding="utf-8")


def main() -> None:
    """Does what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked = parser.add_subparsers(dest="command", required=True)
    for command in ("commit", "reveal"):
        asked.add_parser(command).add_argument("file", type=Path)
    asked.add_parser("check")
    given = parser.parse_args()
    try:
        if given.command == "commit":
            print(f"{commit(given.file)} is held out: keep {given.file} as it is, to the byte, where nobody reads it")
        elif given.command == "reveal":
            print(f"revealed: {reveal(given.file)}")
        else:
            problems, known = check(), read()
            open_ones = sum("revealed" in told for told in known.values())
            print("\n".join([*problems, f"committed: {len(known)}; revealed: {open_ones}"]))
            sys.exit(bool(problems))
    except BiaslibError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
