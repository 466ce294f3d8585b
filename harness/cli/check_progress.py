"""Turns the events of a check into a run, its folder and a line of progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from harness.checking.messages import CellsPlanned, CellTraced, CheckEvent
from harness.model.registry import note_known_issues
from harness.record.cell import Cell
from harness.record.folder import RunWriter
from harness.record.run import Run
from harness.record.target import split_cell_id
from harness.tracing.trace_result import Found, add_trace
from harness.workers.protocol import CellEnded, CellStarted, StageStarted


class CheckFollower:
    """Adds the events of a check to its run.

    A record is written once it is complete: when the next cell begins, or with :meth:`flush`.

    Args:
        run: receives the cells, the expected cells and the states of the backends.
        folder: run folder to write; None for none.
        command: builds the command that checks the model of a cell on its target again.
        say: receives the line of progress.

    Attributes:
        notes: lines to print about the cells.
        traces: results of tracing.
        writer: writes the folder; None before the plan is known.
    """

    def __init__(
        self,
        run: Run,
        folder: Path | None,
        command: Callable[[Cell], str],
        say: Callable[[str], None],
    ) -> None:
        self.notes: Sequence[str] = ()
        self.traces: list[Found] = []
        self.writer: RunWriter | None = None
        self._run = run
        self._folder = folder
        self._command = command
        self._say = say
        self._at = ""
        self._unwritten: Cell | None = None

    def handle(self, event: CheckEvent) -> None:
        """Add an event."""
        match event:
            case CellsPlanned():
                self._plan(event)
            case CellStarted():
                self.flush()
                number, total = len(self._run.cells) + 1, len(self._run.info.expected)
                self._at = f"{number} of {total}: {event.cell}"
                self._say(self._at)
            case StageStarted():
                self._say(f"{self._at}: {event.stage}")
            case CellEnded():
                self._add(Cell.from_json(event.record))
            case CellTraced():
                self._trace(event)

    def flush(self) -> None:
        """Complete the record of the cell that ended last, and write it."""
        cell, self._unwritten = self._unwritten, None
        if cell is None:
            return
        note_known_issues(cell)
        if self.writer is not None:
            self.writer.append(cell)

    def _plan(self, planned: CellsPlanned) -> None:
        names = [split_cell_id(cell) for cell in planned.cells]
        info = self._run.info
        info.expected, info.backends = planned.cells, planned.backends
        info.targets = list(dict.fromkeys(str(target) for _, target in names))
        self.notes = planned.notes
        if self._folder is None:
            self._run.path = Path(names[0][0])
        else:
            self.writer = RunWriter(self._folder, info)

    def _add(self, cell: Cell) -> None:
        self.flush()
        cell.command = self._command(cell)
        self._run.cells.append(cell)
        self._unwritten = cell

    def _trace(self, traced: CellTraced) -> None:
        found: Found | str = traced.problem
        if traced.found is not None:
            found = msgspec.msgpack.decode(traced.found, type=Found)
            if found.failing_node is None:
                self.traces.append(found)
        self._run.cells[-1] = self._unwritten = add_trace(self._run.cells[-1], found)
