"""Kernels begin where the slow imports are done, and are otherwise as a new process would be."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from biaslib.book import Project, execution
from tests.book.conftest import ROOT, write_notebook

FORKED = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="kernels are copies on Linux alone")


def printed(project: Project, name: str) -> list[str]:
    out = project.root / f"{name}.ipynb"
    execution.run(project, name, out)
    outputs = [output for cell in json.loads(out.read_text())["cells"] for output in cell.get("outputs", ())]
    return ["".join(output["text"]) for output in outputs]


@FORKED
def test_two_pages_share_what_imported_torch_and_nothing_else(project, monkeypatch):
    tell = (
        "import os, sys\nleft = 1\n"
        "print('torch' in sys.modules, os.getppid(), os.environ.get('ONE'), os.readlink('/proc/self/fd/0'))"
    )
    write_notebook(project, "one", tell)
    write_notebook(project, "two", "print('left' in globals())", tell)
    monkeypatch.setenv("ONE", "first")
    first = printed(project, "one")
    monkeypatch.delenv("ONE")
    left, second = printed(project, "two")
    imported, parent, *rest = first[0].split()
    assert (imported, rest) == ("True", ["first", os.devnull])
    assert left == "False\n"
    assert second.split() == ["True", parent, "None", os.devnull]
    assert int(parent) != os.getpid()


def test_what_an_event_loop_logs_is_on_no_page(project):
    write_notebook(
        project, "one",
        "import asyncio, gc\n"
        "asyncio.get_event_loop().create_future().set_exception(TimeoutError('Timeout'))\ngc.collect();",
        "print('on')",
    )  # fmt: skip
    assert printed(project, "one") == ["on\n"]


def test_kernels_end_with_the_process_that_runs_the_pages(tmp_path):
    project = Project(tmp_path / "project")
    for place in (project.notebooks, project.book, project.executed):
        place.mkdir(parents=True)
    note = tmp_path / "kernel"
    write_notebook(
        project, "page",
        f"import os, pathlib, signal\npathlib.Path({str(note)!r}).write_text(str(os.getpid()))\n"
        "os.kill(int(os.environ['BUILDER']), signal.SIGKILL)\nwhile True: pass",
    )  # fmt: skip
    program = (
        "import os, sys; from pathlib import Path; from biaslib.book import Project, execution\n"
        "os.environ['BUILDER'] = str(os.getpid())\n"
        "place = Project(Path(sys.argv[1]))\n"
        "execution.run(place, 'page', place.page('page'))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(project.root)], cwd=ROOT)
    assert done.returncode == -signal.SIGKILL
    kernel = int(note.read_text())
    for _ in range(100):
        try:
            os.kill(kernel, 0)
        except ProcessLookupError:
            break
        time.sleep(0.1)
    else:
        os.kill(kernel, signal.SIGKILL)
        raise AssertionError("the kernel went on for ten seconds")
