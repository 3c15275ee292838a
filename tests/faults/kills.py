"""Long work, killed at random moments and started again: it ends with the same result and leaves nothing behind."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from biaslib import audit, datasets, recipes, store
from biaslib.book import Project, building, site
from biaslib.chapters import face_generators
from biaslib.chapters.face_generators import GeneratorSetup
from biaslib.datasets.celeba import ATTRIBUTES
from biaslib.gan.training import EncoderConfig, GanConfig
from biaslib.training import TrainingConfig
from tests import layouts
from tests.audit import subjects
from tests.book.conftest import write_notebook
from tests.faults.outcome import Outcomes

_RECIPE = recipes.target_of_world(
    recipes.Drawn(world="birds", images=128, strength=0.5, size=32),
    TrainingConfig(architecture="small", epochs=12, batch=16, precision="float32"),
)
_GENERATOR = GeneratorSetup(
    images=40,
    gan=GanConfig(latent=8, widths=(8, 8), growth=((0.0, 0.5), (0.2, 0.3)), images=256, batch=4, chunks=16),
    encoder=EncoderConfig(widths=(8,), images=256, batch=16),
)
LEFT_OVER = ("**/.partial-*", "**/.locks/*", "checkpoints/*")


def _training(folder: Path) -> bytes:
    state = recipes.train(_RECIPE)
    return b"".join(tensor.numpy().tobytes() for _, tensor in sorted(state.items()))


def _generator(folder: Path) -> bytes:
    state = face_generators._trained(_GENERATOR)
    return b"".join(tensor.numpy().tobytes() for _, tensor in sorted(state.items()))


def _decoding(folder: Path) -> bytes:
    root = folder.parent / "celeba-data"
    if not root.exists():
        rng = np.random.default_rng(0)
        table = pd.DataFrame({name: rng.random(600) < 0.5 for name in ATTRIBUTES})
        layouts.celeba(root, table, pictures=True)
    return datasets.load("celeba", "train", size=96, root=root).images.tobytes()


def _audit(folder: Path) -> bytes:
    data = folder.parent / "audit-data"
    if not data.exists():
        subjects.draw(data, n=200)
    audit.run(
        labels=data / "labels.csv", target="green", groups=["red"], data=data / "images", model=subjects.biased(),
        batch=8, permutations=200, out=folder / "report", force=True, **subjects.PLAIN,
    )  # fmt: skip
    return (folder / "report" / "audit.json").read_bytes()


_PAGE = """
import hashlib
from biaslib import recipes, training
recipe = recipes.target_of_world(
    recipes.Drawn(world="birds", images=64, strength=0.5, size=32, seed=n),
    training.TrainingConfig(architecture="small", epochs=4, batch=16, precision="float32"),
)
state = recipes.train(recipe)
print(hashlib.sha256(b"".join(state[name].numpy().tobytes() for name in sorted(state))).hexdigest())
"""


def _build(folder: Path) -> bytes:
    project = Project(folder / "book-project")
    if not (project.root / "_config.yml").exists():
        for place in (project.notebooks, project.book):
            place.mkdir(parents=True, exist_ok=True)
        for name, seed in (("one", 1), ("two", 2), ("three", 3)):
            write_notebook(project, name, _PAGE, parameters=f"n = {seed}")
        (project.root / "_config.yml").touch()
    site.write = lambda project: project.site / "index.html"  # only the notebooks: the pages are made in one step
    building.build(project, jobs=2)
    cells = [json.loads(project.page(name).read_text())["cells"] for name in project.names()]
    printed = [output["text"] for page in cells for cell in page for output in cell.get("outputs", ())]
    return json.dumps(printed).encode()


@dataclass(frozen=True)
class Work:
    """Something long: it gets a folder of its own, with an empty store in it, and gives its result as bytes."""

    name: str
    run: Callable[[Path], bytes]


WORKS = (
    Work("training", _training),
    Work("generator and encoder", _generator),
    Work("decoding", _decoding),
    Work("audit", _audit),
    Work("build", _build),
)


def elsewhere(folder: Path, *, kills: int, timeout: float, works: Sequence[str] = ()) -> tuple[str, int]:
    """The faults and the number of trials of a campaign in an interpreter of its own, with one thread, as it forks."""
    program = (
        "import sys, torch; from pathlib import Path; from tests.faults import kills, outcome\n"
        "torch.set_num_threads(1); found = outcome.Outcomes()\n"
        "kills.campaign(Path(sys.argv[1]), found, kills=int(sys.argv[2]), seed=0, works=sys.argv[3:])\n"
        "print(*found.faults); print(found.total())"
    )
    command = [sys.executable, "-c", program, str(folder), str(kills), *works]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr
    faults, total = done.stdout.rstrip("\n").split("\n")[-2:]
    return faults, int(total)


def campaign(folder: Path, outcomes: Outcomes, *, kills: int, seed: int, works: Sequence[str] = ()) -> None:
    """So many kills of each work, or of those named; after every two to five a run to the end that is compared."""
    rng = np.random.default_rng(seed)
    for work in (work for work in WORKS if work.name in works or not works):
        unbroken = folder / f"{work.name}-unbroken"
        _finish(work, unbroken)  # also draws what the work reads
        _finish(work, folder / f"{work.name}-timed")
        started = time.monotonic()
        _finish(work, folder / f"{work.name}-again")
        length, expected, done, trial = time.monotonic() - started, _result(unbroken), 0, 0
        while done < kills:
            trial += 1
            here = folder / f"{work.name}-{trial}"
            for _ in range(int(rng.integers(2, 6))):
                done += _killed(work, here, after=float(rng.uniform(0, length)))
            outcomes.kills[f"kill: {work.name}"] = done
            error = _finish(work, here)
            _judge(work, here, outcomes, error=error, same=_result(here) == expected)


def _judge(work: Work, folder: Path, outcomes: Outcomes, *, error: str, same: bool) -> None:
    left = [str(path.relative_to(folder)) for pattern in LEFT_OVER for path in folder.glob(f"store/{pattern}")]
    left += [str(path.relative_to(folder)) for path in folder.glob("**/.partial-*")]
    if error:
        outcomes.add(f"kill: {work.name}", "raw", error)
    elif not same:
        outcomes.add(f"kill: {work.name}", "different", folder.name)
    elif left:
        outcomes.add(f"kill: {work.name}", "left over", ", ".join(sorted(set(left))[:3]))
    else:
        outcomes.add(f"kill: {work.name}", "survived")


def _killed(work: Work, folder: Path, *, after: float) -> int:
    """1 where the process was killed before it was done."""
    child = _forked(work, folder)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return int(os.WIFSIGNALED(status))


def _finish(work: Work, folder: Path) -> str:
    """Runs the work to its end; what it wrote to stderr where it failed."""
    _, status = os.waitpid(_forked(work, folder), 0)
    return "" if os.waitstatus_to_exitcode(status) == 0 else (folder / "stderr").read_text()[-500:]


def _result(folder: Path) -> str:
    file = folder / "result"
    return file.read_text() if file.is_file() else ""


def _forked(work: Work, folder: Path) -> int:
    """The work in a process of its own; forked, as importing what it needs takes longer than the work."""
    folder.mkdir(parents=True, exist_ok=True)
    child = os.fork()
    if child:
        return child
    try:
        os.environ["BIASLIB_STORE"] = str(folder / "store")
        error = os.open(folder / "stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(error, 1), os.dup2(error, 2)
        digest = hashlib.sha256(work.run(folder)).hexdigest()
        with store.replacing(folder / "result") as partial:
            partial.write_text(digest)
        sys.stderr.flush()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
