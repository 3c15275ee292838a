"""An audit of many predictions with scores: groups of several values, ages in bins, the report with all its files."""

from benchmarks import workloads
from benchmarks.measure import peak_memory, seconds
from benchmarks.report import Figure


def run(images: int = 50_000) -> list[Figure]:
    audit = workloads.audit_of_predictions(images)
    memory = peak_memory("audit")["total"] / 1e9
    return [
        Figure(f"Audit of {images:,} predictions, 11 groups, 33 tests", seconds(audit), "s", "<=", 15),
        Figure("  peak memory of the process (50,000)", memory, "GB", "<=", 1),
    ]
