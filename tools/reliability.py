"""Writes the table of how reliable each measure is, which travels with `biaslib.audit`, from the dial's record.

python -m tools.reliability
"""

import sys
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pandas as pd

from biaslib import audit
from biaslib.book import recorded
from biaslib.dial import verdicts
from biaslib.dial.catalogue import AUDIT_MEASURES
from biaslib.dial.trials import PLACES
from biaslib.store import replacing


def reliability_table(numbers: pd.DataFrame, powers: pd.DataFrame) -> pd.DataFrame:
    """The table that travels with `biaslib.audit` (`reliability.csv`), from both tables of the dial's record.

    A row a measure: `table` (of an audit), `measure` and `images` (`verdicts.AUDIT_IMAGES`); `accused`, `low`, `high`
    and `n`: the share of unbiased models that it reports alone, by the rule of `statistics.detection`; and a column a
    world with the strength from which on so many images show the bias in 80 % of audits, in words.
    """
    counts = verdicts.false_positive_counts(verdicts.on_usual_architecture(verdicts.from_record(numbers)))
    rates = verdicts.false_positive_rates(counts)
    images = verdicts.AUDIT_IMAGES
    thresholds = verdicts.detection_thresholds(verdicts.on_usual_architecture(verdicts.from_record(powers)))
    audits = thresholds[(thresholds["images"] == images) & (thresholds["models"] == 1)]
    smallest = audits.set_index(["metric", "world"])["strength"]

    def words(strength: float | None) -> str:
        if strength is None:
            return "not measured"
        return "at no strength" if np.isnan(strength) else f"from {strength:g} on"

    rows = [
        (
            name,
            measure,
            verdicts.AUDIT_IMAGES,
            *astuple(rates[metric])[:4],
            *(words(smallest.get((metric, w))) for w in PLACES),
        )
        for name, (measure, metric) in AUDIT_MEASURES.items()
        if metric in rates
    ]
    return pd.DataFrame(rows, columns=["table", "measure", "images", "accused", "low", "high", "n", *PLACES])


if __name__ == "__main__":
    if (record := recorded.get("dial", recorded.ALL)) is None:
        sys.exit("The dial's record is missing from book/recorded: restore it from git.")
    with replacing(Path(audit.__file__).with_name("reliability.csv")) as partial:
        table = reliability_table(record["values"]["numbers"], record["values"]["powers"])
        table.to_csv(partial, index=False)
