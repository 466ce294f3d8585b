"""Seconds a cell spends outside the vendors' calls: building, references, comparing, recording.

    python -m benchmarks.overhead [CASES]

Runs CASES operator cases (default 60), spread evenly over the suite, on every default target in
this process, and prints for each target the mean and the 95th percentile of the overhead beside
the vendors' own time. The project's aim is a mean below 20 ms.
"""

from __future__ import annotations

import statistics
import sys
import warnings
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from harness import registry, run_cell
from harness.collection.discovery import all_suites
from harness.pipeline import speed
from harness.pipeline.tester import VENDOR_STAGES

AIM_MS = 20.0


def main(count: int = 60) -> None:
    """Measure and print."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    speed.install()
    cases = [case for suite in all_suites(Path("suites/ops")) for case in suite.cases]
    chosen = cases[:: max(1, len(cases) // count)]
    targets = registry.default_targets()
    for target in targets:
        run_cell(chosen[0], target)  # imports and first-use costs are not a cell's
    speed.settle()
    table = Table(title=f"overhead of {len(chosen)} cases a target, milliseconds a cell")
    for column in ("target", "mean", "95th percentile", "vendor mean", "share"):
        table.add_column(column, justify="left" if column == "target" else "right")
    for target in targets:
        cells = [run_cell(case, target) for case in chosen]
        theirs = [sum(cell.stages.get(name, 0.0) for name in VENDOR_STAGES) * 1e3 for cell in cells]
        ours = [cell.seconds * 1e3 - spent for cell, spent in zip(cells, theirs, strict=True)]
        vendor = statistics.mean(theirs)
        mean = statistics.mean(ours)
        high = statistics.quantiles(ours, n=20)[-1]
        share = mean / (mean + vendor)
        table.add_row(str(target), f"{mean:.1f}", f"{high:.1f}", f"{vendor:.0f}", f"{share:.1%}")
    Console().print(table)
    print(f"aim: mean below {AIM_MS:.0f} ms")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
