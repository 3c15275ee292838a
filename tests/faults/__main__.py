"""The whole campaign: `make faults`. Prints the counts, and writes them where the status page shows them."""

import argparse
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import torch

from tests.faults import files, inputs, kills
from tests.faults.outcome import Outcomes

MEMORY = 3.0  # GiB, of a process; importing everything takes nearly one
COUNTS = Path(__file__).parents[2] / "book" / "faults.csv"


def main() -> None:
    """Runs all parts and ends with 1 where there was a fault."""
    asked = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    asked.add_argument("--kills", type=int, default=70, help="of each kind of work")
    asked.add_argument("--files", type=int, default=1000)
    asked.add_argument("--inputs", type=int, default=1050)
    asked.add_argument("--seed", type=int, default=int(time.time()))
    given = asked.parse_args()
    torch.set_num_threads(1)  # the processes of the first part are forked
    outcomes = Outcomes()
    with tempfile.TemporaryDirectory() as scratch:
        for part, count in ((kills, given.kills), (files, given.files), (inputs, given.inputs)):
            folder = Path(scratch) / part.__name__.rpartition(".")[2]
            folder.mkdir()
            (folder / "notebooks").mkdir()
            (folder / "_config.yml").touch()
            os.chdir(folder)
            os.environ["BIASLIB_STORE"] = str(folder / "store")
            os.environ["BIASLIB_DATA"] = str(folder / "data")
            part.campaign(folder, outcomes, seed=given.seed, **{"kills" if part is kills else "count": count})
            print(outcomes.table().to_string(index=False), flush=True)
    print(*outcomes.faults, sep="\n")
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 2**20
    print(f"the most memory that any of the processes had: {peak:.1f} GiB, of at most {MEMORY:g}")
    if given.kills and given.files and given.inputs:  # else a part of the campaign
        outcomes.table().to_csv(COUNTS, index=False)
    sys.exit(bool(outcomes.faults) or peak > MEMORY)


if __name__ == "__main__":
    main()
