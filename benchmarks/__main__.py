"""`python -m benchmarks`: every comparison, side by side; exit code 1 where a target is missed."""

import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import torch

from benchmarks import (
    amplification,
    attention_iou,
    audits,
    epsilon_lrp,
    gan,
    grad_cam,
    integrated_gradients,
    localisation,
    on_gpu,
    perturbation,
    score_cam,
    workloads,
)
from benchmarks.report import publish
from biaslib.store import parallel

PARTS = (
    grad_cam, score_cam, integrated_gradients, epsilon_lrp, attention_iou, localisation, perturbation, amplification,
    audits, gan, on_gpu,
)  # fmt: skip


def begin() -> None:
    """A process as the package starts its own."""
    torch.set_num_threads(workloads.THREADS)
    parallel.keep_memory()


if __name__ == "__main__":
    print("This takes some minutes: the peers are slow.")
    # each in a process of its own: what one leaves in the allocator would make the next one's peer faster or slower
    alone = ProcessPoolExecutor(1, get_context("spawn"), begin, max_tasks_per_child=1)
    with alone:
        runs = [alone.submit(part.run) for part in PARTS]
        met = publish((run.result() for run in runs), Path("_build/bench.json"))
    sys.exit(0 if met else 1)
