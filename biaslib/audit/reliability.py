"""How far each measure of an audit can be trusted, as the book's chapter The dial recorded it.

The table travels with the package, so that an audit outside a checkout of the book holds it too.
`dial.verdicts.reliability_table` makes it from the dial's record, and a test compares the two.
"""

from collections.abc import Container
from functools import cache
from importlib import resources
from typing import Final

import pandas as pd

from biaslib.statistics import Interval

IMAGES: Final = 1000  # of the audits that the table is about


def reliability(tables: Container[str]) -> pd.DataFrame:
    """What the dial says of the measures in an audit, for one model and `IMAGES` test images.

    Args:
        tables: of the audit, by name; only what is measured in them is in the result.

    Returns:
        A row a measure: `measure`; `unbiased accused` (Interval: the share of unbiased models that it accuses, alone);
        and a column a world with the strength from which on it shows the bias in 80 % of audits, in words.
    """
    recorded = _recorded()
    rows = recorded[[name in tables for name in recorded["table"]]].to_dict("records")
    accused = [Interval(row["accused"], row["low"], row["high"], int(row["n"])) for row in rows]
    worlds = [column for column in recorded if column not in ("table", "measure", "accused", "low", "high", "n")]
    found = pd.DataFrame(
        [{name: row[name] for name in ("measure", *worlds)} for row in rows], columns=["measure", *worlds]
    )
    found.insert(1, "unbiased accused", accused)
    return found


@cache
def _recorded() -> pd.DataFrame:
    with resources.files("biaslib.audit").joinpath("reliability.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file)
