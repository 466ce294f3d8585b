"""What each target's backend took, and what it left over."""

from __future__ import annotations

from harness.record.run import Run
from reports import text
from reports.summary import RunSummary
from reports.tables.lazy import Frame, pandas


def delegation(run: Run) -> Frame:
    """A row per target that lowered anything: what the backend took and what it left over.

    ``left_over`` is text; :func:`left_over` has the same as numbers.
    """
    records = [
        {
            "target": part.target,
            "cells": part.cells,
            "cells_nothing_delegated": part.undelegated_cells,
            "delegates": part.delegates,
            "delegated_nodes": part.delegated_nodes,
            "undelegated_nodes": part.undelegated_nodes,
            "left_over": text.calls(part.fallback_ops),
        }
        for part in RunSummary.from_run(run).delegation_totals
    ]
    columns = ["target", "cells", "cells_nothing_delegated", "delegates", "delegated_nodes",
               "undelegated_nodes", "left_over"]  # fmt: skip
    return pandas().DataFrame(records, columns=columns).set_index("target")


def left_over(run: Run) -> Frame:
    """A row per target and op that its backend did not take, with calls and cells, most first."""
    records = [
        {"target": part.target, "op": op, "calls": calls, "cells": part.fallback_cells[op]}
        for part in RunSummary.from_run(run).delegation_totals
        for op, calls in text.by_count(part.fallback_ops)
    ]
    return pandas().DataFrame(records, columns=["target", "op", "calls", "cells"])
