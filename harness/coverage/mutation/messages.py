"""Messages between a campaign and its worker processes."""

from __future__ import annotations

import msgspec

from harness.coverage.mutation.mutant import Mutant
from harness.workers.protocol import Outcome


class CellJob(msgspec.Struct, frozen=True):
    """A cell to run: the file of its suite, its case and its target."""

    suite: str
    case: str
    target: str


class MutationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to run cells in a process of their own.

    Attributes:
        mutant: replaces the code of a function first; None for the installed code.
        cells: the cells, in order. With a mutant, the first red one is the last that runs.
        folder: a folder for files of this process alone.
        seed: run seed.
        cell_timeout: seconds that a cell may take; the process is ended then.
    """

    mutant: Mutant | None
    cells: list[CellJob]
    folder: str
    seed: int = 0
    cell_timeout: float = 60.0


class CellObserved(msgspec.Struct, frozen=True, tag=True):
    """A cell ended: its record in JSON, and a digest of its program, if it has one."""

    record: str
    digest: str


class InvalidMutant(msgspec.Struct, frozen=True, tag=True):
    """The mutant cannot be installed; no cell ran."""

    message: str


MutationEvent = CellObserved | InvalidMutant | Outcome
"""The last event is ``Finished``; its answer says how the process ended, if not by itself."""
