"""Migrations: records of earlier schema versions get the field names of the current one.

Each function changes a decoded JSON object in place, before it is converted to its class. Old names
are never used again for something else, so that a record needs no schema version of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Names of schema 4 and before.
_CELL = {
    "untelling": "vacuous_reason",
    "kept": "saved_to",
    "untraced": "trace_skipped",
    "frame": "model_frame",
    "known": "known_issues",
    "part": "merged_part",
    "dynamic": "dynamic_dimensions",
    "altered": "side_effects",
}
_NUMERICS = {"telling": "conclusive_share"}
_VACUITY = {"alike": "passing_elements"}
_PROPERTY = {"kept": "holds"}
_DIVERGENCE = {"born": "originates_here"}
_RUN = {
    "gone": "missing_names",
    "slow": "slow_parts",
    "inputs": "dependency_digests",
    "resumed": "resumed_at",
}
_BASELINE_CELL = {"part": "merged_part"}
_OUTCOMES = {"untelling": "vacuous"}


def upgrade_cell(record: dict[str, Any]) -> None:
    """Rename the fields of a line of ``cells.jsonl``."""
    _rename(record, _CELL)
    _rename(record.get("first_divergence"), _DIVERGENCE)
    for each in get_items(record, "properties"):
        _rename(each, _PROPERTY)
    for owner in (record, *get_items(record, "intermediates")):
        for row in get_items(owner, "numerics"):
            _rename(row, _NUMERICS)
            if isinstance(row, dict):
                _rename(row.get("vacuous"), _VACUITY)


def upgrade_run(record: Any) -> None:
    """Rename the fields of ``run.json``."""
    _rename(record, _RUN)


def upgrade_baseline_cell(record: Any) -> None:
    """Rename the fields and outcomes of a line of a stored baseline."""
    _rename(record, _BASELINE_CELL)
    if isinstance(record, dict) and (outcome := record.get("outcome")) in _OUTCOMES:
        record["outcome"] = _OUTCOMES[outcome]


def _rename(record: Any, names: Mapping[str, str]) -> None:
    if isinstance(record, dict):
        for old in names.keys() & record.keys():
            record[names[old]] = record.pop(old)


def get_items(record: Any, name: str) -> list[Any]:
    """Return the list in a field of a JSON object; empty if there is none, or no object."""
    items = record.get(name) if isinstance(record, dict) else None
    return items if isinstance(items, list) else []
