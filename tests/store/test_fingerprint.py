import ast
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from biaslib import samples
from biaslib.store import fingerprint


@dataclass(frozen=True)
class Config:
    epochs: int = 3


@pytest.mark.parametrize(
    "make",
    [
        lambda: None,
        lambda: 3,
        lambda: "three",
        lambda: {"b": [1, 2], "a": (0.5, True)},
        lambda: Config(),
        lambda: np.arange(4),
        lambda: pd.DataFrame({"x": [1.0], "name": ["a"]}),
        lambda: Path("a/b"),
    ],
)
def test_equal_values_have_equal_hashes(make):
    assert fingerprint.of_value(make()) == fingerprint.of_value(make())


def test_order_of_keys_does_not_count():
    assert fingerprint.of_value({"a": 1, "b": 2}) == fingerprint.of_value({"b": 2, "a": 1})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, True),
        (1, "1"),
        ([1, 2], [2, 1]),
        (["ab"], ["a", "b"]),
        (Config(3), Config(4)),
        (np.zeros(2), np.zeros(2, np.float32)),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (pd.DataFrame({"x": [1]}), pd.DataFrame({"y": [1]})),
        ({"a": {"b": 1}}, {"a": {"b": 2}}),
    ],
)
def test_different_values_have_different_hashes(one, other):
    assert fingerprint.of_value(one) != fingerprint.of_value(other)


def test_an_object_without_plain_value_is_refused():
    with pytest.raises(TypeError, match="cannot hash a object"):
        fingerprint.of_value({"model": object()})
    with pytest.raises(TypeError, match="cannot hash a ndarray"):
        fingerprint.of_value(np.array(["a", None], dtype=object))


def test_hash_is_the_same_in_another_process(printed_in):
    program = "from biaslib.store import fingerprint; print(fingerprint.of_value({'a': [1, 'x', 2.5]}))"
    assert printed_in(Path.cwd(), program).strip() == fingerprint.of_value({"a": [1, "x", 2.5]})


def one():
    return 1


def with_comment():
    # this says why
    return 1


def calls_package():
    return samples.Samples


def test_code_of_a_local_function_counts_without_comments():
    def same():
        return 1

    def documented():
        return 2

    assert fingerprint.of_code(same) != fingerprint.of_code(documented)
    assert fingerprint.of_code(lambda: one()) != fingerprint.of_code(one)


UPPER = """
from biaslib import lower

def run():
    return lower.value()

class Thing:
    run = staticmethod(run)
"""
CALLS = {
    "a lambda": "fingerprint.of_code(lambda: upper.run())",
    "a comprehension": "fingerprint.of_code(lambda: [upper.run() for _ in range(2)])",
    "an inner function": "fingerprint.of_code(outer)",
    "a captured object": "fingerprint.of_code(lambda: thing.run())",
}


FORKING = """
import os, sys
import numpy, pandas  # to import them takes longer than all that runs here
for line in sys.stdin:
    folder, program = eval(line)
    if os.fork() == 0:
        os.chdir(folder)
        exec(program)
        sys.stdout.flush()
        os._exit(0)
    print("ended", os.wait()[1], flush=True)
"""


@pytest.fixture(scope="module")
def printed_in():
    """Runs a program in a folder, in a process of its own, and gives what it prints."""
    command = [sys.executable, "-c", FORKING]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as forking:

        def run(folder, program):
            print((str(folder), program), file=forking.stdin)
            printed = []
            for line in forking.stdout:
                if line.startswith("ended"):
                    assert line == "ended 0\n", program
                    break
                printed.append(line)
            return "".join(printed)

        yield run


def give_fingerprint(package):
    (package / "store").mkdir(exist_ok=True)
    (package / "store" / "__init__.py").write_text("")
    (package / "store" / "fingerprint.py").write_text(Path(fingerprint.__file__).read_text())


def hashes_of(printed_in, folder, body):
    """The hash of each of `CALLS`, in a package whose lowest module is this text."""
    package = folder / "biaslib"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text("")
    (package / "lower.py").write_text(body)
    (package / "upper.py").write_text(UPPER)
    give_fingerprint(package)
    program = f"""
from biaslib import upper
from biaslib.store import fingerprint
thing = upper.Thing()
def outer():
    def inner():
        return upper.run()
    return inner
print({", ".join(CALLS.values())})
"""
    return dict(zip(CALLS, printed_in(folder, program).split(), strict=True))


@pytest.fixture(scope="module")
def texts(printed_in, tmp_path_factory):
    """The hashes for one text of a module, for it with a docstring and a comment, and for another one."""
    one, other = "def value():\n    return 1\n", "def value():\n    return 22\n"
    documented = 'def value():\n    """One."""\n    return 1  # one\n'
    folder = tmp_path_factory.mktemp("package")
    return [hashes_of(printed_in, folder, body) for body in (one, documented, other)]


@pytest.mark.parametrize("call", CALLS)
def test_an_edit_in_an_imported_module_changes_the_hash_but_its_docstring_does_not(texts, call):
    before, documented, edited = (hashes[call] for hashes in texts)
    assert before == documented
    assert before != edited


@pytest.mark.parametrize(
    ("taken", "counts"), [("from biaslib.room import tool", False), ("from biaslib.room import other", True)]
)
def test_a_neighbour_behind_the_same_front_door_counts_only_for_who_uses_the_door(printed_in, tmp_path, taken, counts):
    room = tmp_path / "biaslib" / "room"
    room.mkdir(parents=True)
    (tmp_path / "biaslib" / "__init__.py").write_text("")
    give_fingerprint(tmp_path / "biaslib")
    (room / "__init__.py").write_text("from biaslib.room.neighbour import other\n")
    (room / "tool.py").write_text("value = 1\n")
    (tmp_path / "biaslib" / "upper.py").write_text(f"{taken}\ndef run():\n    return 0\n")

    def printed(body):
        (room / "neighbour.py").write_text(body)
        program = (
            "from biaslib import upper; from biaslib.store import fingerprint; print(fingerprint.of_code(upper.run))"
        )
        return printed_in(tmp_path, program)

    assert (printed("other = 1\n") != printed("other = 2\n")) == counts


@pytest.mark.parametrize("name", ["style.css", "words.toml"])
def test_the_package_counts_its_style_sheets_and_lists(printed_in, tmp_path, name):
    package = tmp_path / "biaslib"
    package.mkdir()
    (package / "__init__.py").write_text("")
    give_fingerprint(package)
    program = "from biaslib.store import fingerprint; print(fingerprint.of_package())"

    def printed(style):
        (package / name).write_text(style)
        return printed_in(tmp_path, program)

    assert printed("a {}") == printed("a {}") != printed("b {}")


def test_the_numbers_beside_a_module_count_as_its_code(printed_in, tmp_path):
    package = tmp_path / "biaslib"
    package.mkdir()
    for name in ("__init__", "lower", "other"):
        (package / f"{name}.py").write_text("")
    give_fingerprint(package)
    program = "from biaslib.store import fingerprint as f; print(f.of_module('biaslib.lower'), f.of_package())"

    def printed(file, numbers):
        (package / file).write_text(numbers)
        return printed_in(tmp_path, program).split()

    first, again, edited = (printed("lower.toml", numbers) for numbers in ("a = 1", "a = 1", "a = 2"))
    assert first == again
    assert first[0] != edited[0]
    assert first[1] != edited[1]
    assert printed("other.toml", "a = 1")[0] == edited[0]


def test_an_edit_during_a_run_does_not_change_its_keys(printed_in, tmp_path):
    package = tmp_path / "biaslib"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "lower.py").write_text("def value():\n    return 1\n")
    give_fingerprint(package)
    program = """
from biaslib import lower
from biaslib.store import fingerprint
before = fingerprint.of_code(lower.value)
open(lower.__file__, "w").write("def value():\\n    return 2\\n")
print(before == fingerprint.of_code(lower.value))
"""
    assert printed_in(tmp_path, program).strip() == "True"


def test_files_count_by_name_and_size(tmp_path):
    assert fingerprint.of_files(tmp_path / "nothing") == ""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one").write_bytes(b"12")
    before = fingerprint.of_files(tmp_path / "a")
    assert before == fingerprint.of_files(tmp_path / "a" / "one")
    (tmp_path / "a" / "two").write_bytes(b"1")
    assert fingerprint.of_files(tmp_path / "a") != before


def test_many_keys_ask_their_data_once():
    asked = []

    @dataclass(frozen=True)
    class Data:
        name: str

        def fingerprint(self):
            asked.append(self.name)
            return f"files of {self.name}"

    keys = [(number, Data(name)) for number in range(3) for name in ("a", "b")]
    alone = [fingerprint.of_value(key) for key in keys]
    assert sorted(asked) == ["a"] * 3 + ["b"] * 3
    asked.clear()
    with fingerprint.once():
        assert [fingerprint.of_value(key) for key in keys] == alone
    assert sorted(asked) == ["a", "b"]
    fingerprint.of_value(Data("a"))  # and after it again, as files may have changed
    assert len(asked) == 3


def test_large_arrays_are_hashed_in_pieces_to_the_same_value(monkeypatch):
    values = np.arange(1000, dtype=np.int64).reshape(100, 10)
    whole = fingerprint.of_value(values)
    monkeypatch.setattr(fingerprint, "_PIECE", 100)
    assert fingerprint.of_value(values) == whole
    assert fingerprint.of_value(np.array(3.0)) != fingerprint.of_value(np.array(4.0))
    assert fingerprint.of_value(np.zeros((0, 3))) != fingerprint.of_value(np.zeros((0, 4)))


def test_what_was_parsed_before_a_fork_is_parsed_again_only_where_it_has_changed(monkeypatch):
    parsed, parse, read = [], ast.parse, Path.read_text
    fingerprint.parse_all()
    monkeypatch.setattr(ast, "parse", lambda text: parsed.append(text) or parse(text))
    before = fingerprint.of_package()
    assert not parsed
    fingerprint._read.cache_clear()  # as after a fork: nothing is known of the files as they are
    edited = {"samples.py": "\nEDITED = 1\n"}
    monkeypatch.setattr(Path, "read_text", lambda file, **of: read(file, **of) + edited.get(file.name, ""))
    assert fingerprint.of_package() != before
    assert [text.endswith("EDITED = 1\n") for text in parsed] == [True]
    fingerprint._read.cache_clear()
