"""`biaslib course`. Only typer is imported here, as `biaslib --help` reads this module."""

from pathlib import Path
from typing import Annotated

import typer


def course(
    version: Annotated[str, typer.Argument(help="student, solution (also run) or instructor.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The folder to write into.", show_default=False)],
) -> None:
    """Write the course's labs as notebooks: with open exercises, with answers, or with the teacher's notes, too."""
    from biaslib.book import find_project, need_libraries

    need_libraries("course")
    from biaslib.book import lab

    print(*lab.hand_out(find_project(), version, out), sep="\n")
