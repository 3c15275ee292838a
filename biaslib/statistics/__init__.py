"""How sure a number is: intervals, tests, corrections and power."""

from biaslib.statistics.intervals import Comparison, Interval, holm, interval, kendall, sign_flip, welch
from biaslib.statistics.proportions import gap_power, images_needed, minimum_detectable_gap

__all__ = [
    "Comparison",
    "Interval",
    "gap_power",
    "holm",
    "images_needed",
    "interval",
    "kendall",
    "minimum_detectable_gap",
    "sign_flip",
    "welch",
]
