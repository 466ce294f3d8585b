"""A run as pandas tables, for notebooks and for other tools.

pandas is imported when the first table is asked for, so that ``import reports`` stays quick.
It carries no types, hence ``Any`` where a table or pandas itself is meant.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections import Counter
from typing import Any

from harness.cell import Cell
from harness.run import Run
from reports import summary, text
from reports.outcome import Outcome

#: A ``pandas.DataFrame``.
Frame = Any

_COLUMNS = [
    "case", "op", "suite", "target", "backend", "recipe", "status", "outcome", "red", "counted",
    "stage", "error", "runtime", "delegates", "delegated_nodes", "undelegated_nodes",
    "nothing_delegated", "outputs", "max_abs", "sqnr_db", "bound_used", "problem", "seconds",
    "overhead", "program_bytes", "limitation", "link", "tags", "seed", "worker", "repro",
]  # fmt: skip


def frame(run: Run) -> Frame:
    """A row per record, indexed by cell id, in the order the cells ended.

    ``outcome`` splits ``passed`` by whether anything was delegated. ``max_abs`` and
    ``bound_used`` are the largest over the outputs, ``sqnr_db`` the smallest, NaN if any output
    has NaN or there is no output (``outputs`` tells the two apart). ``seconds_<stage>`` has the
    stages. ``counted`` is False for a record of a cell that has a worse one.
    """
    counted = {id(row.cell) for row in summary.rows(run) if row.cell is not None}
    records = [_record(cell, counted=id(cell) in counted) for cell in run.cells]
    stages = dict.fromkeys(f"seconds_{name}" for cell in run.cells for name in cell.stages)
    index = _pandas().Index([cell.id for cell in run.cells], name="id", dtype=object)
    return _pandas().DataFrame(records, columns=[*_COLUMNS, *stages], index=index)


def _record(cell: Cell, *, counted: bool) -> dict[str, Any]:
    backend, _, recipe = cell.target.partition(":")
    outcome = Outcome.of(cell)
    worst = summary.worst_output(cell)
    numbers = {
        "max_abs": summary.worst_max_abs(cell),
        "sqnr_db": summary.worst_sqnr(cell),
        "bound_used": summary.worst_bound_used(cell),
    }
    return {
        "case": cell.case,
        "op": cell.op,
        "suite": cell.suite,
        "target": cell.target,
        "backend": backend,
        "recipe": recipe,
        "status": cell.status.value,
        "outcome": outcome.value,
        "red": outcome.is_red,
        "counted": counted,
        "stage": cell.stage,
        "error": cell.error,
        "runtime": cell.runtime,
        "delegates": cell.delegation.delegates,
        "delegated_nodes": cell.delegation.delegated_nodes,
        "undelegated_nodes": cell.delegation.undelegated_nodes,
        "nothing_delegated": cell.nothing_delegated,
        "outputs": len(cell.numerics),
        "problem": worst.problem if worst else None,
        "seconds": cell.seconds,
        "overhead": cell.overhead,
        "program_bytes": cell.program_bytes,
        "limitation": cell.limitation.reason if cell.limitation else None,
        "link": cell.limitation.link if cell.limitation else None,
        "tags": " ".join(cell.tags),
        "seed": cell.seed,
        "worker": cell.worker,
        "repro": cell.repro,
        **{name: math.nan if value is None else value for name, value in numbers.items()},
        **{f"seconds_{name}": value for name, value in cell.stages.items()},
    }


def totals(run: Run) -> Frame:
    """A row per target, each outcome counted apart.

    ``pass_rate`` is ``passed / rated`` and ``rated`` is all cells but the unsupported ones;
    unavailable, lowered-only and not-run cells are in it and have columns of their own. It is
    NaN, not 0, where no cell passed, failed or was red.
    """
    records = [
        {
            "target": total.target,
            "cells": total.cells,
            "rated": total.rated,
            "passed": total.passed,
            "pass_rate": math.nan if total.pass_rate is None else total.pass_rate,
            "red": total.red,
            **{_column(outcome): total.counts[outcome] for outcome in Outcome},
            "runtimes": " ".join(sorted(total.runtimes)),
            "seconds": total.seconds,
            "available": total.available,
            "reason": total.reason,
        }
        for total in summary.totals(run)
    ]
    names = ["target", "cells", "rated", "passed", "pass_rate", "red", *map(_column, Outcome)]
    columns = [*names, "runtimes", "seconds", "available", "reason"]
    return _pandas().DataFrame(records, columns=columns).set_index("target")


def _column(outcome: Outcome) -> str:
    # "passed" is both kinds of pass together; apart they need names of their own.
    special = {
        Outcome.PASSED: "passed_delegated",
        Outcome.UNDELEGATED: "passed_nothing_delegated",
        Outcome.LOWERED: "lowered_only",
    }
    return special.get(outcome, outcome.value)


def matrix(run: Run, by: str = "case") -> Frame:
    """What came of each case, or of each op, on each target; empty where not selected.

    Args:
        run: a loaded run.
        by: ``"case"`` for the outcome of every cell; ``"op"`` for ``passed/rated`` of the cases
            of an operator, or the outcome when it is the same for all and not a pass.

    Raises:
        ValueError: ``by`` is neither.
    """
    if by not in ("case", "op"):
        raise ValueError(f"matrix by {by!r}: there are 'case' and 'op'")
    groups: dict[tuple[str, str], Counter[Outcome]] = {}
    for row in summary.rows(run):
        key = (row.case if by == "case" else row.op), row.target
        groups.setdefault(key, Counter())[row.outcome] += 1
    names = sorted({name for name, _ in groups})
    columns = summary.targets(run)
    body = [[_square(groups.get((name, column)), by) for column in columns] for name in names]
    index = _pandas().Index(names, name=by, dtype=object)
    header = _pandas().Index(columns, name="target", dtype=object)
    return _pandas().DataFrame(body, index=index, columns=header, dtype=object)


def _square(counts: Counter[Outcome] | None, by: str) -> str:
    if not counts:
        return ""
    first = next(iter(counts))
    if by == "case":
        return first.value
    total = summary.Totals("", counts)
    if len(counts) == 1 and not first.is_pass:
        return first.value
    return f"{total.passed}/{total.rated}"


def delegation(run: Run) -> Frame:
    """A row per target that lowered anything: what the backend took and what it left over.

    ``left_over`` is text; :func:`left_over` has the same as numbers.
    """
    records = [
        {
            "target": part.target,
            "cells": part.cells,
            "cells_nothing_delegated": part.without,
            "delegates": part.delegates,
            "delegated_nodes": part.delegated_nodes,
            "undelegated_nodes": part.undelegated_nodes,
            "left_over": text.calls(part.left_over),
        }
        for part in summary.partitions(run)
    ]
    columns = ["target", "cells", "cells_nothing_delegated", "delegates", "delegated_nodes",
               "undelegated_nodes", "left_over"]  # fmt: skip
    return _pandas().DataFrame(records, columns=columns).set_index("target")


def left_over(run: Run) -> Frame:
    """A row per target and op that its backend did not take, with calls and cells, most first."""
    records = [
        {"target": part.target, "op": op, "calls": calls, "cells": part.left_over_cells[op]}
        for part in summary.partitions(run)
        for op, calls in text.by_count(part.left_over)
    ]
    return _pandas().DataFrame(records, columns=["target", "op", "calls", "cells"])


def limitations(run: Run) -> Frame:
    """A row per reason that explains cells: how many, how they ended, where."""
    gaps = summary.gaps(run)
    shown = [Outcome.XFAILED, Outcome.UNSUPPORTED, Outcome.XPASSED]
    records = [
        {
            "reason": gap.reason,
            "link": gap.link,
            "cells": len(gap.rows),
            **{outcome.value: gap.counts[outcome] for outcome in shown},
            "targets": " ".join(gap.targets),
            "example": gap.rows[0].id,
        }
        for gap in gaps
    ]
    names = ["reason", "link", "cells", *(outcome.value for outcome in shown)]
    return _pandas().DataFrame(records, columns=[*names, "targets", "example"])


def failures(run: Run) -> Frame:
    """The red cells, worst first; the columns of :func:`frame`."""
    cells = [row.cell for row in summary.failures(run) if row.cell is not None]
    table = frame(run)
    # By position, not by id: a cell with several records has its id there more than once.
    where = {id(cell): position for position, cell in enumerate(run.cells)}
    return table.iloc[[where[id(cell)] for cell in cells]]


@functools.cache
def _pandas() -> Any:
    return importlib.import_module("pandas")
