"""Comparisons of runs, made by reports.comparison.diff; the page only shows them."""

from __future__ import annotations

import functools
import pickle
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from reports import text
from reports.comparison.diff import Diff
from reports.comparison.snapshot import RunSnapshot
from reports.outcome import CellOutcome
from reports.site.columns import ValueIndex

_DETAIL = 600
_OUTCOMES = {outcome: at for at, outcome in enumerate(CellOutcome)} | {None: -1}


def pack_snapshot(run: RunSnapshot) -> bytes:
    """Pack a snapshot: 50 bytes for each cell, so that all runs of a site fit in memory."""
    # Not msgspec: MessagePack has no integers beyond 64 bits, and JSON no infinities.
    return zlib.compress(pickle.dumps(run), 1)


@functools.lru_cache(maxsize=2)  # pairs in order of their first run
def unpack_snapshot(packed: bytes) -> RunSnapshot:
    """Restore a snapshot from :func:`pack_snapshot`."""
    found: RunSnapshot = pickle.loads(zlib.decompress(packed))
    return found


def select_pairs(runs: int, linked: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Select the pairs (before, after) that the site compares.

    Each run is compared with the run before it and with the newest run; with the newest run also
    with the sides swapped, because only numbers that became worse are changes.

    Args:
        runs: number of runs. A run is named by its place in the list, newest first.
        linked: pairs that other views link.
    """
    pairs = {(at + 1, at) for at in range(runs - 1)}
    pairs |= {pair for at in range(1, runs) for pair in ((at, 0), (0, at))}
    return sorted(pairs | {(before, after) for before, after in linked if before != after})


def describe_diff(found: Diff, cells: Mapping[str, int]) -> dict[str, Any]:
    """Make the data file of one comparison.

    A change is a list: number of the cell, rank of the kind, places of both outcomes (-1 for a
    missing cell), text, and the index of the error now.

    Args:
        found: the comparison.
        cells: number of each cell in the site.
    """
    errors = ValueIndex([""])
    changes = [
        (
            cells[change.id],
            change.kind.rank,
            *(_OUTCOMES[outcome] for outcome in change.outcomes),
            text.line(change.description, _DETAIL),
            errors.at(change.signature),
        )
        for change in found.changes
    ]
    return {
        "environment": [(each.name, each.before, each.after) for each in found.environment],
        "remarks": found.remarks,
        "compared": found.compared,
        "changes": changes,
        "errors": list(errors.items),
    }
