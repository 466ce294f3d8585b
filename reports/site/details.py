"""Everything known of single cells, in files of a few cells each, loaded when one is looked at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from harness.record.run import Run
from reports.render import views
from reports.site.columns import ABSENT, MEASURES, NOTHING, CellHistory
from reports.site.folder import Folder
from reports.site.pack import number, script
from reports.summary import CellRow

#: Cells in one file: a cell is found by its number, and its file by dividing that.
SHARD = 50

_RED_KEPT = 400


def write_details(
    folder: Folder, name: str, run: Run, rows: list[tuple[int, CellRow]], *, full: bool
) -> list[int] | None:
    """The records of a run, as its page shows them.

    Args:
        folder: the site that is being written.
        name: our name of the run in it.
        run: the run.
        rows: its rows with their numbers.
        full: all cells; otherwise only red ones, the first few hundred.

    Returns:
        The numbers of the cells that are there; None for all.
    """
    kept = rows if full else [item for item in rows if item[1].outcome.is_red][:_RED_KEPT]
    shards: dict[int, list[tuple[int, CellRow]]] = defaultdict(list)
    for at, row in kept:
        shards[at // SHARD].append((at, row))
    for shard, members in shards.items():
        texts = views.Texts()
        cells = [[at, views.cell_view(row, run, texts)] for at, row in members]
        value = {"cells": cells, "texts": texts.items}
        folder.write(f"{name}/{shard}.js", script(f"{name}/{shard}", value))
    return None if full else [at for at, _ in kept]


def write_histories(folder: Folder, histories: Sequence[CellHistory], cells: int) -> None:
    """What each cell did in all runs.

    Args:
        folder: the site that is being written.
        histories: one a run, newest first. A run knows the cells that it or a newer one has.
        cells: how many there are.
    """
    for start in range(0, cells, SHARD):
        places = range(start, min(start + SHARD, cells))
        value = [_history(histories, at) for at in places]
        folder.write(f"h/{start // SHARD}.js", script(f"h/{start // SHARD}", value))


def _history(histories: Sequence[CellHistory], at: int) -> dict[str, Any]:
    """Outcomes, and the numbers of the runs that have the cell; all newest first."""
    known = [history for history in histories if at < len(history.outcomes)]
    outcomes = bytes(history.outcomes[at] for history in known).decode()
    there = [history for history, letter in zip(known, outcomes, strict=True) if letter != ABSENT]
    return {
        "outcomes": outcomes + ABSENT * (len(histories) - len(known)),
        **{name: [_plain(history.measures[name][at]) for history in there] for name in MEASURES},
    }


def _plain(value: float) -> float | str | None:
    return None if value == NOTHING else number(value)
