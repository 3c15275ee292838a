from importlib import resources

import pandas as pd

from biaslib.audit.report import reliability
from biaslib.book import recorded
from biaslib.dial.trust import IN_AUDITS, trust


def test_the_table_that_audits_carry_is_that_of_the_recorded_dial():
    values = recorded.get("dial")["values"]
    made = trust(values["numbers"], values["powers"])
    assert list(made["measure"]) == [words for words, _ in IN_AUDITS.values()]
    with resources.files("biaslib.audit").joinpath("reliability.csv").open(encoding="utf-8") as file:
        pd.testing.assert_frame_equal(pd.read_csv(file), made, rtol=1e-9)
    shown = reliability(IN_AUDITS)
    gap = shown.iloc[0]["unbiased accused"]
    assert gap.n == int((values["numbers"]["strength"] == 0).sum())
    assert 0 <= gap.low <= gap.estimate <= gap.high <= 1
    assert shown["birds"].str.contains("from|at no strength|not measured").all()


def test_only_what_was_measured_is_told_of():
    assert list(reliability({"gaps": pd.DataFrame()})["measure"]) == ["gap in accuracy"]
    assert reliability({}).empty
