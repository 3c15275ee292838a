"""One instrument beside another on the same models of a known bias, and the door for the metrics of others.

    from biaslib import dial

    @dial.metric(name="Spread of the map", tier=3, side="above", passes=3)
    def spread(case):
        return case.map.std(axis=(1, 2))

`biaslib dial run spread.py` gives it a row beside the book's metrics. Here are `biaslib dial`'s commands; only typer is
imported, as `biaslib --help` reads this module.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

commands = typer.Typer(help="Put a metric of your own on the board of the dial.", no_args_is_help=True)
_Files = Annotated[list[Path], typer.Argument(help="Python files with your metrics. They are run.", show_default=False)]


def __getattr__(name: str) -> Any:
    """`metric` and `repair`, without which nothing here needs torch."""
    if name in ("metric", "repair"):
        from biaslib.dial import entries, repairing

        return {"metric": entries.metric, "repair": repairing.repair}[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@commands.command("check")
def _check(files: _Files) -> None:
    """Ask your metric about two small models: does it answer, alike each time, and see no more than its tier?"""
    from biaslib.dial import board, entries

    print("\n".join(board.check(entries.read(files))))


@commands.command("run")
def _run(
    files: _Files,
    world: Annotated[list[str] | None, typer.Option(help="birds, pets, ... or a file; may be repeated.")] = None,
    models: Annotated[int, typer.Option(help="How many at each strength.", min=2)] = 3,
    references: Annotated[int, typer.Option(help="How many unbiased ones a world.", min=3)] = 10,
    images: Annotated[int, typer.Option(help="That each model is trained on.", min=50)] = 1200,
    test_images: Annotated[int, typer.Option(help="That it is measured on.", min=50)] = 1000,
    architecture: Annotated[str | None, typer.Option(help="Of all models; else each world's usual one.")] = None,
    zoo: Annotated[list[Path] | None, typer.Option(help="Trained models: wheel or folder, else installed.")] = None,
    out: Annotated[Path | None, typer.Option(help="A folder for the board and what it is made of.")] = None,
) -> None:
    """Train the dial's models, measure them with your metric and the book's, and print the board.

    What was trained, or is in a zoo, stays in the store: a second run takes seconds, and a stopped one goes on.
    """
    from biaslib.dial import board, entries

    read, worlds = entries.read(files), world or ["birds", "pets"]
    asked: dict[str, Any] = {"models": models, "references": references, "images": images, "test_images": test_images}
    asked |= {"architecture": architecture} if architecture else {}  # folders without it are of the usual ones
    trials = board.trials(worlds, **asked)
    print(f"{board.from_zoo(trials, zoo or ())} of {len(trials)} models are in a zoo")
    rows, numbers = board.run(read, trials)
    print(board.as_text(rows, read))
    if out is not None:
        print(f"the board is at {board.write(out, files, read, rows, numbers, **asked)}")


@commands.command("repair")
def _repair(
    files: Annotated[list[Path], typer.Argument(help="Python files with your repairs. They are run.")],
    world: Annotated[list[str] | None, typer.Option(help="birds, pets, ... or a file; may be repeated.")] = None,
    models: Annotated[int, typer.Option(help="How many at each strength.", min=2)] = 3,
    references: Annotated[int, typer.Option(help="How many unbiased ones a world.", min=2)] = 5,
    labels: Annotated[list[int] | None, typer.Option(help="Of the cue; may be repeated.", min=0)] = None,
    images: Annotated[int, typer.Option(help="That each model is trained on.", min=50)] = 1200,
    test_images: Annotated[int, typer.Option(help="That it is measured on.", min=50)] = 1000,
    out: Annotated[Path | None, typer.Option(help="A folder for the numbers and what they are made of.")] = None,
) -> None:
    """Repair the dial's models, and print what is left of the true effect of the cue."""
    from biaslib.dial import board, entries, repairing

    read, worlds, budgets = entries.read(files, what="repair"), world or ["birds", "pets"], labels or [40, 200]
    asked: dict[str, Any] = {"models": models, "references": references, "images": images, "test_images": test_images}
    numbers = repairing.numbers(read, board.trials(worlds, **asked), budgets)
    table = repairing.summary(numbers)
    print(table[table["world"] == "all"].drop(columns="world").to_string(index=False))
    if out is not None:
        tables, of = {"repairs": table, "numbers": numbers}, {"protocol": board.PROTOCOL}
        print(f"the tables are at {board.write_folder(out, 'repairs', files, tables, of, asked | {'labels': budgets})}")
