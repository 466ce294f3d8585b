"""Controller: the part of a session that writes the run folder and decides its exit status."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.errors import ConformError, UsageError
from harness.model import registry
from harness.pytest_plugin.cached.cached_cells import get_reused_cells, list_all_tests
from harness.pytest_plugin.cached.session_cache import SessionCache
from harness.pytest_plugin.cached.uncollected import (
    CACHED_COLLECTION,
    Collection,
    store_collection,
)
from harness.pytest_plugin.item_selection import explain_missing_arguments
from harness.pytest_plugin.items import (
    BACKEND_LOADER,
    CELL_PROPERTY,
    LIMITATION_PROPERTY,
    SELECTED,
    CellItem,
    get_cell_id,
)
from harness.pytest_plugin.run_start import (
    check_required_delegation,
    describe_run,
    end_session_if_unwritable,
    includes_suites,
)
from harness.pytest_plugin.vacuous import VacuousPasses
from harness.pytest_plugin.worker_watch import WorkerWatch
from harness.pytest_plugin.workers.watchdog import load_backends
from harness.record.cell import Cell
from harness.record.recorder import LOGS, Recorder
from harness.record.target import split_cell_id
from harness.session.backend_states import VendorStates, read_states
from harness.session.run_one import ignore_vendor_warnings
from harness.session.stale_limitations import LimitationClaim, LimitationClaims

_COMPLETED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


class Controller:
    """Owns the run folder; only this process of a session writes records."""

    def __init__(self, config: pytest.Config, session_cache: SessionCache) -> None:
        self.config = config
        self.recorder: Recorder | None = None
        self.problems: list[str] = []
        self.watch = WorkerWatch(config, self._count_records, self._stop)
        self._session_cache = session_cache
        # xdist's workers get more arguments later.
        self._command = ["pytest", *map(str, config.invocation_params.args)]
        self._vacuous = VacuousPasses(config)
        self._claims = LimitationClaims()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Read dependencies of cells while workers import, as they would wait for it later."""
        if self.config.pluginmanager.hasplugin("dsession"):
            self._session_cache.compute_digests()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Without xdist, begin the run with the items of this process."""
        if session.config.option.collectonly:
            return
        cells = [item for item in session.items if isinstance(item, CellItem)]
        if cells or CACHED_COLLECTION in self.config.stash:
            load = self.config.stash.get(BACKEND_LOADER, load_backends)
            self._start([item.nodeid for item in session.items], load(cells) if cells else None)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """With xdist, begin the run with the collection of the first worker."""
        if any(map(get_cell_id, ids)) and self.recorder is None:
            logs = Path(self.config.getoption("conform_run_dir")) / LOGS
            self._start(ids, read_states(logs, node.gateway.id))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the record of a report."""
        if report.when != "call" or self.recorder is None:
            return
        found = dict(report.user_properties)
        if CELL_PROPERTY not in found:
            return
        claim = str(found.get(LIMITATION_PROPERTY, ""))
        taken = get_reused_cells(self.config).get(report.nodeid)
        cell = Cell.from_json(str(found[CELL_PROPERTY])) if taken is None else taken.cell
        if claim:
            self._claims.add(LimitationClaim.from_json(claim))
        if taken is None or not taken.is_recorded:
            if claim:
                self.recorder.record_claim(cell.id, claim)
            self.watch.add_memory(cell)
            with end_session_if_unwritable():
                self.recorder.record(cell)
        self._vacuous.add(cell)
        if taken is None:
            self._session_cache.store_result(report.nodeid, cell, claim)

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: Any, sched: Any) -> None:
        """Record the cell of a dead worker, and check it against the known issues."""
        name = get_cell_id(crashitem)
        if name is None or self.recorder is None:
            return
        cell = self.watch.build_crash_record(name, crashitem, report.node.gateway.id)
        with end_session_if_unwritable():
            self.recorder.record(cell)
        self._vacuous.add(cell)
        report.user_properties.append((CELL_PROPERTY, cell.to_json()))
        report.longrepr = f"{cell.id}: {cell.status.value}\n  {cell.error}\n  repro: {cell.repro}"
        if not cell.status.is_red:
            report.outcome = "skipped"
            report.wasxfail = cell.limitation.reason if cell.limitation else ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Close the run; problems, such as a backend that did not load, make it red."""
        self._session_cache.close()
        if self.recorder is None:
            if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and explain_missing_arguments(
                self.config
            ):
                session.exitstatus = pytest.ExitCode.USAGE_ERROR  # as pytest does without xdist
            return
        self.problems += self.recorder.problems()
        self.problems += self._claims.problems() + self._vacuous.problems()
        if self.problems and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = exitstatus = pytest.ExitCode.TESTS_FAILED
        complete = exitstatus in _COMPLETED and not self.recorder.missing
        try:
            self.recorder.close(int(exitstatus), self.problems, complete=complete)
        except ConformError as error:
            self.problems.append(str(error))
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print problems, and how many cells were reused."""
        for problem in self.problems:
            terminalreporter.write_line(f"RED: {problem}", red=True)
        if self.recorder is not None:
            for line in self._session_cache.summarize(self.recorder.recorded):
                terminalreporter.write_line(line)
            return
        if not self.config.option.collectonly and (
            since := self.config.option.conform_changed_since
        ):
            terminalreporter.write_line(
                f"conform: no selected cell is affected by changes since {since}"
            )
        for absence in explain_missing_arguments(self.config):
            terminalreporter.write_line(f"ERROR: {absence}", red=True)

    def _count_records(self) -> int:
        return 0 if self.recorder is None else self.recorder.recorded

    def _stop(self, reason: str) -> None:
        """End the session; its run is recorded as incomplete, with the reason."""
        is_resumed = self._session_cache.run is not None  # such a run is not changed
        if self.recorder is None and not is_resumed and includes_suites(self.config):
            self._start(None)
        self.problems.append(reason)
        pytest.exit(reason, returncode=pytest.ExitCode.INTERNAL_ERROR)

    def _start(self, collected: Sequence[str] | None, states: VendorStates | None = None) -> None:
        """Begin the run, and find cells that need not run.

        Args:
            collected: collected node ids; None if the session ends before they are known.
            states: states of the backends in the process that runs cells; None to load them here.
        """
        config, cache = self.config, self._session_cache
        cached = config.stash.get(CACHED_COLLECTION, None)
        if cached is not None and collected is not None:
            collected, states = list_all_tests(config, collected), cached.merge_states(states)
        nodeids, selected = collected or [], config.stash[SELECTED]
        cells = [name for name in map(get_cell_id, nodeids) if name]
        # In a plain run cases name their targets: only the cells show which.
        targets = [split_cell_id(cell)[1] for cell in cells]
        try:
            if collected is not None:
                check_required_delegation(config, targets if selected is None else selected)
                cache.check_cells(cells)
        except UsageError as error:
            pytest.exit(str(error), returncode=pytest.ExitCode.USAGE_ERROR)
        info = describe_run(config, self._command, targets, states)
        with end_session_if_unwritable(), ignore_vendor_warnings():
            self.recorder = Recorder(
                Path(config.getoption("conform_run_dir")),
                cache.complete_info(info),
                resumed=cache.run,
            )
            if states is None:
                names = (target.backend for target in targets)
                states = VendorStates(backends=registry.find_backend_states(names, selected))
            self.recorder.expect(cells, states.backends)
        if cached is not None:
            cache.prepare_keys(states.backends)
            return
        cache.find_reused(nodeids, states.backends)
        store_collection(config, cache, Collection(nodeids=list(nodeids), ready=states))
