"""Cost of a cell by the size of the run, and memory of worker processes.

    python -m benchmarks.scaling [--cells 100,1000,5000] [--workers 1,2] [--json FILE]

Upstream's operator programs on the five float32 targets (``suites/upstream``) run in samples of
these sizes, each as a run of its own. All samples contain the cells of the smallest one: the ratio
of their seconds in a larger run to those in the smallest is the effect of the size alone. Memory is
the peak of a worker process, sampled every half second, and its growth over the last half of its
run. With several numbers of workers, the largest sample runs with each.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.command_cost import write_figures

TARGETS = ("portable:fp32", "xnnpack:fp32", "tosa:fp", "mlx:fp32", "metal:fp32")
_SUITE = "suites/upstream/operators.py"
_INTERVAL = 0.5
_GIB = 2**30


class ScalingRun(NamedTuple):
    """One run.

    Attributes:
        cells: number of cells.
        workers: number of worker processes.
        wall: seconds from the command to its end.
        each: seconds by cell.
        peak: GiB of the largest worker process.
        growth: GiB that this process gained in the last half of its time.
    """

    cells: int
    workers: int
    wall: float
    each: dict[str, float]
    peak: float
    growth: float


def select_sample(count: int) -> list[str]:
    """Return names of cases with ``count`` cells on all targets; a sample is part of each larger
    one.
    """
    from suites.upstream.operators import CASES

    names = sorted((case.name for case in CASES), key=_hash_name)
    return names[: max(1, count // len(TARGETS))]


def _hash_name(name: str) -> str:
    import hashlib

    return hashlib.sha256(name.encode()).hexdigest()


def run_sample(count: int, workers: int) -> ScalingRun:
    """Run a sample and measure the memory of its worker processes."""
    from harness.record.folder import load

    names = select_sample(count)
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "cells"
        listed.write_text(
            "\n".join(f"{_SUITE}::{name}@{target}" for name in names for target in TARGETS)
        )
        record = Path(folder) / "run"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "upstream", "-n", str(workers)]
        command += ["--targets", ",".join(TARGETS), "--run-dir", str(record), f"@{listed}"]
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        held = _watch_memory(process)
        wall = time.perf_counter() - start
        each = {cell.id: cell.seconds for cell in load(record).cells}
    peaks = {pid: max(sizes) for pid, sizes in held.items()}
    largest = max(peaks, key=lambda pid: peaks[pid])
    sizes = held[largest]
    growth = max(sizes) - max(sizes[: len(sizes) // 2] or sizes)
    return ScalingRun(len(each), workers, wall, each, peaks[largest] / _GIB, growth / _GIB)


def _watch_memory(process: subprocess.Popen[bytes]) -> dict[int, list[int]]:
    """Return the sampled memory of each worker process in bytes."""
    held: dict[int, list[int]] = {}
    parent = psutil.Process(process.pid)
    while process.poll() is None:
        for worker in parent.children():
            try:
                held.setdefault(worker.pid, []).append(worker.memory_info().rss)
            except psutil.NoSuchProcess:
                continue
        time.sleep(_INTERVAL)
    return held


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--cells", default="100,1000,5000", help="comma-separated sizes (%(default)s)"
    )
    parser.add_argument(
        "--workers", default="2", help="comma-separated numbers of processes (%(default)s)"
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args()
    sizes = sorted(map(int, given.cells.split(",")))
    workers = list(map(int, given.workers.split(",")))
    runs = [run_sample(size, workers[0]) for size in sizes]
    runs += [run_sample(sizes[-1], more) for more in workers[1:]]
    table = Table(title="cells of upstream's operators on five targets")
    for column in ("cells", "workers", "wall s", "ms a cell", "the same cells", "GiB", "growth"):
        table.add_column(column, justify="right")
    figures: list[dict[str, Any]] = []
    for found in runs:
        common = found.each.keys() & runs[0].each.keys()
        ratio = sum(found.each[cell] for cell in common) / sum(runs[0].each[c] for c in common)
        mean = 1e3 * sum(found.each.values()) / len(found.each)
        shown = (f"{found.wall:.0f}", f"{mean:.0f}", f"{ratio:.2f}", f"{found.peak:.2f}")
        table.add_row(str(found.cells), str(found.workers), *shown, f"{found.growth:+.2f}")
        kept = {name: value for name, value in found._asdict().items() if name != "each"}
        figures.append(kept | {"milliseconds": mean, "same_cells": ratio})
    Console().print(table)
    write_figures(given.json, "scaling", runs=figures)


if __name__ == "__main__":
    main()
