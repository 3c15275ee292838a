"""The `biaslib` command."""

import os
import re
import sys
import webbrowser
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

from biaslib import dial
from biaslib.book import course, need_libraries
from biaslib.errors import BiaslibError, PageError

# Only typer is imported here: torch and the libraries of the book take seconds, and `--help` should not.
_SHOWN, _INTERRUPTED = 10, 130  # the second is what typer makes of Ctrl-C
_PLAIN: dict[str, Any] = {"rich_markup_mode": None, "no_args_is_help": True, "pretty_exceptions_enable": False}


def _examples(*lines: str) -> str:
    # the backspace character keeps click from joining the lines
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))


app = typer.Typer(
    help="Run the book's experiments, build its pages, look after its data.",
    epilog=_examples(
        "biaslib build                       run what has changed and make the pages",
        "biaslib run waterbirds -p seed=1    one page with another parameter",
        "biaslib data list                   which data sets there are and where they come from",
        "biaslib audit --help                measure your own model on your own images",
    ),
    add_completion=False,
    **_PLAIN,
)
_store_app = typer.Typer(help="Look at and clear the store of computed results.", **_PLAIN)
_data_app = typer.Typer(help="List, fetch and check the data sets.", **_PLAIN)
app.command("course", epilog=_examples("biaslib course student --out handout"))(course.course)
for _of, _name in ((_store_app, "store"), (_data_app, "data"), (course.capstone, "capstone"), (dial.commands, "dial")):
    app.add_typer(_of, name=_name)


def _option(text: str, *names: str, default: str | bool = False, least: int | None = None) -> Any:
    return typer.Option(*names, help=text, show_default=default, min=least)


_Preset = Annotated[str | None, _option("The scale: quick (the default), smoke, standard, real, gpu or paper.")]
_Scheduler = Annotated[str | None, _option("Address of a Dask scheduler; whoever reaches it can run code here.")]
_Colour = tuple[float, float, float]
_MODEL = (
    "An architecture's name (with --weights), a folder with config.json and model.safetensors, hf-hub:REPOSITORY, an "
    "ONNX, TorchScript or torch.export file, or module:function. The last three run their maker's code when they are "
    "opened. No pickle."
)
_Record = Annotated[bool, _option("Keep the marked numbers under book/recorded.", "--record")]


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


@app.command("build", epilog=_examples("biaslib build --only waterbirds", "biaslib build --preset real --record"))
def _build(
    preset: _Preset = None,
    only: Annotated[list[str] | None, _option("A notebook or a part of the book, by name; may be repeated.")] = None,
    jobs: Annotated[int | None, _option("How many notebooks run at a time.", default="one a core", least=1)] = None,
    record: _Record = False,
    scheduler: _Scheduler = None,
) -> None:
    """Run the notebooks that have changed and make the pages."""
    need_libraries("build")
    from biaslib.book import building, find_project

    here = find_project()
    front = building.build(here, preset=preset, only=only or (), jobs=jobs, record=record, scheduler=scheduler)
    print(f"the book is at {front}")


@app.command(
    "run",
    epilog=_examples(
        'biaslib run waterbirds -p seed=1 -p "biases=[0.5, 0.9]"',
        "biaslib run waterbirds --compare -p training_images=600",
    ),
)
def _run(
    notebook: Annotated[str, typer.Argument(help="Its name, such as waterbirds.", show_default=False)],
    parameter: Annotated[
        list[str] | None,
        typer.Option("--parameter", "-p", metavar="NAME=VALUE", help="May be repeated.", show_default=False),
    ] = None,
    preset: _Preset = None,
    record: _Record = False,
    open_page: Annotated[bool, _option("Show the page in a browser.", "--open")] = False,
    out: Annotated[Path | None, _option("Write the executed notebook to this file and make no page.")] = None,
    scheduler: _Scheduler = None,
    dry_run: Annotated[bool, _option("Say what it would train and how long; run nothing.", "--dry-run")] = False,
    compare: Annotated[bool, _option("Set its claims with and without -p side by side.", "--compare")] = False,
) -> None:
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
        page = building.page(here, notebook, parameters=given, preset=preset, record=record, scheduler=scheduler)
        print(f"the page is at {page}")
        if open_page:
            webbrowser.open(page.as_uri())


@app.command("grow", epilog=_examples("biaslib grow faces-0", "biaslib grow --source celeba --out mine.safetensors"))
def _grow(
    name: Annotated[str, typer.Argument(help="Of one of the book's: faces-0.")] = "",
    source: Annotated[str | None, _option("Of another: generated, celeba or celeba-cropped.")] = None,
    size: Annotated[int, _option("Of its images: 32, 64 or 128 pixels.", default=True)] = 64,
    images: Annotated[int, _option("How many it is shown in all.", default=True)] = 60_000,
    option: Annotated[list[str] | None, _option("As gan.loss=wgan-gp, encoder.images=30000.")] = None,
    out: Annotated[Path | None, _option("The file to write, .safetensors.")] = None,
) -> None:
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
        setup = face_generators.configured(source, size=size, images=images, options=option or ())
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


@app.command(
    "audit",
    cls=_WithColours,
    epilog=_examples(
        "biaslib audit --model resnet18 --weights w.safetensors --data photos --labels labels.csv \\",
        "              --target smiling --group older --group glasses --out report",
        "biaslib audit --predictions said --labels labels.csv --target smiling --group older --out report",
    ),
)
def _audit(
    labels: Annotated[Path, _option("CSV, TSV or parquet table, one row an image.")],
    target: Annotated[list[str], _option("Column of what the model tells: two values; may be repeated.")],
    group: Annotated[list[str], _option("Column of a group, of 2 to 12 values; may be repeated.")],
    out: Annotated[Path, _option("Folder for the report.")],
    bins: Annotated[list[str] | None, _option("Edges for a group of numbers: age=18,40,65; repeatable.")] = None,
    intersections: Annotated[bool, _option("Compare combinations of the groups, too.", "--intersections")] = False,
    drop_missing: Annotated[bool, _option("Leave out rows without a value.", "--drop-missing")] = False,
    cluster: Annotated[str | None, _option("Column of what images share: patient.", default="none")] = None,
    train_labels: Annotated[Path | None, _option("Table of the training images' labels.")] = None,
    file_column: Annotated[str | None, _option("Of the images' names.", default="file, image or the first")] = None,
    data: Annotated[Path | None, _option("Folder of the images.")] = None,
    model: Annotated[str | None, _option(_MODEL)] = None,
    weights: Annotated[str | None, _option("State dictionary of the architecture, its folder, or imagenet.")] = None,
    predictions: Annotated[list[str] | None, _option("Instead of a model: a column a target, or a table.")] = None,
    against: Annotated[str | None, _option("Other predictions, weights, or model to compare with.")] = None,
    retrained: Annotated[list[str] | None, _option("The same trained with another seed; at least two.")] = None,
    output: Annotated[list[int] | None, _option("Of each target, from 0.", default="the one, or two classes")] = None,
    yes: Annotated[str | None, _option("Of classes of which the largest wins, those for yes: 281-285,290.")] = None,
    no: Annotated[str | None, _option("Those that mean no.", default="all others")] = None,
    group_output: Annotated[list[int] | None, _option("Its output for each group, in their order.")] = None,
    threshold: Annotated[float | None, _option("What a yes is above; 0.5 for probabilities.", default="0")] = None,
    attribution: Annotated[str | None, _option("grad-cam, rollout, integrated-gradients, occlusion or none.")] = None,
    layer: Annotated[str | None, _option("Of the model, whose output Grad-CAM takes.", default="its last map")] = None,
    masks: Annotated[Path | None, _option("Folder of masks, or of one folder a region, or COCO's JSON.")] = None,
    mask_value: Annotated[int | None, _option("Of masks that are label maps, the value that is the region.")] = None,
    wanted: Annotated[list[str] | None, _option("A region of the masks that the model is meant to look at.")] = None,
    unwanted: Annotated[list[str] | None, _option("One that it is not meant to look at; both repeatable.")] = None,
    size: Annotated[int | None, _option("Of the images, in pixels.", default="timm's, or 224")] = None,
    mean: Annotated[_Colour | None, _option("Of the colours: 0.5 0.5 0.5.", default="timm's, or ImageNet's")] = None,
    std: Annotated[_Colour | None, _option("Of the colours: 0.5 0.5 0.5.", default="timm's, or ImageNet's")] = None,
    crop: Annotated[float | None, _option("Share of the shorter side that is kept.", default="timm's, or all")] = None,
    squash: Annotated[bool | None, _option("Resize pictures to the square, whatever their shape.", "--squash")] = None,
    batch: Annotated[int | None, _option("Images at once.", default="32", least=1)] = None,
    margin: Annotated[float, _option("How large a gap in accuracy must be to matter.", default=True)] = 0.05,
    discover: Annotated[bool, _option("Look for images in which it errs more, too.", "--discover")] = False,
    repair: Annotated[bool, _option("Measure what thresholds or a new last layer would change.", "--repair")] = False,
    uncorrected: Annotated[bool, _option("Do not correct for the number of tests.", "--uncorrected")] = False,
    permutations: Annotated[int | None, _option("Of the answers.", default="enough to find any", least=1)] = None,
    deals: Annotated[int | None, typer.Option(min=1, hidden=True)] = None,
    seed: Annotated[int, _option("Of the resampling.", default=True, least=0)] = 0,
    no_images: Annotated[bool, _option("Put no picture into the report, only names.", "--no-images")] = False,
    title: Annotated[str, _option("Of the report.", default="target and groups")] = "",
    author: Annotated[str, _option("Who answers for the report.")] = "",
    fail_on: Annotated[str | None, _option('Exit with 3 on a "finding", or "gap>0.05" by its whole interval.')] = None,
    force: Annotated[bool, _option("Replace a report that is there; other files stay as they are.", "--force")] = False,
) -> None:
    """Measure the bias of your own model, or of its predictions, on your own images.

    Writes a page, numbers, answers, and a model card and an annex that you fill in and keep. A stopped audit goes on.
    """
    asked = dict(locals())
    from biaslib import audit as audits
    from biaslib.audit.model import class_numbers

    limit = None if fail_on is None else audits.findings.gap_limit(fail_on)
    asked |= {name: class_numbers(asked[name]) for name in ("yes", "no") if asked[name] is not None}
    asked["bins"] = {name: edges.split(",") for name, _, edges in (text.rpartition("=") for text in bins or ())}
    asked |= {"groups": group, "group_outputs": group_output, "corrected": not uncorrected, "images": not no_images}
    # what was not given is as in `audit.run`, and these have another name there, or none
    others = ("group", "group_output", "uncorrected", "no_images", "fail_on")
    result = audits.run(**{name: value for name, value in asked.items() if value is not None and name not in others})
    sys.stderr.writelines(f"{remark}\n" for remark in result.remarks())
    print(*result.conclusions(), f"the report is at {out / 'report.html'}", sep="\n")
    if fail_on is not None and (why := audits.findings.failure(result, limit)):
        _stop(f"stopped as --fail-on {fail_on} asks: {why}.", code=3)


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
