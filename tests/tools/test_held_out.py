"""A world's hash is committed, its source revealed later: to the byte, or not at all."""

import shutil
from pathlib import Path

import pytest

from biaslib.dial import board
from biaslib.errors import BiaslibError
from biaslib.store.files import sha256
from tools import held_out

BARS = Path(__file__).parents[1] / "dial" / "bars.py"


@pytest.fixture
def registry(tmp_path):
    file = tmp_path / "held_out.toml"
    file.write_text("")
    return file


def test_what_was_committed_is_revealed_and_checked(registry, tmp_path):
    assert held_out.commit(BARS, registry) == "bars"
    (told,) = held_out.read(registry).values()
    assert told["sha256"] == sha256(BARS)
    assert told["protocol"] == board.PROTOCOL
    assert "revealed" not in told
    assert held_out.check(registry, tmp_path) == []
    place = held_out.reveal(BARS, registry, tmp_path)
    assert place.read_bytes() == BARS.read_bytes()
    assert held_out.read(registry)["bars"] == told | {"revealed": "data/held_out/bars.py"}
    assert held_out.check(registry, tmp_path) == []
    place.write_text(BARS.read_text() + "\n")
    assert held_out.check(registry, tmp_path) == ["data/held_out/bars.py is not the source of bars that was committed."]
    shutil.copyfile(BARS, place)
    shutil.copyfile(BARS, place.with_name("other.py"))
    assert held_out.check(registry, tmp_path) == [f"{place.with_name('other.py')} was never committed."]


def test_a_changed_source_is_not_revealed(registry, tmp_path):
    held_out.commit(BARS, registry)
    before, changed = registry.read_text(), tmp_path / "bars.py"
    changed.write_text(BARS.read_text().replace("(200, 40, 40)", "(201, 40, 40)"))
    with pytest.raises(BiaslibError, match="is not what was committed, to the byte"):
        held_out.reveal(changed, registry, tmp_path)
    assert registry.read_text() == before
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "bars"', 'name = "birds"', "'birds' is taken"),
        ('name = "bars"', 'name = "a bar"', "'a bar' is taken, or not a word"),
        ('"cue_regions": ["dot"]', '"cue_regions": ["spot"]', "regions that the world has not: spot"),
        ("if dot:", "if False:", "the same with the cue and without it"),
    ],
)
def test_what_cannot_be_a_world_of_the_board_is_not_committed(registry, tmp_path, old, new, said):
    file = tmp_path / "mine.py"
    assert old in BARS.read_text()
    file.write_text(BARS.read_text().replace(old, new))
    with pytest.raises(BiaslibError, match=said):
        held_out.commit(file, registry)
    assert held_out.read(registry) == {}


def test_a_world_is_committed_once(registry):
    held_out.commit(BARS, registry)
    with pytest.raises(BiaslibError, match="'bars' is taken"):
        held_out.commit(BARS, registry)


def test_the_registry_of_the_package_is_in_order():
    assert held_out.check() == []
    assert board.HELD_OUT.keys() == held_out.read().keys()
    assert len(board.HELD_OUT) >= 1
