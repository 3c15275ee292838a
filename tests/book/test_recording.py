import re

import pytest

from biaslib.book import find_project, recorded
from biaslib.errors import BiaslibError


@pytest.mark.parametrize("file", sorted(find_project().recorded.glob("*.json")), ids=lambda file: file.stem)
def test_a_record_in_which_one_number_was_turned_is_refused(file, tmp_path, monkeypatch):
    text = file.read_text(encoding="utf-8")
    at = text.index('"values"')
    digit = re.search(r"(?<=[ \[])-?\d+\.\d", text[at:])
    turned = text[: at + digit.start()] + "7" + text[at + digit.start() + 1 :]
    assert turned != text
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "_config.yml").touch()
    (tmp_path / "book" / "recorded").mkdir(parents=True)
    (tmp_path / "book" / "recorded" / file.name).write_text(turned, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    notebook, _, preset = file.stem.rpartition("-")
    with pytest.raises(BiaslibError, match=f"the record {file.name} is damaged"):
        recorded.get(notebook, preset)


def test_records_that_a_star_fits_are_one_and_others_are_left_out():
    parts = [recorded.get("mass_and_rank", preset)["values"]["means"] for preset in ("real", "real_2")]
    together = recorded.get("mass_and_rank", "real*")
    assert len(together["values"]["means"]) == sum(map(len, parts))
    assert set(together["values"]["means"]["use case"]) == {"pets", "fruits"}
    assert {"photos, pets", "photos, fruits"} == set(together["data"])  # drawn images have a record, too
    assert recorded.get("mass_and_rank", "nothing*") is None
