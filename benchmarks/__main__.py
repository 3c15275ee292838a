"""`python -m benchmarks`: every comparison, side by side; exit code 1 where a target is missed."""

import sys
from pathlib import Path

import torch

from benchmarks import (
    amplification,
    attention_iou,
    gan,
    grad_cam,
    integrated_gradients,
    localisation,
    perturbation,
    score_cam,
    workloads,
)
from benchmarks.report import publish

if __name__ == "__main__":
    torch.set_num_threads(workloads.THREADS)
    print("This takes some minutes: the peers are slow.")
    parts = (grad_cam, score_cam, integrated_gradients, attention_iou, localisation, perturbation, amplification, gan)
    sys.exit(0 if publish((part.run() for part in parts), Path("_build/bench.json")) else 1)
