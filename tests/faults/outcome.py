"""What became of the trials of a campaign, counted."""

from collections import Counter
from dataclasses import dataclass, field

import pandas as pd

# everything but "survived" is a fault of ours
KINDS = ("survived", "different", "silent", "raw", "left over", "executed")


@dataclass
class Outcomes:
    """Counts a part of the campaign, and what a fault looked like."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)

    def add(self, part: str, kind: str, detail: str = "") -> None:
        """Counts one trial; `detail` says how to see a fault again."""
        assert kind in KINDS
        self.counts[part, kind] += 1
        if kind != "survived":
            self.faults.append(f"{part}: {kind}: {detail}"[:600])

    def total(self, part: str = "") -> int:
        """Of the trials of a part, or of all parts whose names begin so."""
        return sum(count for (name, _), count in self.counts.items() if name.startswith(part))

    def table(self) -> pd.DataFrame:
        """One row a part: how many trials, and how many of each kind."""
        parts = sorted({part for part, _ in self.counts})
        rows = [{"what was done": part, "kills": self.kills[part], "trials": self.total(part)} for part in parts]
        return pd.DataFrame([row | {kind: self.counts[row["what was done"], kind] for kind in KINDS} for row in rows])
