"""pytest nodes: a suite file collects its cells, a cell is an item.

A cell is named ``case@backend:recipe``, so ``-k "linear and tosa"`` selects as one expects.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from harness.errors import ConformError
from harness.execution.memory import GIB, MemoryMeter
from harness.model import registry
from harness.model.case import Case
from harness.pytest_plugin.nightly import is_by_day, tiers
from harness.record.cell import Cell, Status
from harness.record.host import Environment
from harness.record.target import Target, cell_id, is_cell_id
from harness.session import run_one
from harness.session.backend_states import VendorStates
from harness.session.discovery import Suite, load_suite
from harness.session.run_one import CellRequest
from harness.workers.worker_status import StatusFile

if TYPE_CHECKING:
    from harness.pipeline.shared_case_work import SharedCaseWork

CELL_PROPERTY = "conform_cell"
"""Key under which a report carries the cell's JSON from worker to controller."""
LIMITATION_PROPERTY = "conform_limitation"
"""Key under which it carries what the cell says of its limitation (see ``stale.py``)."""


class RedCell(Exception):
    """Raised in an item when its cell is red; carries the record for the report."""

    def __init__(self, cell: Cell) -> None:
        super().__init__(cell.error or cell.status.value)
        self.cell = cell


def cell_of(nodeid: str) -> str | None:
    """The cell id in a node id, or None for another kind of test."""
    name = nodeid.rpartition("::")[2]
    return name if is_cell_id(name) else None


@contextmanager
def collector_paused() -> Iterator[None]:
    """Import without the garbage collector, and tell it that what is there now stays.

    Importing torch and executorch makes millions of objects and frees hardly any; looking for some
    to free takes a quarter of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


def asked(config: pytest.Config) -> CellRequest:
    """What a session asks of each of its cells."""
    option, selected = config.getoption, config.stash[SELECTED]
    return CellRequest(
        seed=option("seed"),
        selected=None if selected is None else [str(target) for target in selected],
        demanding=sorted(str(target) for target in config.stash[DEMANDING]),
        compare_runtimes=option("compare_runtimes"),
        lower_only=option("lower_only"),
        keep=option("keep"),
        run_dir=option("run_dir"),
        cell_timeout=option("cell_timeout"),
        trace_time=option("trace_time"),
    )


class SuiteFile(pytest.File):
    """A module with ``CASES``."""

    def collect(self) -> Iterator[pytest.Item]:
        """One item per case and target, the cells of a case next to each other."""
        try:
            suite = load_suite(self.path)
        except ConformError as error:
            raise self.CollectError(str(error)) from error
        selected = self.config.stash[SELECTED]
        by_day, asked = is_by_day(self.config), tiers(self.config)
        self._register({tag for case in suite.cases for tag in case.tags})
        for case in suite.cases:
            for target in registry.select_targets(case, selected):
                nightly = registry.is_nightly(case, target, selected)
                if nightly and by_day and not case.tags & asked:
                    continue
                item = CellItem.from_parent(self, case=case, target=target, suite=suite)
                if nightly:
                    item.add_marker(registry.NIGHTLY)
                yield item

    def _register(self, tags: set[str]) -> None:
        """Make tags known as markers; pytest keeps every line it is given, so each once."""
        for line in sorted(f"{tag}: cases tagged {tag!r}" for tag in tags):
            if line not in self.config.getini("markers"):
                self.config.addinivalue_line("markers", line)


class CellItem(pytest.Item):
    """One case on one target."""

    def __init__(self, *, case: Case, target: Target, suite: Suite, **kwargs: Any) -> None:
        super().__init__(name=cell_id(case.name, target), **kwargs)
        self.case = case
        self.target = target
        self.suite = suite
        self.meter: MemoryMeter | None = None
        self.board: StatusFile | None = None
        for tag in sorted(case.tags):
            self.add_marker(tag)

    @property
    def memory(self) -> int:
        """Bytes above its worker's base that the cell may hold, where the machine has as much."""
        most: float = max(self.config.getoption("cell_memory"), self.case.memory)
        return round(GIB * most)

    def runtest(self) -> None:
        """Run the cell and hand its record to the report."""
        from harness.pipeline.shared_case_work import SharedCaseWork

        cell, claim = run_one.run_suite_cell(
            self.case,
            self.target,
            self.suite,
            asked(self.config),
            shared_work=self.config.stash.setdefault(SIBLINGS, SharedCaseWork()),
            worker=os.environ.get("PYTEST_XDIST_WORKER"),
            meter=self.meter,
            board=self.board,
        )
        self.user_properties.append((CELL_PROPERTY, cell.to_json()))
        if claim is not None:
            self.user_properties.append((LIMITATION_PROPERTY, claim.to_json()))
        if cell.status.is_red:
            raise RedCell(cell)
        if cell.status is Status.XFAILED:
            pytest.xfail(cell.limitation.reason if cell.limitation else "")
        if cell.status in (Status.UNAVAILABLE, Status.UNSUPPORTED, Status.LOWERED):
            pytest.skip(f"{cell.status.value}: {cell.error}")

    def repr_failure(self, excinfo: Any, style: Any = None) -> str:
        """What a red cell prints: one paragraph and the command that runs it again."""
        if isinstance(excinfo.value, pytest.xfail.Exception):
            return str(excinfo.value)  # pytest would parse the sources of its traceback for it
        if not isinstance(excinfo.value, RedCell):
            return str(super().repr_failure(excinfo))
        return told(excinfo.value.cell, self.config.getoption("verbose"))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where the item lives, for pytest's listings."""
        return self.path, None, self.name


def told(cell: Cell, verbose: int) -> str:
    """What a red cell prints: one paragraph and the command that runs it again.

    Args:
        cell: its record.
        verbose: above 0 with the traceback of its failure.
    """
    where = f" at stage {cell.stage}" if cell.stage else ""
    severity = f", {cell.severity.value}" if cell.severity is not None else ""
    lines = [f"{cell.id}: {cell.status.value}{severity}{where}", f"  {cell.error}"]
    delegation = cell.delegation
    if delegation.delegates or delegation.undelegated_ops:
        left = ", ".join(delegation.undelegated_ops) or "nothing"
        lines.append(f"  {delegation.delegates} delegates, left over: {left}")
    if cell.traceback and verbose > 0:
        lines.append(cell.traceback)
    if cell.first_divergence is not None:
        how = "" if cell.first_divergence.fails else "leaves the oracle at "
        lines.append(f"  {how}{cell.first_divergence}")
    elif cell.trace_skipped:
        lines.append(f"  no first node: {cell.trace_skipped}")
    return "\n".join([*lines, f"  repro: {cell.repro}"])


def report_of(
    nodeid: str,
    location: tuple[str, int | None, str],
    cell: Cell,
    claim: str | None,
    *,
    verbose: int,
    keywords: Iterable[str] = (),
) -> pytest.TestReport:
    """The report of a cell that did not run in this process, as if it had.

    Args:
        nodeid: of its test.
        location: of its test.
        cell: its record.
        claim: what it says of its limitation, as JSON.
        verbose: as pytest counts it.
        keywords: of its test.
    """
    properties: list[tuple[str, object]] = [(CELL_PROPERTY, cell.to_json())]
    if claim:
        properties.append((LIMITATION_PROPERTY, claim))
    outcome: Literal["passed", "failed", "skipped"] = "passed"
    longrepr: str | tuple[str, int, str] | None = None
    if cell.status.is_red:
        outcome, longrepr = "failed", told(cell, verbose)
    elif cell.status is not Status.PASSED:
        outcome = "skipped"
        longrepr = (location[0], 0, f"Skipped: {cell.status.value}: {cell.error}")
    report = pytest.TestReport(
        nodeid=nodeid,
        location=location,
        keywords=dict.fromkeys(keywords, 1),
        outcome=outcome,
        longrepr=longrepr,
        when="call",
        # What it took is not what this session spent on it.
        duration=0.0 if cell.cached else cell.seconds,
        user_properties=properties,
    )
    if cell.status is Status.XFAILED:
        report.wasxfail = cell.limitation.reason if cell.limitation else ""
    return report


# The targets asked for; None for a plain run.
SELECTED: pytest.StashKey[Sequence[Target] | None] = pytest.StashKey()
DEMANDING: pytest.StashKey[frozenset[Target]] = pytest.StashKey()
# What the cells of the present case share in this process.
SIBLINGS: pytest.StashKey[SharedCaseWork] = pytest.StashKey()
# Bytes that the cells of a moment may take together: what was available as the session began.
ROOM: pytest.StashKey[int] = pytest.StashKey()
ROOM_INPUT = "conform_room"
"""Key under which workers are told of it."""
FOLDER_INPUT = "conform_folder"
"""Key under which workers are told of the run folder, which may be named after the time."""
# How a session without xdist learns what the processes of its cells know; by loading it here unless
# they run elsewhere.
LOADED: pytest.StashKey[Callable[[Sequence[CellItem]], VendorStates]] = pytest.StashKey()
# By worker of a farm, where it is and what it has.
HOSTS: pytest.StashKey[dict[str, Environment]] = pytest.StashKey()
