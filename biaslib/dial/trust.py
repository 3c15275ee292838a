"""How far each measure of an audit can be trusted, as the dial's numbers say it."""

from typing import Final

import numpy as np
import pandas as pd

from biaslib.dial.trials import PLACES
from biaslib.dial.verdicts import AUDIT_IMAGES, alarm_rates, alarms, from_record, powers_from_record, smallest_strengths

# the tables of an audit: what is in them, and the metric of the dial that it is
IN_AUDITS: Final = {
    "gaps": ("gap in accuracy", "Accuracy gap"),
    "correlations": ("correlation of answers and group", "Correlation of answers and cue"),
    "amplification": ("amplification, group → target", "Amplification, group → attribute"),
    "attention": ("attention of target and group", "Heatmap score"),
    "regions": ("share of the map on a region", "RMA of the cue, Grad-CAM"),
}


def trust(numbers: pd.DataFrame, powers: pd.DataFrame) -> pd.DataFrame:
    """The table that travels with `biaslib.audit` (`reliability.csv`), from what the chapter recorded.

    Args:
        numbers: as the dial's record holds them.
        powers: likewise.

    Returns:
        A row a measure: `table` (of an audit) and `measure`; `accused`, `low`, `high` and `n`: the share of unbiased
        models that it accuses alone, by the rule of `statistics.detection`; and a column a world with the strength
        from which on 1,000 test images show the bias in 80 % of audits, in words.
    """
    rates = alarm_rates(alarms(_usual(from_record(numbers)))).set_index("metric")["alarms"]
    smallest = smallest_strengths(_usual(powers_from_record(powers)))
    audits = smallest[(smallest["images"] == AUDIT_IMAGES) & (smallest["models"] == 1)]
    from_ = audits.set_index(["metric", "world"])["strength"]
    rows = [
        {
            "table": name,
            "measure": words,
            "accused": rates[metric].estimate,
            "low": rates[metric].low,
            "high": rates[metric].high,
            "n": rates[metric].n,
            **{world: _words(from_.get((metric, world), None)) for world in PLACES},
        }
        for name, (words, metric) in IN_AUDITS.items()
        if metric in rates
    ]
    return pd.DataFrame(rows)


def _usual(table: pd.DataFrame) -> pd.DataFrame:
    return table[
        table["architecture"] == table["world"].map({name: place.architecture for name, place in PLACES.items()})
    ]


def _words(strength: float | None) -> str:
    if strength is None:
        return "not measured"
    return "at no strength" if np.isnan(strength) else f"from {strength:g} on"
