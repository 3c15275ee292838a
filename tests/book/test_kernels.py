"""Kernels begin where the slow imports are done, and are otherwise as a new process would be."""

import itertools
import json
import os
import subprocess
import sys

import pytest

from biaslib.book import Project, execution, kernels
from tests.book.conftest import write_notebook

FORKED = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="kernels are copies on Linux alone")


def printed(project: Project, name: str, **options) -> list[str]:
    out = project.root / f"{name}.ipynb"
    execution.run(project, name, out, **options)
    outputs = [output for cell in json.loads(out.read_text())["cells"] for output in cell.get("outputs", ())]
    return ["".join(output["text"]) for output in outputs]


@pytest.fixture
def second(monkeypatch):
    """What begins next is not the first kernel of its process."""
    monkeypatch.setattr(kernels, "_BEGUN", itertools.count(1))


def test_one_page_alone_has_a_process_that_imported_nothing_for_it(project, monkeypatch):
    monkeypatch.setattr(kernels, "_BEGUN", itertools.count())
    monkeypatch.setattr(kernels, "_server", None)
    write_notebook(project, "one", "import os, sys\nprint('torch' in sys.modules, os.getppid())")
    assert printed(project, "one") == [f"False {os.getpid()}\n"]


@FORKED
@pytest.mark.usefixtures("second")
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
    left, other = printed(project, "two")
    imported, parent, *rest = first[0].split()
    assert (imported, rest) == ("True", ["first", os.devnull])
    assert left == "False\n"
    assert other.split() == ["True", parent, "None", os.devnull]
    assert int(parent) != os.getpid()


@FORKED
@pytest.mark.usefixtures("second")
def test_pages_with_other_numbers_of_threads_share_it_too(project):
    """The numbers are set in what was imported with another one, torch and the algebra of numpy."""
    tell = (
        "import os, torch, numpy\nfrom threadpoolctl import threadpool_info\n"
        "algebra = [each['num_threads'] for each in threadpool_info() if each['user_api'] == 'blas']\n"
        "print(os.getppid(), os.environ['OMP_NUM_THREADS'], torch.get_num_threads(), *algebra)"
    )
    write_notebook(project, "one", tell)
    (one,), (three,) = (printed(project, "one", threads=number) for number in (1, 3))
    parent, *numbers = one.split()
    assert len(numbers) > 2
    assert {*numbers} == {"1"}
    assert three.split() == [parent, *["3"] * len(numbers)]


def test_what_an_event_loop_logs_is_on_no_page(project):
    write_notebook(
        project, "one",
        "import asyncio, gc\n"
        "asyncio.get_event_loop().create_future().set_exception(TimeoutError('Timeout'))\ngc.collect();",
        "print('on')",
    )  # fmt: skip
    assert printed(project, "one") == ["on\n"]


@pytest.mark.slow
def test_what_begins_kernels_ends_without_a_word():
    """Libraries that were kept from the collector have reported dozens of leaks there, below each `biaslib run`."""
    done = subprocess.run(
        [sys.executable, "-c", kernels._SERVE],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, env=os.environ | kernels._OF_A_KERNEL,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "ready\n", "")
