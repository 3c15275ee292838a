"""How sure a number is: intervals, tests, corrections and power."""

from biaslib.statistics.crossed import crossed_interval
from biaslib.statistics.intervals import Comparison, Interval, holm, interval, kendall, sign_flip, welch
from biaslib.statistics.proportions import gap_power, images_needed, minimum_detectable_gap

__all__ = [
    "Comparison", "Interval", "crossed_interval", "gap_power", "holm", "images_needed", "interval", "kendall",
    "minimum_detectable_gap", "sign_flip", "welch",
]  # fmt: skip
