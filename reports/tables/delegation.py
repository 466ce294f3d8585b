"""Delegated and fallback nodes of each target."""

from __future__ import annotations

from harness.record.run import Run
from reports import text
from reports.summary import RunSummary
from reports.tables.lazy import Frame, pandas


def delegation(run: Run) -> Frame:
    """A row per target with lowered cells: delegates, delegated nodes and fallback nodes.

    ``left_over`` has the fallback operators as text; :func:`left_over` has them as numbers.
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
    """A row per target and fallback operator, with calls and cells, most calls first."""
    records = [
        {"target": part.target, "op": op, "calls": calls, "cells": part.fallback_cells[op]}
        for part in RunSummary.from_run(run).delegation_totals
        for op, calls in text.by_count(part.fallback_ops)
    ]
    return pandas().DataFrame(records, columns=["target", "op", "calls", "cells"])
