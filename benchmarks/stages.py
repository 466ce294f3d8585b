"""Time of each stage of a cell, compared with bare vendor calls on the same programs.

    python -m benchmarks.stages [--cases 60] [--rounds 3] [--targets LIST] [--json FILE]

"Bare" are the calls that any user needs: ``torch.export``, quantization,
``to_edge_transform_and_lower``, ``to_executorch``, the bytes, one execution; with unmodified torch
and nothing shared between programs. "Ours" is :func:`harness.run_cell` as the suites call it,
target after target for each case. In each round, each method runs in its own process, on one
thread, after a warm-up. The column "outside" is the time of our cells outside of the vendors'
stages (building, reference, bounds, comparing, recording). The aim is below 8 ms.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.command_cost import Ratio, write_figures
from harness.vendors.quiet import silence_vendors

AIM_MS = 8.0
STAGES = ("export", "quantize", "lower", "to_executorch", "serialize", "run")
"""Stages that bare calls have as well."""
OUTSIDE = "outside"
_SUITES = Path("suites/ops")

Seconds = dict[str, dict[str, float]]
"""Seconds by cell and stage."""


def _cases(count: int) -> list[Any]:
    from harness.session.discovery import load_suites

    found = [case for suite in load_suites(_SUITES) for case in suite.cases]
    return found[:: max(1, len(found) // count)]


def _prepare() -> None:
    import torch

    silence_vendors()
    torch.set_num_threads(1)


def measure_bare(cases: int, targets: Sequence[str]) -> Seconds:
    """Measure the vendors' calls."""
    from harness.pipeline.speed import tune_garbage_collector
    from harness.record.target import Target, cell_id

    _prepare()
    chosen = _cases(cases)
    for name in targets:
        _time_calls(chosen[0], Target.parse(name))  # warm-up: imports and first uses
    tune_garbage_collector()
    made: Seconds = {}
    for case in chosen:
        for target in map(Target.parse, targets):
            if (taken := _time_calls(case, target)) is not None:
                made[cell_id(case.name, target)] = taken
    return made


def _time_calls(case: Any, target: Any) -> dict[str, float] | None:
    """Return the seconds of each call on one case; None where one of them raises."""
    from harness import registry
    from harness.execution.interface import Interface
    from harness.execution.program import Program
    from harness.pipeline import stages

    backend = registry.backend(target.backend)
    recipe = registry.recipe(target, backend)
    built = case.make(0).cast(recipe.dtype)
    if recipe.find_refusal(case, built) is not None:
        return None
    taken: dict[str, float] = {}

    def timed(stage: str, call: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = call()
        taken[stage] = taken.get(stage, 0.0) + time.perf_counter() - start
        return result

    def options() -> stages.LowerOptions:
        passes = recipe.transform_passes()
        return stages.LowerOptions(recipe.partitioners(), passes, recipe.edge_config())

    def export(module: Any) -> Any:
        return stages.export(module, built.inputs, dynamic_shapes=case.dynamic_shapes)

    from torch.utils._pytree import tree_leaves

    try:
        module = built.module
        if (convert := recipe.quantize_weights) is not None:
            module = timed("quantize", lambda: convert(module))
        program = timed("export", lambda: export(module))
        if (quantizer := recipe.quantizer) is not None:
            given, calls = program, built.calls
            graph = timed("quantize", lambda: stages.quantize(given, quantizer(), calls))
            program = timed("quantize", lambda: export(graph))
        lowered = timed("lower", lambda: stages.lower(program, options()))
        emitted = timed("to_executorch", lambda: stages.to_executorch(lowered))
        data = timed("serialize", lambda: stages.serialize(emitted))
        interface = Interface.from_export(program, lowered.exported_program().graph_signature)
        parsed = Program(data)
        flat = [parsed.arrange(tree_leaves(interface.arrange(call))) for call in built.calls]
        timed("run", lambda: backend.execute(data, flat))
    except Exception:
        return None
    return taken


def measure_ours(cases: int, targets: Sequence[str]) -> Seconds:
    """Measure whole cells."""
    from harness import CellOptions, Status, run_cell
    from harness.pipeline import speed
    from harness.pipeline.shared_case_work import SharedCaseWork
    from harness.pipeline.tester import VENDOR_STAGES

    _prepare()
    speed.install()
    chosen, shared_work = _cases(cases), SharedCaseWork()
    for target in targets:
        run_cell(chosen[0], target)
    speed.tune_garbage_collector()
    made: Seconds = {}
    for case in chosen:
        for target in targets:
            cell = run_cell(case, target, options=CellOptions(shared_work=shared_work))
            if cell.status is Status.PASSED:
                vendors = sum(cell.stages.get(stage, 0.0) for stage in VENDOR_STAGES)
                made[cell.id] = {stage: cell.stages.get(stage, 0.0) for stage in STAGES}
                made[cell.id][OUTSIDE] = cell.seconds - vendors
    return made


METHODS = {"bare": measure_bare, "ours": measure_ours}


def measure_in_process(method: str, cases: int, targets: Sequence[str]) -> Seconds:
    """Measure with one method, in a new process.

    Raises:
        SystemExit: that process failed; with the end of its errors.
    """
    command = [sys.executable, "-m", "benchmarks.stages", "--cases", str(cases)]
    command += ["--targets", ",".join(targets), "--one", method]
    # Captured, because vendors log hundreds of lines.
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        raise SystemExit(
            f"{' '.join(command)} ended with {made.returncode}:\n{made.stderr[-2000:]}"
        )
    found: Seconds = json.loads(made.stdout.splitlines()[-1])
    return found


def mean_milliseconds(cells: Seconds, chosen: Sequence[str]) -> dict[str, float]:
    """Return the mean of some cells, by stage."""
    names = [*STAGES, OUTSIDE]
    return {
        name: 1e3 * statistics.fmean(cells[cell].get(name, 0.0) for cell in chosen)
        for name in names
    }


def main() -> None:
    """Measure and print a table."""
    from harness import registry

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--cases", type=int, default=60, help="number of cases of suites/ops (%(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds (%(default)s)")
    parser.add_argument("--targets", help="comma-separated (the targets of a plain run)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--one", choices=METHODS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    targets = (given.targets or ",".join(map(str, registry.default_targets()))).split(",")
    if given.one:
        print(json.dumps(METHODS[given.one](given.cases, targets)))
        return
    rounds: list[list[Seconds]] = []
    for turn in range(1, given.rounds + 1):
        rounds.append([])
        for method in METHODS:
            print(f"round {turn} of {given.rounds}: {method}", file=sys.stderr)
            rounds[-1].append(measure_in_process(method, given.cases, targets))
    table = Table(title="milliseconds a cell: bare calls, and ours")
    for column in ("target", "cells", *STAGES, OUTSIDE, "bare to ours"):
        table.add_column(column, justify="left" if column == "target" else "right")
    figures: dict[str, Any] = {}
    for target in targets:
        both = set.intersection(*(set(cells) for each in rounds for cells in each))
        chosen = sorted(cell for cell in both if cell.endswith(f"@{target}"))
        if not chosen:
            table.add_row(target, "0")
            continue
        pairs = [[mean_milliseconds(cells, chosen) for cells in each] for each in rounds]
        theirs, made = (
            {
                stage: statistics.median(pair[method][stage] for pair in pairs)
                for stage in pairs[0][method]
            }
            for method in (0, 1)
        )
        ratio = Ratio.from_rounds(
            *([sum(pair[method].values()) for pair in pairs] for method in (0, 1))
        )
        shown = [f"{theirs[stage]:.1f} {made[stage]:.1f}" for stage in STAGES]
        table.add_row(target, str(len(chosen)), *shown, f"{made[OUTSIDE]:.1f}", str(ratio))
        figures[target] = {
            "cells": len(chosen),
            "bare": theirs,
            "ours": made,
            "ratio": ratio._asdict(),
        }
    Console(width=max(150, Console().width)).print(table)
    print(f"aim: {OUTSIDE} below {AIM_MS:g} ms")
    write_figures(given.json, "stages", rounds=given.rounds, targets=figures)


if __name__ == "__main__":
    main()
