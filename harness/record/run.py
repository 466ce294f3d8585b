"""Run: the description of a run, and its cells. Plain data; imports no torch."""

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
#: error of all. 5 renames fields: see :mod:`harness.record.migrations`. Optional fields that a
#: reader can ignore do not change the version.
SCHEMA_VERSION = 5
# A run in which every record is damaged must still fit on a page.
_DAMAGE_SHOWN = 20


class BackendState(msgspec.Struct, kw_only=True):
    """The state of a backend when the run started: ``available`` means that it can execute,
    ``unverified`` names facts that were not checked for the installed release, ``tools`` the
    host's tools that take part in execution, such as a compiler."""

    available: bool
    reason: str = ""
    runtime: str = "none"
    can_lower: bool = False
    unverified: str = ""
    tools: str = ""


class MergedPart(msgspec.Struct, kw_only=True):
    """One of the runs that a merged run consists of; ``Cell.merged_part`` has its ``name``.

    ``cells`` counts its records; ``superseded`` lists cells whose record was dropped because this
    part could not execute them and another part did.
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
    """``run.json``: the description of a run.

    ``expected`` lists the ids of all selected cells. ``exit_status`` and ``records``, the number of
    lines written, are None until the run has ended. ``complete`` means that the run ended by itself
    and every cell has a record. ``merged_from`` has the parts of a merged run. ``lower_only`` means
    that execution was not requested. ``speed`` says whether the speed parts
    (:mod:`harness.pipeline.speed`) were installed; None where that is not known. ``slow_parts`` are
    speed parts that do not fit the installed release, and why; ``missing_names`` the private names
    that the installed torch and ExecuTorch do not have, and what to do (:mod:`harness.vendors`).
    ``hosts`` describes, for a run on a cluster, the host of each worker by the worker's name.
    ``dependency_digests`` are digests of the cells' dependencies by kind
    (:mod:`harness.session.result_cache`). ``resumed_at`` lists when the run was resumed after it
    had been stopped.
    """

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
    merged_from: list[MergedPart] = []
    lower_only: bool = False
    speed: bool | None = None
    slow_parts: dict[str, str] = {}
    missing_names: dict[str, str] = {}
    hosts: dict[str, Environment] = {}
    dependency_digests: dict[str, str] = {}
    resumed_at: list[str] = []


class Run(msgspec.Struct, kw_only=True):
    """A loaded run: its info, its cells in the order they ended, and its damage.

    ``damage`` has a message for each line of its files that cannot be read or contradicts itself;
    ``cells`` leaves these lines out.
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
