import pandas as pd

from biaslib import recorded
from biaslib.dial.trust import IN_AUDITS, trust
from biaslib.errors import BiaslibError


def test_the_table_is_that_of_the_recorded_dial():
    table = trust()
    assert list(table["measure"]) == [words for words, _ in IN_AUDITS.values()]
    numbers = recorded.get("dial")["values"]["numbers"]
    twins = int((numbers["strength"] == 0).sum())
    gap = table.iloc[0]["unbiased accused"]
    assert gap.n == twins
    assert 0 <= gap.low <= gap.estimate <= gap.high <= 1
    assert table["birds"].str.contains("from|at no strength|not measured").all()


def test_only_what_was_measured_is_told_of():
    assert list(trust({"gaps": pd.DataFrame()})["measure"]) == ["gap in accuracy"]


def test_without_a_record_there_is_nothing_to_say(monkeypatch):
    monkeypatch.setattr(recorded, "get", lambda name: None)
    assert trust().empty

    def nowhere(name):
        raise BiaslibError("not inside a checkout")

    monkeypatch.setattr(recorded, "get", nowhere)
    assert trust().empty
