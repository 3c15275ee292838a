"""Audits: of many predictions with scores, and of pictures, beside the passes that their answers and maps need.

`python -m benchmarks.audits 1000 5000` measures the pictures alone, with more of them than `make bench` has time for.
"""

import sys
from pathlib import Path

import torch

from benchmarks import workloads
from benchmarks.measure import peak_memory, seconds
from benchmarks.report import Figure, publish
from biaslib import models
from biaslib.attribution import grad_cam

BATCH = 32


def run(images: int = 50_000, pictures: tuple[int, int] = (96, 352)) -> list[Figure]:
    audit = workloads.audit_of_predictions(images)
    memory = peak_memory("audit")["total"] / 1e9
    return [
        Figure(f"Audit of {images:,} predictions, 11 groups, 33 tests", seconds(audit), "s", "<=", 15),
        Figure("  peak memory of the process (50,000)", memory, "GB", "<=", 1),
        *of_pictures(*pictures),
    ]


def of_pictures(few: int, many: int, architecture: str = "resnet18", size: int = workloads.SIZE) -> list[Figure]:
    """What every further picture costs: what an audit begins and ends with is small beside the passes of thousands."""
    audits = {n: workloads.audit_of_pictures(n, architecture, size) for n in (few, many)}
    # in the order that is fastest, so that the passes are no slower than an audit's
    batch = torch.randn(BATCH, 3, size, size).to(memory_format=torch.channels_last)
    model = models.build(architecture, 2).eval()
    grad_cam(model, batch, [1])  # the first call of anything is slow
    # in turn, so that what else the machine does meets both
    passes = [seconds(lambda: grad_cam(model, batch, [1])) for _ in range((many - few) // BATCH // 2)]
    further = -audits[few]() + audits[many]()
    passes += [seconds(lambda: grad_cam(model, batch, [1])) for _ in range((many - few) // BATCH // 2)]
    memory = {n: peak_memory(f"{n} pictures")["total"] for n in (few, many)}
    alone = sum(passes) / len(passes) / BATCH * (many - few)
    return [
        Figure(f"Audit of {many - few} further pictures, {architecture}, {size} px, with maps", further, "s"),
        Figure("  beside forward passes and maps alone", further / alone, "x", "<=", 1.3),
        Figure(f"  memory of {many} pictures beside that of {few}", memory[many] / memory[few], "x", "<=", 1.1),
    ]


if __name__ == "__main__":
    torch.set_num_threads(workloads.THREADS)
    sys.exit(0 if publish([of_pictures(*map(int, sys.argv[1:3]))], Path("_build/bench_audits.json")) else 1)
