"""What a user may give by mistake, and what somebody may give on purpose: one sentence, or a result."""

import contextlib
import io
import os
import shutil
import sys
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from biaslib import cli, metrics, statistics
from biaslib.audit import inputs
from biaslib.audit.pictures import Preprocessing
from biaslib.audit.records import AuditOptions
from biaslib.book import Project, execution, parameters
from biaslib.datasets import registry
from biaslib.datasets.pictures import UNREADABLE
from biaslib.errors import BiaslibError
from biaslib.statistics import detection, proportions
from tests.audit import subjects
from tests.faults.outcome import Outcomes

_TEXT = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["nan", "inf", "-inf", "-1", "0", "1e308", "9" * 40, "../..", "/etc/passwd", "~", "$HOME", " ", "a\0b"]
    ),
)
_NUMBER = st.one_of(st.floats(width=64), st.integers(-(2**70), 2**70), st.just(0), st.just(1))
_ARRAY = st.one_of(
    st.lists(st.floats(width=32), max_size=6),
    st.lists(st.booleans(), max_size=6),
    st.lists(st.integers(-3, 9), max_size=6),
    st.lists(st.lists(st.floats(width=32), min_size=2, max_size=2), max_size=4),
).map(np.array)
_WORD = st.sampled_from(["greater", "less", "low", "high", "nan", "zero", "both", ""])

Door = Callable[[Any], None]


def campaign(folder: Path, outcomes: Outcomes, *, count: int, seed: int) -> None:
    """So many inputs, shared by all doors."""
    subjects.draw(folder / "audit", n=60)
    answers = [f"{row['file']},{row['green']}" for row in _rows(folder / "audit" / "labels.csv")]
    (folder / "audit" / "said.csv").write_text("\n".join(["file,green", *answers]) + "\n")
    doors: dict[str, tuple[st.SearchStrategy[Any], Door]] = {
        "command line": (_arguments(folder), _called),
        "preset": (_yaml(), lambda text: _preset(folder, text)),
        "parameter": (st.tuples(_TEXT, _TEXT), lambda pair: _parameter(folder, *pair)),
        "label table": (_table(), lambda content: _labels(folder, content)),
        "picture": (_picture(), lambda content: _pictured(folder, content)),
        "archive": (_archive(), lambda members: _unpacked(folder, members)),
        "public function": (_call(), lambda call: call()),
    }
    for number, (name, (strategy, door)) in enumerate(doors.items()):
        _tried(name, strategy, door, folder, outcomes, count=-(-count // len(doors)), seed=seed + number)


def _rows(file: Path) -> list[dict[str, str]]:
    header, *lines = file.read_text().splitlines()
    return [dict(zip(header.split(","), line.split(","), strict=True)) for line in lines]


def _tried(
    name: str, strategy: st.SearchStrategy[Any], door: Door, folder: Path, outcomes: Outcomes, *, count: int, seed: int
) -> None:
    import hypothesis

    @hypothesis.seed(seed)
    @settings(max_examples=count, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def trial(value: Any) -> None:
        before = set(os.listdir(folder.parent))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                door(value)
                kind, detail = "survived", ""
            except BiaslibError as error:
                kind, detail = ("survived", "") if str(error).strip() else ("raw", "an empty sentence")
            except Exception as error:
                kind, detail = "raw", f"{type(error).__name__}: {error} for {value!r}"
        if set(os.listdir(folder.parent)) - before or (folder / "executed").exists():
            kind, detail = "executed", repr(value)
        outcomes.add(f"input: {name}", kind, detail)

    trial()


_OPTIONS = (
    "--threshold --seed --permutations --size --crop --batch --yes --no --output --mean --group-output --wanted "
    "--file-column --target --group --train-labels --masks --model --weights --data --labels --predictions"
)
_ASKED = ["--target", "green", "--group", "red"]


def _arguments(folder: Path) -> st.SearchStrategy[list[str]]:
    data = folder / "audit"
    whole = [
        "audit", "--predictions", str(data / "said.csv"), "--labels", str(data / "labels.csv"), *_ASKED,
        "--permutations", "50", "--out", str(folder / "report"), "--force",
    ]  # fmt: skip
    options = st.sampled_from(_OPTIONS.split())
    extra = st.lists(st.tuples(options, _TEXT.filter(lambda text: "\0" not in text)), min_size=1, max_size=2)
    commands = st.sampled_from(
        [["store", "rm"], ["data", "check"], ["data", "fetch"], ["run"], ["grow"], ["build", "--only"]]
    )
    return st.one_of(
        extra.map(lambda pairs: [*whole, *(part for pair in pairs for part in pair)]),
        st.tuples(commands, _TEXT).map(lambda pair: [*pair[0], pair[1]]),
    )


def _called(arguments: list[str]) -> None:
    """The command in this process: exit code 0 or 2, and of a refusal one sentence."""
    said, before = io.StringIO(), sys.argv
    sys.argv = ["biaslib", *arguments]
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            cli.main()
    except SystemExit as ended:
        if ended.code not in (0, 2, None):
            raise RuntimeError(f"exit {ended.code}: {said.getvalue()[-200:]}") from ended
        if ended.code == 2 and "Traceback" in said.getvalue():
            raise RuntimeError(said.getvalue()[-300:]) from ended
    finally:
        sys.argv = before


_YAML = (
    "one:", " ", "\n", "\t", "{", "}", "[", "]", "n: 3", "n: [1", "- 1", "2024-13-45", "&a", "*a", "? x", "'", '"',
    "---", "1: 2", "one: {n: 5}", "one: {n: x}", "one: {1: 2}", "#", "9" * 5000,
    "!!python/object/apply:os.system ['touch executed']",
)  # fmt: skip


def _yaml() -> st.SearchStrategy[str]:
    pieces = st.sampled_from(_YAML)
    return st.one_of(st.lists(pieces, max_size=8).map("".join), st.text(max_size=60), st.just("[" * 1000))


def _preset(folder: Path, text: str) -> None:
    project = Project(folder)
    project.presets.mkdir(parents=True, exist_ok=True)
    (project.presets / "tried.yml").write_text(text, encoding="utf-8", errors="surrogatepass")
    defaults = {"n": 3}
    parameters.checked(parameters.of_preset(project, "tried", "one"), defaults, name="one")


def _parameter(folder: Path, name: str, value: str) -> None:
    execution.params.parsed(
        [f"{name}={value}", f"n={value}", f"xs={value}"], {"n": 3, "xs": [0.5], name: 1.0}, name="one"
    )


def _table() -> st.SearchStrategy[bytes]:
    cell = st.sampled_from(
        ["", "0", "1", "yes", "no", "nan", "inf", "a,b", '"', "é", "=1+1", "<script>", "000.png", "../x", "\r", "\0"]
    )
    rows = st.lists(st.lists(cell, min_size=1, max_size=4).map(",".join), max_size=6).map("\n".join)
    return st.one_of(
        st.binary(max_size=200),
        rows.map(lambda text: f"file,green,red\n{text}\n".encode()),
        rows.map(lambda text: text.encode("utf-16")),
    )


def _labels(folder: Path, content: bytes) -> None:
    file = folder / "labels.csv"
    file.write_bytes(content)
    inputs.read_labels(AuditOptions(labels=file, target="green", groups=["red"], model="small", data=folder))


def _picture() -> st.SearchStrategy[bytes]:
    def encoded(form: str, mode: str) -> bytes:
        buffer = io.BytesIO()
        Image.fromarray(np.arange(48 * 64 * 3, dtype=np.uint8).reshape(48, 64, 3)).convert(mode).save(buffer, form)
        return buffer.getvalue()

    whole = st.sampled_from(
        [
            *(encoded(form, "RGB") for form in ("PNG", "JPEG", "TIFF", "BMP", "WEBP")),
            *(encoded("PNG", "L"), encoded("GIF", "P"), b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"),
        ]
    )
    damaged = st.tuples(
        whole, st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), max_size=8), st.integers(0, 4000)
    )

    def applied(parts: tuple[bytes, list[tuple[int, int]], int]) -> bytes:
        content = bytearray(parts[0])
        for at, value in parts[1]:
            content[at % len(content)] = value
        return bytes(content[: max(parts[2], 1)])

    return st.one_of(st.binary(max_size=100), damaged.map(applied))


def _pictured(folder: Path, content: bytes) -> None:
    file = folder / "picture.png"
    file.write_bytes(content)
    with contextlib.suppress(*UNREADABLE):  # the audit lists such files
        Preprocessing(size=32).picture(file)


_NAMES = st.sampled_from(
    [
        "a",
        "b/c",
        "../out",
        "/biaslib-out",
        "a/../../out",
        "x" * 300,
        "a\\b",
        "con",
        " ",
        "é",
        "b",
        "a/b",
        "./a",
        "a//b",
    ]
)


def _archive() -> st.SearchStrategy[tuple[str, list[tuple[str, str, bytes]]]]:
    kinds = st.sampled_from(["file", "folder", "link", "hard link", "device"])
    return st.tuples(
        st.sampled_from(["zip", "tar.gz", "torn"]),
        st.lists(st.tuples(_NAMES, kinds, st.binary(max_size=20)), max_size=4),
    )


def _unpacked(folder: Path, given_archive: tuple[str, list[tuple[str, str, bytes]]]) -> None:
    form, members = given_archive
    file = folder / f"archive.{'tar.gz' if form == 'torn' else form}"
    if form == "zip":
        with zipfile.ZipFile(file, "w") as opened:
            for name, _, content in members:
                opened.writestr(name, content)
    else:
        with tarfile.open(file, "w:gz") as opened:
            for name, kind, content in members:
                info = tarfile.TarInfo(name)
                info.type = {"folder": tarfile.DIRTYPE, "link": tarfile.SYMTYPE, "hard link": tarfile.LNKTYPE,
                             "device": tarfile.CHRTYPE}.get(kind, tarfile.REGTYPE)  # fmt: skip
                info.linkname, info.size = "../../out", len(content) if kind == "file" else 0
                opened.addfile(info, io.BytesIO(content))
    if form == "torn":
        file.write_bytes(file.read_bytes()[:-9])
    shutil.rmtree(folder / "unpacked", ignore_errors=True)
    registry._unpack(file, folder / "unpacked")


def _call() -> st.SearchStrategy[Callable[[], Any]]:
    """A public function of numbers, with some."""
    side = st.sampled_from(["greater", "less", "both"])
    calls = st.one_of(
        _with(metrics.attention_iou, _ARRAY, _ARRAY),
        _with(metrics.relevance_mass_accuracy, _ARRAY, _ARRAY),
        _with(metrics.relevance_rank_accuracy, _ARRAY, _ARRAY),
        _with(metrics.group_accuracy, _ARRAY, _ARRAY),
        _with(metrics.worst_group_accuracy, _ARRAY, _ARRAY),
        _with(metrics.score_sensitivity, _ARRAY, _ARRAY),
        _with(metrics.classification_sensitivity, _ARRAY, _ARRAY),
        _with(metrics.flip_rates, _ARRAY, _ARRAY),
        _with(metrics.aopc, _ARRAY),
        _with(metrics.normalized_average_precision, _ARRAY, _ARRAY, _NUMBER),
        _with(metrics.mean_average_precision, _ARRAY, _ARRAY),
        _with(metrics.calibrated_thresholds, _ARRAY, _ARRAY),
        _with(metrics.Labels, _ARRAY, _ARRAY),
        _with(statistics.interval, _ARRAY),
        _with(statistics.welch, _ARRAY, _ARRAY),
        _with(statistics.sign_flip, _ARRAY),
        _with(statistics.holm, _ARRAY),
        _with(statistics.kendall, _ARRAY, _ARRAY),
        _with(statistics.crossed_interval, _ARRAY),
        _with(statistics.minimum_detectable_gap, _NUMBER, _NUMBER, _NUMBER),
        _with(proportions.images_needed, _NUMBER, _NUMBER),
        _with(proportions.gap_power, _NUMBER, _NUMBER, _NUMBER, _NUMBER),
        st.tuples(_ARRAY, _ARRAY, side).map(lambda parts: lambda: detection.p_value(parts[0], parts[1], side=parts[2])),
    )
    return calls


def _with(function: Callable[..., Any], *strategies: st.SearchStrategy[Any]) -> st.SearchStrategy[Callable[[], Any]]:
    def bound(values: tuple[Any, ...]) -> Callable[[], Any]:
        def call() -> None:
            with contextlib.suppress(TypeError):  # a wrong type may say so
                function(*values)

        call.__qualname__ = call.__name__ = f"{function.__name__}{values!r}"
        return call

    return st.tuples(*strategies).map(bound)
