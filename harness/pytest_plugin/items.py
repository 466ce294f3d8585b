"""Pytest nodes: a suite file collects its cells, each cell is an item.

An item is named ``case@backend:recipe``, so that ``-k "linear and tosa"`` selects it.
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
from harness.model import registry
from harness.model.case import Case
from harness.pytest_plugin.nightly import get_selected_tiers, is_plain_run
from harness.record.cell import Cell, Status
from harness.record.host import Environment
from harness.record.target import Target, cell_id, is_cell_id
from harness.session import run_one
from harness.session.backend_states import VendorStates
from harness.session.discovery import Suite, load_suite
from harness.session.run_one import CellRequest
from harness.workers.memory import GIB, MemoryMeter
from harness.workers.worker_status import StatusFile

if TYPE_CHECKING:
    from harness.pipeline.shared_case_work import SharedCaseWork

CELL_PROPERTY = "conform_cell"
"""Property of a test report: the record of the cell as JSON."""
LIMITATION_PROPERTY = "conform_limitation"
"""Property of a test report: the claim about the known issue of the cell, as JSON."""


class RedCell(Exception):
    """Raised by an item whose cell is red; contains the record."""

    def __init__(self, cell: Cell) -> None:
        super().__init__(cell.error or cell.status.value)
        self.cell = cell


def get_cell_id(nodeid: str) -> str | None:
    """Return the cell id in a node id, or None for another kind of test."""
    name = nodeid.rpartition("::")[2]
    return name if is_cell_id(name) else None


@contextmanager
def pause_garbage_collector() -> Iterator[None]:
    """Disable the garbage collector during imports, then freeze all existing objects.

    Importing torch and executorch creates millions of objects and frees hardly any; collecting
    takes a quarter of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


def get_cell_settings(config: pytest.Config) -> CellRequest:
    """Return the settings of a session for each of its cells."""
    option, selected = config.getoption, config.stash[SELECTED]
    return CellRequest(
        seed=option("conform_seed"),
        selected=None if selected is None else [str(target) for target in selected],
        demanding=sorted(str(target) for target in config.stash[REQUIRED_DELEGATION]),
        compare_runtimes=option("conform_compare_runtimes"),
        lower_only=option("conform_lower_only"),
        keep=option("conform_keep"),
        run_dir=option("conform_run_dir"),
        cell_timeout=option("conform_cell_timeout"),
        trace_time=option("conform_trace_time"),
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
        is_plain, tags = is_plain_run(self.config), get_selected_tiers(self.config)
        self._register({tag for case in suite.cases for tag in case.tags})
        for case in suite.cases:
            for target in registry.select_targets(case, selected):
                nightly = registry.is_nightly(case, target, selected)
                if nightly and is_plain and not case.tags & tags:
                    continue
                item = CellItem.from_parent(self, case=case, target=target, suite=suite)
                if nightly:
                    item.add_marker(registry.NIGHTLY)
                yield item

    def _register(self, tags: set[str]) -> None:
        """Register tags as markers, each once, as pytest keeps duplicate lines."""
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
        self._is_lowered = False
        for tag in sorted(case.tags):
            self.add_marker(tag)

    @property
    def memory(self) -> int:
        """Memory limit of the cell above its worker's baseline, in bytes."""
        most: float = max(self.config.getoption("conform_cell_memory"), self.case.memory)
        return round(GIB * most)

    def runtest(self) -> None:
        """Run the cell and attach its record to the report."""
        from harness.pipeline.shared_case_work import SharedCaseWork

        cell, claim = run_one.run_suite_cell(
            self.case,
            self.target,
            self.suite,
            get_cell_settings(self.config),
            shared_work=self.config.stash.setdefault(SHARED_WORK, SharedCaseWork()),
            worker=os.environ.get("PYTEST_XDIST_WORKER"),
            meter=self.meter,
            board=self.board,
        )
        self.user_properties.append((CELL_PROPERTY, cell.to_json()))
        self._is_lowered = bool(cell.delegation.calls)
        if claim is not None:
            self.user_properties.append((LIMITATION_PROPERTY, claim.to_json()))
        if cell.status.is_red:
            raise RedCell(cell)
        if cell.status is Status.XFAILED:
            pytest.xfail(cell.limitation.reason if cell.limitation else "")
        if cell.status in (Status.UNAVAILABLE, Status.UNSUPPORTED, Status.LOWERED):
            pytest.skip(f"{cell.status.value}: {cell.error}")

    def teardown(self) -> None:
        """Record what the vendor claims to take: this process has loaded its code."""
        if self._is_lowered:
            from harness.coverage.vendor_claims import record_claims

            record_claims(Path(self.config.getoption("conform_run_dir")), self.target)

    def repr_failure(self, excinfo: Any, style: Any = None) -> str:
        """Text of a red cell in pytest's output."""
        if isinstance(excinfo.value, pytest.xfail.Exception):
            return str(excinfo.value)  # super() would parse the sources of the traceback
        if not isinstance(excinfo.value, RedCell):
            return str(super().repr_failure(excinfo))
        return format_red_cell(excinfo.value.cell, self.config.getoption("verbose"))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Location of the item in pytest's listings."""
        return self.path, None, self.name


def format_red_cell(cell: Cell, verbose: int) -> str:
    """Format a red cell: a paragraph, and the command that reproduces it.

    Args:
        cell: its record.
        verbose: above 0, include the traceback of the failure.
    """
    where = f" at stage {cell.stage}" if cell.stage else ""
    severity = f", {cell.severity.value}" if cell.severity is not None else ""
    lines = [f"{cell.id}: {cell.status.value}{severity}{where}", f"  {cell.error}"]
    delegation = cell.delegation
    if not delegation.is_empty or delegation.undelegated_ops:
        fallback = ", ".join(delegation.undelegated_ops) or "none"
        lines.append(f"  {delegation.delegates} delegates, fallback nodes: {fallback}")
    if cell.traceback and verbose > 0:
        lines.append(cell.traceback)
    if cell.first_divergence is not None:
        how = "" if cell.first_divergence.fails else "first diverging node: "
        lines.append(f"  {how}{cell.first_divergence}")
    elif cell.trace_skipped:
        lines.append(f"  no first diverging node: {cell.trace_skipped}")
    return "\n".join([*lines, f"  repro: {cell.repro}"])


def make_report(
    nodeid: str,
    location: tuple[str, int | None, str],
    cell: Cell,
    claim: str | None,
    *,
    verbose: int,
    keywords: Iterable[str] = (),
) -> pytest.TestReport:
    """Create the test report of a cell that did not run in this process.

    Args:
        nodeid: node id of the test.
        location: location of the test.
        cell: record of the cell.
        claim: claim about its known issue, as JSON.
        verbose: verbosity of pytest.
        keywords: keywords of the test.
    """
    properties: list[tuple[str, object]] = [(CELL_PROPERTY, cell.to_json())]
    if claim:
        properties.append((LIMITATION_PROPERTY, claim))
    outcome: Literal["passed", "failed", "skipped"] = "passed"
    longrepr: str | tuple[str, int, str] | None = None
    if cell.status.is_red:
        outcome, longrepr = "failed", format_red_cell(cell, verbose)
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
        # A cached cell took no time in this session.
        duration=0.0 if cell.cached else cell.seconds,
        user_properties=properties,
    )
    if cell.status is Status.XFAILED:
        report.wasxfail = cell.limitation.reason if cell.limitation else ""
    return report


# Targets of --targets; None for a plain run.
SELECTED: pytest.StashKey[Sequence[Target] | None] = pytest.StashKey()
REQUIRED_DELEGATION: pytest.StashKey[frozenset[Target]] = pytest.StashKey()
# Values that cells of the current case share in this process.
SHARED_WORK: pytest.StashKey[SharedCaseWork] = pytest.StashKey()
# Memory in bytes for all running cells together: available memory when the session began.
AVAILABLE_MEMORY: pytest.StashKey[int] = pytest.StashKey()
MEMORY_INPUT = "conform_room"
"""Key of it in the input of workers."""
FOLDER_INPUT = "conform_folder"
"""Key of the run folder in the input of workers."""
# Without xdist: loads the backends and returns their states; by default in this process.
BACKEND_LOADER: pytest.StashKey[Callable[[Sequence[CellItem]], VendorStates]] = pytest.StashKey()
# Environment of each worker of a cluster, by name.
HOSTS: pytest.StashKey[dict[str, Environment]] = pytest.StashKey()
