"""What each stage of a cell takes, beside the vendors' bare calls on the same programs.

    python -m benchmarks.stages [--cases 60] [--rounds 3] [--targets LIST] [--json FILE]

Bare is what anybody has to call: ``torch.export``, quantization, ``to_edge_transform_and_lower``,
``to_executorch``, the bytes, one execution; with torch as it is and nothing shared between
programs. Ours is :func:`harness.run_cell` as the suites call it, target after target for each case.
Each round is a process for the one and a process for the other, on one thread, after a warm-up.
What a cell of ours spends beyond the vendors' stages (building, reference, bounds, comparing,
recording) is in the column "outside"; the aim is below 8 ms.
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

from benchmarks.measured import Ratio, write
from harness.vendors.quiet import silence_vendors

AIM_MS = 8.0
STAGES = ("export", "quantize", "lower", "to_executorch", "serialize", "run")
"""Those that bare calls have as well."""
OUTSIDE = "outside"
_SUITES = Path("suites/ops")

Seconds = dict[str, dict[str, float]]
"""By cell and stage."""


def _cases(count: int) -> list[Any]:
    from harness.session.discovery import all_suites

    found = [case for suite in all_suites(_SUITES) for case in suite.cases]
    return found[:: max(1, len(found) // count)]


def _prepare() -> None:
    import torch

    silence_vendors()
    torch.set_num_threads(1)


def bare(cases: int, targets: Sequence[str]) -> Seconds:
    """The vendors' calls alone."""
    from harness.pipeline.speed import tune_garbage_collector
    from harness.record.target import Target, cell_id

    _prepare()
    chosen = _cases(cases)
    for name in targets:
        _called(chosen[0], Target.parse(name))  # imports and first uses are not a cell's
    tune_garbage_collector()
    made: Seconds = {}
    for case in chosen:
        for target in map(Target.parse, targets):
            if (taken := _called(case, target)) is not None:
                made[cell_id(case.name, target)] = taken
    return made


def _called(case: Any, target: Any) -> dict[str, float] | None:
    """Seconds of each call on one case; None where one of them raises."""
    from harness import registry
    from harness.execution.interface import Interface
    from harness.execution.program import Program
    from harness.pipeline import stages

    backend = registry.backend(target.backend)
    recipe = registry.recipe(target, backend)
    built = case.make(0).cast(recipe.dtype)
    if recipe.refuses(case, built) is not None:
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


def ours(cases: int, targets: Sequence[str]) -> Seconds:
    """Whole cells."""
    from harness import Status, run_cell
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
            cell = run_cell(case, target, shared_work=shared_work)
            if cell.status is Status.PASSED:
                vendors = sum(cell.stages.get(stage, 0.0) for stage in VENDOR_STAGES)
                made[cell.id] = {stage: cell.stages.get(stage, 0.0) for stage in STAGES}
                made[cell.id][OUTSIDE] = cell.seconds - vendors
    return made


WAYS = {"bare": bare, "ours": ours}


def measured(way: str, cases: int, targets: Sequence[str]) -> Seconds:
    """One of both, in a process of its own.

    Raises:
        SystemExit: that process failed; with the end of what it printed.
    """
    command = [sys.executable, "-m", "benchmarks.stages", "--cases", str(cases)]
    command += ["--targets", ",".join(targets), "--one", way]
    # Apart: what vendors log of each of some hundred programs would bury the table.
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        raise SystemExit(
            f"{' '.join(command)} ended with {made.returncode}:\n{made.stderr[-2000:]}"
        )
    found: Seconds = json.loads(made.stdout.splitlines()[-1])
    return found


def milliseconds(cells: Seconds, chosen: Sequence[str]) -> dict[str, float]:
    """The mean of some cells, by stage."""
    names = [*STAGES, OUTSIDE]
    return {
        name: 1e3 * statistics.fmean(cells[cell].get(name, 0.0) for cell in chosen)
        for name in names
    }


def main() -> None:
    """Measure, and print a table."""
    from harness import registry

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=60, help="of suites/ops (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of both (%(default)s)")
    parser.add_argument("--targets", help="separated by commas (those of a plain run)")
    parser.add_argument("--json", type=Path, help="keep the figures there")
    parser.add_argument("--one", choices=WAYS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    targets = (given.targets or ",".join(map(str, registry.default_targets()))).split(",")
    if given.one:
        print(json.dumps(WAYS[given.one](given.cases, targets)))
        return
    rounds: list[list[Seconds]] = []
    for turn in range(1, given.rounds + 1):
        rounds.append([])
        for way in WAYS:
            print(f"round {turn} of {given.rounds}: {way}", file=sys.stderr)
            rounds[-1].append(measured(way, given.cases, targets))
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
        pairs = [[milliseconds(cells, chosen) for cells in each] for each in rounds]
        theirs, made = (
            {
                stage: statistics.median(pair[way][stage] for pair in pairs)
                for stage in pairs[0][way]
            }
            for way in (0, 1)
        )
        ratio = Ratio.of(*([sum(pair[way].values()) for pair in pairs] for way in (0, 1)))
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
    write(given.json, "stages", rounds=given.rounds, targets=figures)


if __name__ == "__main__":
    main()
