"""Records and histories of cells, in files of a few cells each that the page loads on demand."""

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

#: Cells per file; the number of a cell divided by this gives its file.
SHARD = 50

_RED_KEPT = 400


def write_details(
    folder: Folder, name: str, run: Run, rows: list[tuple[int, CellRow]], *, full: bool
) -> list[int] | None:
    """Write the records of a run, as the pages of its cells show them.

    Args:
        folder: the site.
        name: generated name of the run in the site.
        run: the run.
        rows: its rows with the numbers of their cells.
        full: whether to write all cells; otherwise only the first few hundred red cells.

    Returns:
        The numbers of the written cells; None for all.
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
    """Write the history of each cell over all runs.

    Args:
        folder: the site.
        histories: one per run, newest first. Each has the cells of its run and of newer runs.
        cells: number of cells in the catalogue.
    """
    for start in range(0, cells, SHARD):
        places = range(start, min(start + SHARD, cells))
        value = [_history(histories, at) for at in places]
        folder.write(f"h/{start // SHARD}.js", script(f"h/{start // SHARD}", value))


def _history(histories: Sequence[CellHistory], at: int) -> dict[str, Any]:
    """Outcomes in all runs, and metrics in the runs that have the cell; newest first."""
    known = [history for history in histories if at < len(history.outcomes)]
    outcomes = bytes(history.outcomes[at] for history in known).decode()
    there = [history for history, letter in zip(known, outcomes, strict=True) if letter != ABSENT]
    return {
        "outcomes": outcomes + ABSENT * (len(histories) - len(known)),
        **{name: [_plain(history.measures[name][at]) for history in there] for name in MEASURES},
    }


def _plain(value: float) -> float | str | None:
    return None if value == NOTHING else number(value)
