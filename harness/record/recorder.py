"""Record a run in the controller: the expected cells, and each cell as it ends.

Records are written by one process only; workers send them with their reports.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from harness.errors import RunUnwritable
from harness.record.cell import Cell
from harness.record.folder import RunWriter
from harness.record.run import BackendState, Run, RunInfo

LOGS = "logs"
CLAIMS = "claims.jsonl"
"""File in the folder of logs with the cells' claims about their limitations, a line per cell."""


class Recorder:
    """Appends the cells of one session to its run folder."""

    def __init__(self, folder: Path, info: RunInfo, *, resumed: Run | None = None) -> None:
        """Create the run folder, or resume that of a stopped run.

        Args:
            folder: the run folder.
            info: the description of the run.
            again: the run to resume; None for a new one.

        Raises:
            RunUnwritable: the folder cannot be written, already holds a run that is not resumed, or
                another process is writing to it.
        """
        self.writer = (
            RunWriter(folder, info) if resumed is None else RunWriter.resume(resumed, info)
        )
        try:
            (folder / LOGS).mkdir(exist_ok=True)
        except OSError as error:
            raise RunUnwritable(f"cannot write {folder / LOGS}: {error.strerror}") from error
        self.folder = folder
        self._recorded = set[str]() if resumed is None else {cell.id for cell in resumed.cells}

    @property
    def recorded(self) -> int:
        """The number of cells with a record."""
        return len(self._recorded)

    @property
    def missing(self) -> list[str]:
        """The selected cells that have no record yet."""
        return [cell for cell in self.writer.info.expected if cell not in self._recorded]

    def expect(self, cells: list[str], backends: dict[str, BackendState]) -> None:
        """Record the selected cells and the states of their backends."""
        self.writer.info.expected = cells
        self.writer.info.backends = backends
        self.writer.save()

    def record(self, cell: Cell) -> None:
        """Append one finished cell.

        Raises:
            RunUnwritable: the disk refuses.
        """
        self.writer.append(cell)
        self._recorded.add(cell.id)

    def record_claim(self, cell: str, claim: str) -> None:
        """Store a cell's claim about its limitation, for a resumed run.

        It is written before the cell's record, so that no cell with a record lacks its claim. A
        full disk fails the record.
        """
        line = msgspec.json.encode({"cell": cell, "claim": claim}) + b"\n"
        with suppress(OSError), (self.folder / LOGS / CLAIMS).open("ab") as file:
            file.write(line)

    @staticmethod
    def read_claims(folder: Path) -> dict[str, str]:
        """Return the claims of a run's cells, by cell, as :meth:`claim` got them; an incomplete
        line is ignored."""
        found = {}
        try:
            lines = (folder / LOGS / CLAIMS).read_bytes().splitlines()
        except OSError:
            return {}
        for line in lines:
            with suppress(msgspec.MsgspecError):
                read = msgspec.json.decode(line, type=dict[str, str])
                found[read.get("cell", "")] = read.get("claim", "")
        return found

    def problems(self) -> list[str]:
        """Return the reasons, besides failed cells, why the session is not green."""
        found = []
        info = self.writer.info
        for name, state in info.backends.items():
            if not (state.can_lower if info.lower_only else state.available):
                found.append(
                    f"backend {name} was expected and is not available: {state.reason} "
                    f"(leave it out with --targets if that is meant)"
                )
        if missing := self.missing:
            found.append(f"{len(missing)} selected cells have no record, first {missing[0]}")
        return found

    def close(self, exit_status: int, problems: list[str], *, complete: bool) -> None:
        """End the run, by itself or because something stopped it.

        Raises:
            RunUnwritable: the disk refuses; the run stays as one that did not end.
        """
        self.writer.info.problems = problems
        self.writer.close(exit_status=exit_status, complete=complete)
