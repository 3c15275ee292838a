"""The `biaslib` command."""

import inspect
import os
import re
import sys
import tomllib
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

from biaslib import dial
from biaslib.book import need_libraries
from biaslib.errors import BiaslibError, PageError

# Only typer is imported here: torch and the libraries of the book take seconds, and `--help` should not.
_SHOWN, _INTERRUPTED = 10, 130  # the second is what typer makes of Ctrl-C
_TABLE = tomllib.loads(Path(__file__).with_name("options.toml").read_text(encoding="utf-8"))
_PLAIN: dict[str, Any] = {"rich_markup_mode": None, "no_args_is_help": True, "pretty_exceptions_enable": False}
# the kinds of values in the table
_KINDS: dict[str, Any] = {"path": Path, "text": str, "texts": list[str], "flag": bool, "number": float, "count": int}
_KINDS |= {"counts": list[int], "colour": tuple[float, float, float]}
_WITH: Any = Annotated  # what only the table knows is no type to mypy


def _examples(command: str) -> str:
    # the backspace character keeps click from joining the lines
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in _TABLE["examples"][command])))


app = typer.Typer(
    help="Run the book's experiments, build its pages, look after its data.", epilog=_examples("biaslib"),
    add_completion=False, **_PLAIN,
)  # fmt: skip
_store_app = typer.Typer(help="Look at and clear the store of computed results.", **_PLAIN)
_data_app = typer.Typer(help="List, fetch and check the data sets.", **_PLAIN)
_capstone = typer.Typer(
    help="Seal the course's project for each team, and score what they state.", no_args_is_help=True
)
for _of, _name in ((_store_app, "store"), (_data_app, "data"), (_capstone, "capstone"), (dial.commands, "dial")):
    app.add_typer(_of, name=_name)


def _as_in_the_table(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options that `options.toml` has under its name."""
    options = []
    for name, (kind, text, *more) in _TABLE["options"][command.__name__.lstrip("_")].items():
        said = {"show_default": False, "help": text} | dict(*more)
        # by its name alone a flag has another one beside it that begins with --no-
        names = said.pop("names", [f"--{name.replace('_', '-')}"] if kind == "flag" else [])
        needed, default = said.pop("needed", False), said.pop("default", None)
        made = typer.Argument(**said) if said.pop("argument", False) else typer.Option(*names, **said)
        annotation = _WITH[_KINDS[kind] if needed else _KINDS[kind] | None, made]
        default = inspect.Parameter.empty if needed else default
        options.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation))
    command.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return command


def main() -> None:
    """Runs the command; a user's mistake becomes one sentence and exit code 2, a failed page exit code 1."""
    try:
        app()
    except (BiaslibError, PageError) as error:
        _stop(str(error), code=1 if isinstance(error, PageError) else 2)
    except SystemExit as stopped:
        if stopped.code == _INTERRUPTED:
            print("biaslib: interrupted; what was finished is kept.", file=sys.stderr, flush=True)
            # at once, without waiting for the threads that watch running notebooks; their kernels end with this process
            os._exit(_INTERRUPTED)
        raise
    except OSError as error:
        if error.filename is None:
            raise
        _stop(f"{error.strerror}: {error.filename}", code=2)


@app.command("course", epilog=_examples("course"))
@_as_in_the_table
def _course(version: str, out: Path) -> None:
    """Write the course's labs as notebooks: with open exercises, with answers, or with the teacher's notes, too."""
    need_libraries("course")
    from biaslib.book import find_project, lab

    print(*lab.hand_out(find_project(), version, out), sep="\n")


@app.command("build", epilog=_examples("build"))
@_as_in_the_table
def _build(*, only: list[str] | None, **options: Any) -> None:
    """Run the notebooks that have changed and make the pages."""
    need_libraries("build")
    from biaslib.book import building, find_project

    print(f"the book is at {building.build(find_project(), only=only or (), **options)}")


@app.command("run", epilog=_examples("run"))
@_as_in_the_table
def _run(
    notebook: str, parameter: list[str] | None, out: Path | None, *, record: bool | None, open_page: bool | None,
    dry_run: bool | None, compare: bool | None, preset: str | None, scheduler: str | None,
) -> None:  # fmt: skip
    """Run one notebook, with other parameters if you like, and make its page.

    The page says at its top which parameters are not the book's. `biaslib build` makes the book's own page again.
    """
    need_libraries("run")
    from biaslib.book import building, claims, execution, find_project

    if (out is not None or dry_run or compare) and (record or open_page):
        option = "--dry-run" if dry_run else "--compare" if compare else "--out"
        raise BiaslibError(f"{option} makes no page, so there is nothing to record or open: leave one out.")
    here = find_project()
    given = execution.read_parameters(here, notebook, parameter or ())
    if dry_run:
        from biaslib.book import plan

        print(plan.of(here, notebook, given=given, preset=preset).text())
    elif compare:
        print(claims.compare(here, notebook, given=given, preset=preset, scheduler=scheduler))
    elif out is not None:
        execution.run(here, notebook, out, parameters=given, preset=preset, scheduler=scheduler)
        print(f"the executed notebook is at {out}")
    else:
        page = building.page(here, notebook, parameters=given, preset=preset, record=bool(record), scheduler=scheduler)
        print(f"the page is at {page}")
        if open_page:
            webbrowser.open(page.as_uri())


@app.command("grow", epilog=_examples("grow"))
@_as_in_the_table
def _grow(name: str, source: str | None, out: Path | None, *, option: list[str] | None, **options: Any) -> None:
    """Train a generator of faces and its encoder: one of the book's anew, which takes about an hour, or your own.

    A training that was stopped goes on where it was, that of the encoder too.
    """
    if bool(name) == bool(source or out) or bool(source) != bool(out):
        raise BiaslibError("Give the name of one of the book's generators alone, or --source and --out of your own.")
    if name:
        need_libraries("grow")
    from biaslib.book import find_project
    from biaslib.chapters import face_generators

    if source and out:
        setup = face_generators.configured(source, options=option or (), **options)
        print(f"the generator is at {face_generators.train_to(setup, out)}")
    else:
        find_project()  # before an hour of training, not after it
        print(f"the generator is at {face_generators.train_for_book(name)}")


class _WithColours(TyperCommand):
    """Takes --mean and --std with spaces or commas between their numbers."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = list[str]()
        for said in re.split(r"\0(?=--)", "\0".join(args)) if args else []:  # an option with its values
            option, *values = re.split(r"[\0=,\s]+", said.rstrip(", "))
            if (colour := option in ("--mean", "--std")) and len(values) != 3:
                raise BiaslibError(f"{option} is three numbers, such as 0.5 0.5 0.5, not {' '.join(values)!r}.")
            words += [option, *values] if colour else said.split("\0")
        return super().parse_args(ctx, words)


@app.command("audit", cls=_WithColours, epilog=_examples("audit"))
@_as_in_the_table
def _audit(**asked: Any) -> None:
    """Measure the bias of your own model, or of its predictions, on your own images.

    Writes a page, numbers, answers, and a model card and an annex that you fill in and keep. A stopped audit goes on.
    """
    from biaslib import audit as audits
    from biaslib.audit.model import class_numbers

    fail_on = asked.pop("fail_on")
    limit = None if fail_on is None else audits.findings.gap_limit(fail_on)
    asked |= {name: class_numbers(asked[name]) for name in ("yes", "no") if asked[name] is not None}
    asked["bins"] = {
        name: edges.split(",") for name, _, edges in (text.rpartition("=") for text in asked["bins"] or ())
    }
    asked |= {"groups": asked.pop("group"), "group_outputs": asked.pop("group_output")}
    asked |= {"corrected": not asked.pop("uncorrected"), "images": not asked.pop("no_images")}
    # what was not given is as in `audit.run`
    result = audits.run(**{name: value for name, value in asked.items() if value is not None})
    sys.stderr.writelines(f"{remark}\n" for remark in result.remarks())
    print(*result.conclusions(), f"the report is at {asked['out'] / 'report.html'}", sep="\n")
    if fail_on is not None and (why := audits.findings.failure(result, limit)):
        _stop(f"stopped as --fail-on {fail_on} asks: {why}.", code=3)


@_capstone.command("seal")
@_as_in_the_table
def _seal(secret: str, *, teams: int, out: Path) -> None:
    """Train a model for each team, and write what it gets. A stopped call goes on.

    The same secret gives the same folders. Keep it: without it nobody can score them.
    """
    from biaslib.book.course import capstone

    print(*capstone.seal(secret, teams=teams, out=out), sep="\n")


@_capstone.command("score")
@_as_in_the_table
def _score(secret: str, **folders: Path) -> None:
    """Compare the teams' forms with the exact effects: up to 60 points. Nothing that was handed in is run."""
    from biaslib.book.course import capstone

    print(capstone.score(secret, **folders).round(1).to_string(na_rep="no form"))


@_store_app.command("ls")
def _store_ls() -> None:
    """List the stored results, oldest first."""
    from tqdm import tqdm

    from biaslib import store

    entries = store.entries()
    for entry in entries:
        cost = f"{tqdm.format_sizeof(entry.bytes, 'B'):>9} {entry.seconds:8.1f} s"
        print(f"{entry.kind}/{entry.key}  {entry.created}  {cost}  {entry.config[:60]}")
    print(f"{len(entries)} entries, {tqdm.format_sizeof(sum(each.bytes for each in entries), 'B')}, in {store.root()}")


@_store_app.command("rm")
def _store_rm(prefix: Annotated[str, typer.Argument(help="Kind, key or its beginning, or kind/key.")]) -> None:
    """Remove stored results; what is needed again is computed again."""
    from biaslib import store

    if not (removed := store.remove(prefix)):
        _stop(f"nothing in the store matches {prefix!r}; `biaslib store ls` shows what there is.", code=2)
    print(f"removed {removed} entries")


@_store_app.command("verify")
def _store_verify() -> None:
    """Check every stored result against its checksum; exit code 1 where one is damaged."""
    from biaslib import store

    if damaged := store.verify():
        print(*damaged, sep="\n")
        _stop(f"{len(damaged)} damaged; they are computed again when next needed, or remove them now.", code=1)
    print(f"{len(store.entries())} entries, all whole")


@_data_app.command("list")
def _data_list() -> None:
    """List the data sets: what is here, its licence and its official source."""
    from biaslib import datasets

    for row in datasets.listing().to_dict("records"):
        state = "here" if row["here"] == "yes" else f"not here; {row['get']}"
        print(f"{row['name']}  ({state})")
        for key in ("title", "licence", "terms", "source", "papers"):
            print(f"    {key + ':':9} {row[key]}")
    print(f"they are looked for in {datasets.root()}; BIASLIB_DATA names another folder")


@_data_app.command("fetch")
def _data_fetch(name: Annotated[str, typer.Argument(help="As `data list` shows it.")]) -> None:
    """Download a data set from its official source, where its licence allows that, and check it."""
    from biaslib import datasets

    print(f"{name} is at {datasets.fetch(name)}")


@_data_app.command("waterbirds")
def _data_waterbirds(bias: Annotated[int, typer.Argument(help="Birds in their usual place, in per cent.")]) -> None:
    """Make Waterbirds of a bias from CUB's birds and photos of Places365, where they are here."""
    from biaslib.worlds import photos

    print(f"Waterbirds of {bias} % is at {photos.write_waterbirds(bias)}")


@_data_app.command("check")
def _data_check(name: Annotated[str, typer.Argument(help="As `data list` shows it.")]) -> None:
    """Compare the files of a data set with their known sizes and checksums; exit code 1 where something is wrong."""
    from biaslib import datasets

    files = datasets.check(name)
    wrong = files[~files["state"].isin(["ok", "present"])]
    for row in wrong.head(_SHOWN).to_dict("records"):
        print(f"{row['state']}: {row['file']} {row['detail']}".rstrip())
    if len(wrong):
        _stop(f"{len(wrong)} of {len(files)} files of {name} are not right; `biaslib data list` says more.", code=1)
    print(f"{len(files)} files of {name}, all there")


@app.command("version")
def _version() -> None:
    """Print the versions that the book's numbers depend on."""
    from biaslib.store import results

    print(*(f"{library} {number}" for library, number in results.versions().items()), sep="\n")


def _stop(sentence: str, *, code: int) -> NoReturn:
    print(f"biaslib: {sentence}", file=sys.stderr)
    sys.exit(code)
