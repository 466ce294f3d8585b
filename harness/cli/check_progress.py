"""What ``conform check`` makes of a check under way: a run, its folder, a line of progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from harness.checking.messages import (
    CellEnded,
    CellsPlanned,
    CellStarted,
    CellTraced,
    Event,
    StageStarted,
)
from harness.model.registry import note_known_issues
from harness.record.cell import Cell
from harness.record.folder import RunWriter
from harness.record.run import Run
from harness.record.target import split_cell_id
from harness.tracing.trace_result import Found, add_trace


class Following:
    """Follows a check, and fills its run.

    A record is written as soon as nothing more can come to it: when the next cell begins, or with
    :meth:`flush`.

    Args:
        run: gets its cells, what was expected and the state of the backends.
        folder: becomes a run folder; None for none.
        command: what checks a cell's model again on its target.
        say: hears where the check is.

    Attributes:
        notes: what is to be known of the cells, a line each.
        traces: what tracing found.
        writer: of the folder, once it is known what belongs there.
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

    def see(self, event: Event) -> None:
        """Take what the check tells."""
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
                self._hold(Cell.from_json(event.record))
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

    def _hold(self, cell: Cell) -> None:
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
