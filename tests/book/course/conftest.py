"""The labs, run once in this process with the parameters of the smoke preset."""

import contextlib
import functools
import io

import pytest

from biaslib.book import Project, execution, lab, parameters
from biaslib.book.course.checks import NotYet
from biaslib.store import parallel
from tests.book.conftest import NOTEBOOKS, ROOT
from tests.conftest import one_worker

BOOK = Project(ROOT)
LABS = [name for name in NOTEBOOKS if name.startswith("lab_")]


@functools.cache
def source(name):
    """A lab as it is written, but for its parameters, which are those of the smoke preset."""
    notebook = execution.read(BOOK, name)
    given = parameters.of_preset(BOOK, "smoke", name)
    for cell in notebook.cells:
        if "parameters" in cell.metadata.get("tags", ()):
            cell.source += "".join(f"\n{key} = {value!r}" for key, value in given.items())
    return notebook


def codes(notebook):
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def run_in(names, code):
    """Runs code that may define names, also where it then stops."""
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(code, "<lab>", "exec"), names)


def ran(*pieces, **defined):
    """What is defined after these pieces of code."""
    for code in pieces:
        run_in(defined, code)
    return defined


def heard(check, answer, defined):
    """The `NotYet` of a check about an answer, or None."""
    try:
        ran(answer, check, **defined)
    except NotYet as sentence:
        return sentence
    return None


def exercises():
    """Lab, label, and the source of answer and check, for each exercise."""
    for name in LABS:
        checks = dict(lab.tagged(source(name), "check"))
        for label, cell in lab.tagged(source(name), "answer"):
            yield name, label, cell.source, checks[label].source


@pytest.fixture(scope="session")
def defined(tmp_path_factory):
    """What a lab has defined at its end, every exercise answered."""
    store = str(tmp_path_factory.mktemp("labs"))

    @functools.cache
    def at_the_end(name):
        # not for the whole session, whose other tests start processes
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(parallel, "workers", one_worker)
            patch.setenv("BIASLIB_STORE", store)
            return ran(*codes(lab.for_readers(source(name))))

    return at_the_end
