"""How far each measure of an audit can be trusted, as far as the recorded dial says."""

from collections.abc import Container
from typing import Final

import numpy as np
import pandas as pd

from biaslib import recorded
from biaslib.dial.trials import PLACES
from biaslib.dial.verdicts import AUDIT_IMAGES, alarm_rates, alarms, from_record, powers_from_record, smallest_strengths
from biaslib.errors import BiaslibError

# the tables of an audit: what is in them, and the metric of the dial that it is
IN_AUDITS: Final = {
    "gaps": ("gap in accuracy", "Accuracy gap"),
    "correlations": ("correlation of answers and group", "Correlation of answers and cue"),
    "amplification": ("amplification, group → target", "Amplification, group → attribute"),
    "attention": ("attention of target and group", "Heatmap score"),
    "regions": ("share of the map on a region", "RMA of the cue, Grad-CAM"),
}


def trust(tables: Container[str] = tuple(IN_AUDITS)) -> pd.DataFrame:
    """The dial's table for what an audit measures, from the recorded run of the chapter, for one model.

    Args:
        tables: of the audit, by name; only what is measured in them is told of.

    Returns:
        A row a measure: `measure`; `unbiased accused` (Interval: how often an unbiased model is, singly, by the rule of
        `detection`); and a column a world with the strength from which on 1,000 test images show the bias in 80 % of
        audits, in words. No rows where nothing is recorded, or outside a checkout of the book.
    """
    try:
        record = recorded.get("dial")
    except BiaslibError:
        record = None
    columns = ["measure", "unbiased accused", *PLACES]
    if record is None:
        return pd.DataFrame(columns=columns)
    rates = alarm_rates(alarms(_usual(from_record(record["values"]["numbers"])))).set_index("metric")["alarms"]
    smallest = smallest_strengths(_usual(powers_from_record(record["values"]["powers"])))
    audits = smallest[(smallest["images"] == AUDIT_IMAGES) & (smallest["models"] == 1)]
    from_ = audits.set_index(["metric", "world"])["strength"]
    rows = [
        (words, rates[metric], *(_words(from_.get((metric, world), None)) for world in PLACES))
        for name, (words, metric) in IN_AUDITS.items()
        if name in tables and metric in rates
    ]
    return pd.DataFrame(rows, columns=columns)


def _usual(table: pd.DataFrame) -> pd.DataFrame:
    return table[
        table["architecture"] == table["world"].map({name: place.architecture for name, place in PLACES.items()})
    ]


def _words(strength: float | None) -> str:
    if strength is None:
        return "not measured"
    return "at no strength" if np.isnan(strength) else f"from {strength:g} on"
