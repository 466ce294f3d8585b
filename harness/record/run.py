"""Run: what a run says of itself, and its cells. Plain data; imports no torch."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from harness.errors import UnknownCell
from harness.record.cell import Cell, Status
from harness.record.host import Environment

#: 2 adds, all optional: ``records`` and ``merged_from`` of a run, ``part`` of a cell. 3 adds, all
#: optional: ``telling`` and ``role`` of numerics, ``untelling`` of a cell. 4 adds, all optional:
#: ``severity`` of numerics and of a cell; ``worst_error``, ``vacuous`` and ``name`` of numerics.
#: ``error`` of ``first_divergence`` is that of the element with the ``bound``; 3 had the largest
#: error of all. Not counted, because a reader of 3 without them loses nothing else: of a cell
#: ``memory``, bytes of constants, seconds of executions, ``first_divergence`` with ``stage`` and
#: ``arguments``, ``untraced``, ``attempts``, ``known``, ``vendor_frame`` and ``cached``, which is
#: there where another run executed the cell; of a run ``hosts``, ``inputs`` and ``resumed``.
SCHEMA_VERSION = 4
# A run in which every record is damaged must still fit on a page.
_DAMAGE_SHOWN = 20


class BackendState(msgspec.Struct, kw_only=True):
    """What a backend said of itself when the run started; ``available`` is that it can execute,
    ``unverified`` what it goes by and was not read for the installed release, ``tools`` what of the
    host executes, besides its processor: a compiler."""

    available: bool
    reason: str = ""
    runtime: str = "none"
    can_lower: bool = False
    unverified: str = ""
    tools: str = ""


class Part(msgspec.Struct, kw_only=True):
    """One of the runs that a merged run was made of; ``Cell.part`` has its ``name``.

    ``cells`` counts its records; ``superseded`` names those left out because another part
    executed the cell and this one had no way to.
    """

    name: str
    started: str = ""
    ended: str | None = None
    complete: bool = False
    exit_status: int | None = None
    seed: int = 0
    command: list[str] = []
    selection: str = ""
    targets: list[str] = []
    expected: int = 0
    cells: int = 0
    superseded: list[str] = []
    backends: dict[str, BackendState] = {}
    problems: list[str] = []
    environment: Environment = msgspec.field(default_factory=Environment)


class RunInfo(msgspec.Struct, kw_only=True):
    """``run.json``. ``expected`` lists the ids of all selected cells; ``exit_status`` is None
    until the run has ended, and so is ``records``, the number of lines it wrote. ``complete`` says
    that it ended by itself, with a record of every cell. ``merged_from`` has the parts of a merged
    run. ``lower_only`` was asked for: nothing was executed. ``speed`` says whether what keeps torch
    quick (:mod:`harness.pipeline.speed`) was installed; None where that is not known. ``slow`` has
    the parts of it that the installed release went without, and why; ``gone`` the private names of
    torch and ExecuTorch that it has not, and what to do (:mod:`harness.vendors`). ``hosts`` has, of
    a run on a farm, where each worker is and what it has, by the name that cells call it.
    ``inputs`` are digests of what its cells hang on, by what they are of
    (:mod:`harness.session.result_cache`);
    ``resumed`` says when it was taken up again after it had been stopped."""

    schema: int = SCHEMA_VERSION
    started: str = ""
    ended: str | None = None
    complete: bool = False
    exit_status: int | None = None
    seed: int = 0
    command: list[str] = []
    targets: list[str] = []
    selection: str = ""
    expected: list[str] = []
    backends: dict[str, BackendState] = {}
    problems: list[str] = []
    environment: Environment = msgspec.field(default_factory=Environment)
    records: int | None = None
    merged_from: list[Part] = []
    lower_only: bool = False
    speed: bool | None = None
    slow: dict[str, str] = {}
    gone: dict[str, str] = {}
    hosts: dict[str, Environment] = {}
    inputs: dict[str, str] = {}
    resumed: list[str] = []


class Run(msgspec.Struct, kw_only=True):
    """A loaded run: its info, its cells in the order they ended, and what is wrong with it.

    ``damage`` says what of its files cannot be read or contradicts itself, a line each; the cells
    of such lines are not among ``cells``.
    """

    path: Path
    info: RunInfo
    cells: list[Cell]
    damage: list[str] = []

    @property
    def missing(self) -> list[str]:
        """Ids of expected cells without a record."""
        seen = {cell.id for cell in self.cells}
        return [name for name in self.info.expected if name not in seen]

    @property
    def is_complete(self) -> bool:
        """Whether the run ended by itself and every expected cell has a record."""
        return self.info.complete and not self.missing and not self.damage

    @property
    def counts(self) -> Counter[Status]:
        """Number of cells per status."""
        return Counter(cell.status for cell in self.cells)

    @property
    def incompleteness(self) -> list[str]:
        """Why this run is incomplete, a line each; empty when it is complete."""
        lines = []
        if not self.info.complete:
            lines.append("the run did not end by itself (stopped, killed, or still running)")
        if missing := self.missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            lines.append(
                f"{len(missing)} of {len(self.info.expected)} expected cells have no record: "
                f"{missing[0]}{more}"
            )
        lines += self.damage[:_DAMAGE_SHOWN]
        if (hidden := len(self.damage) - _DAMAGE_SHOWN) > 0:
            lines.append(f"and {hidden:,} more damaged records")
        return lines

    def cell(self, name: str) -> Cell:
        """The last record of one cell.

        Raises:
            UnknownCell: no record of that id.
        """
        for cell in reversed(self.cells):
            if cell.id == name:
                return cell
        expected = " (it was expected, but has no record)" if name in self.info.expected else ""
        raise UnknownCell(f"no cell {name!r} in {self.path}{expected}")
