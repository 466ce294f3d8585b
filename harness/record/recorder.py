"""The controller's side of a run: what was expected, what ended.

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
"""In the folder of logs: what cells said of their limitations, a line as each ends."""


class Recorder:
    """Appends the cells of one session to its run folder."""

    def __init__(self, folder: Path, info: RunInfo, *, resumed: Run | None = None) -> None:
        """Create the run folder, or take up that of a run that was stopped.

        Args:
            folder: of the run.
            info: what it says of itself.
            again: the run that is taken up.

        Raises:
            RunUnwritable: the folder cannot be written, already holds a run that is not taken up,
                or one that another process is writing.
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
        """How many cells have a record."""
        return len(self._recorded)

    @property
    def missing(self) -> list[str]:
        """The selected cells that have no record yet."""
        return [cell for cell in self.writer.info.expected if cell not in self._recorded]

    def expect(self, cells: list[str], backends: dict[str, BackendState]) -> None:
        """Note the selected cells, and what their backends say of themselves."""
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
        """Keep what a cell says of its limitation, for whoever takes this run up. Before its record
        is written: of a cell that has one nothing is then lost. A full disk fails the record."""
        line = msgspec.json.encode({"cell": cell, "claim": claim}) + b"\n"
        with suppress(OSError), (self.folder / LOGS / CLAIMS).open("ab") as file:
            file.write(line)

    @staticmethod
    def read_claims(folder: Path) -> dict[str, str]:
        """What the cells of a run said of their limitations, by cell, as :meth:`claim` got it; a
        line that was being written when the run was killed says nothing."""
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
        """Why the session cannot be green although no cell failed."""
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
