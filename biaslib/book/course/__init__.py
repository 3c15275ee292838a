"""The course: labs with exercises that are checked, as pages of the book and as notebooks to hand out.

Here are `biaslib course` and `biaslib capstone`. Only typer is imported, as `biaslib --help` reads this module.
"""

from pathlib import Path
from typing import Annotated

import typer

capstone = typer.Typer(help="Seal the course's project for each team, and score what they state.", no_args_is_help=True)
_Secret = Annotated[str, typer.Option(help="Words that nobody guesses; else asked for.", prompt=True, hide_input=True)]


def course(
    version: Annotated[str, typer.Argument(help="student, solution (also run) or instructor.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The folder to write into.", show_default=False)],
) -> None:
    """Write the course's labs as notebooks: with open exercises, with answers, or with the teacher's notes, too."""
    from biaslib.book import find_project, need_libraries

    need_libraries("course")
    from biaslib.book import lab

    print(*lab.hand_out(find_project(), version, out), sep="\n")


@capstone.command("seal")
def _seal(
    secret: _Secret,
    out: Annotated[Path, typer.Option(help="The folder to write into, one a team.", show_default=False)],
    teams: Annotated[int, typer.Option(help="How many, from 1 to 99.")] = 12,
) -> None:
    """Train a model for each team, and write what it gets. A stopped call goes on.

    The same secret gives the same folders. Keep it: without it nobody can score them.
    """
    from biaslib.book.course import sealing

    print(*sealing.seal(secret, teams=teams, out=out), sep="\n")


@capstone.command("score")
def _score(
    secret: _Secret,
    handout: Annotated[Path, typer.Option(help="The folder that was sealed.", show_default=False)],
    forms: Annotated[Path, typer.Option(help="A folder with what each team handed in.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The folder for points.csv and a sheet a team.", show_default=False)],
) -> None:
    """Compare the teams' forms with the exact effects: up to 60 points. Nothing that was handed in is run."""
    from biaslib.book.course import scoring

    print(scoring.score(secret, handout=handout, forms=forms, out=out).round(1).to_string(na_rep="no form"))
