"""Render a complete comparison of releases as JSON."""

from __future__ import annotations

import msgspec

from reports.comparison.diff import Change
from reports.comparison.releases.compare import Step
from reports.comparison.releases.words import describe_improvement, describe_move
from reports.comparison.snapshot import CellFacts


def render(found: list[Step]) -> str:
    """Render one object per step, with every cell."""
    steps = [
        {
            "before": step.before,
            "after": step.after,
            "backends": [msgspec.to_builtins(row) for row in step.rows],
            "newly_passing": [_cell(a, b) for a, b in step.gained],
            "newly_failing": [_cell(a, b) for a, b in step.lost],
            "worse": [_change(one, one.kind.label, one.description) for one in step.worse],
            "better": [_change(one, *describe_improvement(one)) for one in step.better],
            "remarks": step.remarks,
        }
        for step in found
    ]
    return msgspec.json.format(msgspec.json.encode(steps)).decode()


def _cell(before: CellFacts, after: CellFacts) -> dict[str, str]:
    return {"cell": f"{after.case}@{after.target}", "what": describe_move(before, after)}


def _change(change: Change, kind: str, description: str) -> dict[str, str]:
    return {"cell": change.id, "kind": kind, "what": description}
