"""What the reference of a model costs, beside lowering the model and running it.

    python -m benchmarks.reference nets.py:minilm nets.py:crepe --targets xnnpack:fp32,tosa:int

A model is what ``conform check`` takes. Each model and target runs in a process of its own on one
thread, after a small cell that imports what is imported once. Seconds are CPU time of the process.
"Lowering" is everything from the export to the serialized bytes. "Reference" is what decides the
verdict: the eager and float64 runs, the perturbed runs and the bounds. Its aim is at most twice
lowering and running together.

``--keep FOLDER`` writes the bounds of each cell to a file; ``--against FOLDER`` compares them with
bounds that an earlier version wrote there: the ratio of each element's bound, now to then.
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

from benchmarks.measured import write
from harness.vendors.quiet import silence_vendors

if TYPE_CHECKING:
    import torch

    from harness.pipeline.tester import Tester

AIM = 2.0
LOWERING = ("export", "quantize", "to_edge", "transform", "lower", "to_executorch", "ship",
            "serialize")  # fmt: skip
RUNNING = ("run", "steady", "emulate")


class Ratios(NamedTuple):
    """A cell's bounds over those of an earlier version, by element."""

    median: float
    least: float
    most: float


class Cost(NamedTuple):
    """What one cell took.

    Attributes:
        model: as it was given.
        target: where it ran.
        status: of the cell, and its error.
        lowering: CPU seconds of the stages up to the bytes.
        running: of executing them.
        reference: of the oracle and the bounds.
        gib: the most that the reference held above what the process held before the cell.
        used: the largest share of a bound that an error took.
        ratios: bounds, now to then; None where there is nothing to compare with.
    """

    model: str
    target: str
    status: str
    lowering: float
    running: float
    reference: float
    gib: float
    used: float
    ratios: Ratios | None

    @property
    def ratio(self) -> float:
        """The reference, in units of lowering and running."""
        return self.reference / (self.lowering + self.running)


def measure(model: str, target: str, keep: Path | None, against: Path | None) -> Cost:
    """Run one model on one target, in this process."""
    import torch

    from harness.checking import cases, model_sources
    from harness.execution.memory import GIB, MemoryMeter
    from harness.model.case import Case
    from harness.pipeline import speed
    from harness.pipeline.runner import run_cell

    class Clock(MemoryMeter):
        """CPU seconds of stages; those of a stage inside of another are its own."""

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

        def of(self, stages: Sequence[str]) -> float:
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
    cell = run_cell(case, target, meter=clock, on_compared=ran.append)
    name = f"{model.rpartition(':')[2]}@{target.replace(':', '_')}.pt"
    bounds = [b for call in ran[0].reference.bound for b in call if b is not None] if ran else []
    if keep is not None and bounds:
        keep.mkdir(parents=True, exist_ok=True)
        torch.save(bounds, keep / name)
    earlier = None if against is None else against / name
    known = torch.load(earlier) if earlier is not None and earlier.exists() and bounds else None
    return Cost(
        model.rpartition(":")[2],
        target,
        cell.status.value + (f" at {cell.stage}" if cell.error else ""),
        clock.of(LOWERING),
        clock.of(RUNNING),
        clock.of(["reference"]),
        clock.peaks.get("reference", 0) / GIB,
        max((row.bound_used for row in cell.numerics), default=0.0),
        None if known is None else compare(bounds, known),
    )


def compare(now: Sequence[torch.Tensor], then: Sequence[torch.Tensor]) -> Ratios:
    """The ratio of bounds, element by element; 1 where both are 0."""
    import torch

    each = [
        torch.where(new == old, 1.0, new.double() / old.double()).flatten()
        for new, old in zip(now, then, strict=True)
    ]
    ratio = torch.cat(each)
    return Ratios(float(ratio.median()), float(ratio.min()), float(ratio.max()))


def apart(model: str, target: str, given: argparse.Namespace) -> Cost | None:
    """The same in a process of its own; None where that ended otherwise, which it says."""
    command = [sys.executable, "-m", "benchmarks.reference", model, "--targets", target, "--one"]
    for option, folder in (("--keep", given.keep), ("--against", given.against)):
        command += [option, str(folder)] if folder else []
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        print(f"{model} on {target} ended with {made.returncode}:\n{made.stderr[-2000:]}")
        return None
    found: list[Any] = json.loads(made.stdout.splitlines()[-1])
    *figures, ratios = found
    return Cost._make([*figures, None if ratios is None else Ratios(*ratios)])


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", help="FILE.py:NAME or package.module:NAME")
    parser.add_argument("--targets", default="xnnpack:fp32", help="comma-separated (%(default)s)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write bounds there")
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="compare with bounds there")
    parser.add_argument("--json", type=Path, help="keep the figures there")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        cost = measure(given.models[0], given.targets, given.keep, given.against)
        print(json.dumps(cost))
        return
    columns = ("model", "target", "status", "lowering s", "run s", "reference s", "ratio", "GiB",
               "bound used", "bounds, now to then: median, least, most")  # fmt: skip
    table = Table(title="CPU seconds of a cell; ratio is reference / (lowering + run)")
    for column in columns:
        table.add_column(column, justify="left" if column in columns[:3] else "right")
    made: list[Cost] = []
    for model in given.models:
        for target in given.targets.split(","):
            found = apart(model, target, given)
            if found is None:
                continue
            made.append(cost := found)
            figures = (cost.lowering, cost.running, cost.reference, cost.ratio, cost.gib, cost.used)
            ratios = "" if cost.ratios is None else " ".join(f"{one:.3f}" for one in cost.ratios)
            row = [cost.model, target, cost.status, *(f"{one:.2f}" for one in figures), ratios]
            print("  ".join(row), file=sys.stderr, flush=True)
            table.add_row(*row)
    Console(width=max(160, Console().width)).print(table)
    print(f"aim: a ratio of at most {AIM:g}")
    write(given.json, "reference", cells=[cost._asdict() | {"ratio": cost.ratio} for cost in made])


if __name__ == "__main__":
    main()
