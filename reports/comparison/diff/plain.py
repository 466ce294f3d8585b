"""A diff as JSON, for other tools."""

from __future__ import annotations

from typing import Any

import msgspec

from harness.record.number_text import spell_number
from reports.comparison.diff.compare import Change, Diff
from reports.comparison.snapshot import CellFacts


def render(found: Diff) -> str:
    """Every change in full. Non-finite numbers are ``"inf"``, ``"-inf"`` or ``"nan"``."""
    made = {
        "before": _side(found.before.name, found.before.incomplete),
        "after": _side(found.after.name, found.after.incomplete),
        "environment": [
            {"name": item.name, "before": item.before, "after": item.after}
            for item in found.environment
        ],
        "remarks": found.remarks,
        "compared": found.compared,
        "counts": {kind.value: number for kind, number in found.counts.items()},
        "changes": [_change(change) for change in found.changes],
    }
    return msgspec.json.format(msgspec.json.encode(made), indent=1).decode()


def _side(name: str, incomplete: list[str]) -> dict[str, Any]:
    return {"name": name, "complete": not incomplete, "incomplete": incomplete}


def _severity(cell: CellFacts | None) -> str | None:
    return None if cell is None or cell.severity is None else cell.severity.value


def _change(change: Change) -> dict[str, Any]:
    before, after = change.outcomes
    return {
        "kind": change.kind.value,
        "cell": change.id,
        "target": change.target,
        "op": change.op,
        "before": before.value if before else None,
        "after": after.value if after else None,
        "severity": [_severity(change.before), _severity(change.after)],
        "detail": change.detail,
        "signature": change.signature,
        "old": spell_number(change.old),
        "new": spell_number(change.new),
        "unit": change.unit,
        "ops": dict(change.ops),
        "repro": change.cell.repro,
        "followers": [_change(each) for each in change.followers],
    }
