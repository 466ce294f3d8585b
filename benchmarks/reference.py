"""Cost of a model's reference compared with lowering and running the model.

    python -m benchmarks.reference nets.py:minilm nets.py:crepe --targets xnnpack:fp32,tosa:int

A model is a source of ``conform check``. Each model and target runs in its own process on one
thread, after a small cell that does the one-time imports. Seconds are CPU time of the process.
"Lowering" is everything from the export to the serialized bytes. "Reference" is the work that the
verdict needs: the eager and float64 runs, the perturbed runs and the bounds. The aim is at most
twice lowering and running together.

``--keep FOLDER`` writes the bounds of each cell to a file. ``--against FOLDER`` compares them with
bounds that an earlier version wrote: the ratio of each element's bound, new to old.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.command_cost import write_figures
from harness.vendors.quiet import silence_vendors

if TYPE_CHECKING:
    import torch

    from harness.pipeline.tester import Tester

TARGET_RATIO = 2.0
LOWERING = ("export", "quantize", "to_edge", "transform", "lower", "to_executorch", "ship",
            "serialize")  # fmt: skip
RUNNING = ("run", "steady", "emulate")


class BoundRatios(NamedTuple):
    """A cell's bounds divided by the bounds of an earlier version, over all elements."""

    median: float
    least: float
    most: float


class ReferenceCost(NamedTuple):
    """Cost of one cell.

    Attributes:
        model: name of the model.
        target: the target.
        status: status of the cell, and the failed stage.
        lowering: CPU seconds of the stages up to the bytes.
        running: CPU seconds of executing them.
        reference: CPU seconds of the oracle and the bounds.
        gib: peak memory of the reference, above the memory of the process before the cell.
        used: the largest bound used.
        ratios: bounds, new to old; None where there is nothing to compare with.
    """

    model: str
    target: str
    status: str
    lowering: float
    running: float
    reference: float
    gib: float
    used: float
    ratios: BoundRatios | None

    @property
    def ratio(self) -> float:
        """Reference time as a multiple of lowering and running."""
        return self.reference / (self.lowering + self.running)


def measure(model: str, target: str, keep: Path | None, against: Path | None) -> ReferenceCost:
    """Measure one model on one target, in this process."""
    import torch

    from harness.checking import cases, model_sources
    from harness.model.case import Case
    from harness.pipeline import speed
    from harness.pipeline.cell_options import CellOptions
    from harness.pipeline.runner import run_cell
    from harness.workers.memory import GIB, MemoryMeter

    class Clock(MemoryMeter):
        """CPU seconds of stages; a nested stage is not counted in the outer one."""

        def __init__(self) -> None:
            super().__init__()
            self.seconds: dict[str, float] = {}
            self._names: list[str] = []
            self._since = 0.0

        @contextmanager
        def stage(self, name: str) -> Iterator[None]:
            self._turn()
            self._names.append(name)
            try:
                with super().stage(name):
                    yield
            finally:
                self._turn()
                self._names.pop()

        def _turn(self) -> None:
            now = time.process_time()
            if self._names:
                self.seconds[self._names[-1]] = (
                    self.seconds.get(self._names[-1], 0.0) + now - self._since
                )
            self._since = now

        def total(self, stages: Sequence[str]) -> float:
            return sum(self.seconds.get(stage, 0.0) for stage in stages)

    silence_vendors()
    torch.set_num_threads(1)
    speed.install()
    subject = model_sources.load_model(model)
    warm = Case.from_module("warm", torch.nn.Linear(8, 8), (torch.randn(2, 8),))
    run_cell(warm, target)
    (case,) = cases.plan_cases(subject).cases
    speed.tune_garbage_collector()
    clock, ran = Clock(), list["Tester"]()
    cell = run_cell(case, target, options=CellOptions(meter=clock, on_compared=ran.append))
    name = f"{model.rpartition(':')[2]}@{target.replace(':', '_')}.pt"
    bounds = [b for call in ran[0].reference.bound for b in call if b is not None] if ran else []
    if keep is not None and bounds:
        keep.mkdir(parents=True, exist_ok=True)
        torch.save(bounds, keep / name)
    earlier = None if against is None else against / name
    known = torch.load(earlier) if earlier is not None and earlier.exists() and bounds else None
    return ReferenceCost(
        model.rpartition(":")[2],
        target,
        cell.status.value + (f" at {cell.stage}" if cell.error else ""),
        clock.total(LOWERING),
        clock.total(RUNNING),
        clock.total(["reference"]),
        clock.peaks.get("reference", 0) / GIB,
        max((row.bound_used for row in cell.numerics), default=0.0),
        None if known is None else compare_bounds(bounds, known),
    )


def compare_bounds(now: Sequence[torch.Tensor], then: Sequence[torch.Tensor]) -> BoundRatios:
    """Return the ratios of bounds, element by element; 1 where both are 0."""
    import torch

    each = [
        torch.where(new == old, 1.0, new.double() / old.double()).flatten()
        for new, old in zip(now, then, strict=True)
    ]
    ratio = torch.cat(each)
    return BoundRatios(float(ratio.median()), float(ratio.min()), float(ratio.max()))


def measure_in_process(model: str, target: str, given: argparse.Namespace) -> ReferenceCost | None:
    """Measure in a new process; print its errors and return None if it fails."""
    command = [sys.executable, "-m", "benchmarks.reference", model, "--targets", target, "--one"]
    for option, folder in (("--keep", given.keep), ("--against", given.against)):
        command += [option, str(folder)] if folder else []
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        print(f"{model} on {target} ended with {made.returncode}:\n{made.stderr[-2000:]}")
        return None
    found: list[Any] = json.loads(made.stdout.splitlines()[-1])
    *figures, ratios = found
    return ReferenceCost._make([*figures, None if ratios is None else BoundRatios(*ratios)])


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", help="FILE.py:NAME or package.module:NAME")
    parser.add_argument("--targets", default="xnnpack:fp32", help="comma-separated (%(default)s)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write bounds to this folder")
    parser.add_argument(
        "--against", type=Path, metavar="FOLDER", help="compare with bounds in this folder"
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        cost = measure(given.models[0], given.targets, given.keep, given.against)
        print(json.dumps(cost))
        return
    columns = ("model", "target", "status", "lowering s", "run s", "reference s", "ratio", "GiB",
               "bound used", "bounds, new to old: median, least, most")  # fmt: skip
    table = Table(title="CPU seconds of a cell; ratio is reference / (lowering + run)")
    for column in columns:
        table.add_column(column, justify="left" if column in columns[:3] else "right")
    made: list[ReferenceCost] = []
    for model in given.models:
        for target in given.targets.split(","):
            found = measure_in_process(model, target, given)
            if found is None:
                continue
            made.append(cost := found)
            figures = (cost.lowering, cost.running, cost.reference, cost.ratio, cost.gib, cost.used)
            ratios = "" if cost.ratios is None else " ".join(f"{one:.3f}" for one in cost.ratios)
            row = [cost.model, target, cost.status, *(f"{one:.2f}" for one in figures), ratios]
            print("  ".join(row), file=sys.stderr, flush=True)
            table.add_row(*row)
    Console(width=max(160, Console().width)).print(table)
    print(f"aim: a ratio of at most {TARGET_RATIO:g}")
    write_figures(
        given.json, "reference", cells=[cost._asdict() | {"ratio": cost.ratio} for cost in made]
    )


if __name__ == "__main__":
    main()
