"""Controller: the part of a session that writes the run folder and decides its exit status."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.errors import ConformError, RunUnwritable, UnknownTarget, UsageError
from harness.model import registry
from harness.pytest_plugin.cached.cached_cells import get_reused_cells, list_all_tests
from harness.pytest_plugin.cached.changed_since import CHANGED, CHANGED_INPUT
from harness.pytest_plugin.cached.session_cache import SessionCache
from harness.pytest_plugin.cached.uncollected import FILES_INPUT, Collection, store_collection
from harness.pytest_plugin.item_selection import explain_missing_arguments
from harness.pytest_plugin.items import (
    AVAILABLE_MEMORY,
    BACKEND_LOADER,
    CELL_PROPERTY,
    FOLDER_INPUT,
    HOSTS,
    LIMITATION_PROPERTY,
    MEMORY_INPUT,
    REQUIRED_DELEGATION,
    SELECTED,
    CellItem,
    get_cell_id,
)
from harness.pytest_plugin.workers.watchdog import load_backends
from harness.record.cell import Cell, Status
from harness.record.folder import format_now, saved_folder
from harness.record.host import read_environment
from harness.record.recorder import LOGS, Recorder
from harness.record.run import RunInfo
from harness.record.target import Target, split_cell_id
from harness.session.backend_states import VendorStates, read_states
from harness.session.discovery import load_suite
from harness.session.run_one import ignore_vendor_warnings, judge_crashed_cell
from harness.session.stale_limitations import LimitationClaim, LimitationClaims
from harness.workers.crash_record import add_observed_memory, build_crash_record
from harness.workers.memory import GIB, limit_allocations
from harness.workers.memory_monitor import MemoryMonitor

# After this many consecutive deaths of workers without a new record the session ends.
_MAX_IDLE_DEATHS = 3
# Maximum of cells that a problem names.
_MAX_NAMED = 5
_COMPLETED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


def vacuous_policy(config: pytest.Config) -> str:
    """Return the value of ``conform_vacuous``: ``warn`` or ``error``."""
    return str(config.getini("conform_untelling") or config.getini("conform_vacuous"))


class Controller:
    """Owns the run folder; only this process of a session writes records."""

    def __init__(self, config: pytest.Config, session_cache: SessionCache) -> None:
        self.config = config
        self._session_cache = session_cache
        self._command = ["pytest", *map(str, config.invocation_params.args)]
        self.recorder: Recorder | None = None
        self.problems: list[str] = []
        self._collected: set[str] = set()
        self._tests: list[str] | None = None
        self._deaths = 0
        self._idle_deaths = 0
        self._recorded_at_death = -1
        self._vacuous: list[str] = []
        self._claims = LimitationClaims()
        self._logs = Path(config.getoption("run_dir")) / LOGS
        self._watch = MemoryMonitor(self._logs)

    def pytest_report_header(self) -> str | None:
        """Tell the user if workers will wait for memory."""
        workers = len(getattr(self.config.option, "tx", None) or ())
        each, room = self.config.getoption("cell_memory"), self.config.stash[AVAILABLE_MEMORY] / GIB
        if workers < 2 or workers * each <= room:
            return None
        return (
            f"conform: cells of {workers} workers wait for each other: {each:g} GiB each "
            f"(--cell-memory), {room:.1f} GiB available"
        )

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_setupnodes(self) -> None:
        """Pass the root and ini file to workers.

        A replaced worker would otherwise search for them, and mistake the run folder, which exists
        by then, for a folder of tests.
        """
        given = self.config.invocation_params
        root = ["--rootdir", str(self.config.rootpath)]
        root += ["-c", str(self.config.inipath)] if self.config.inipath else []
        self.config.invocation_params = pytest.Config.InvocationParams(
            args=[*given.args, *root], plugins=given.plugins, dir=given.dir
        )

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Pass run folder, memory limit and collection to a worker."""
        node.workerinput[MEMORY_INPUT] = self.config.stash[AVAILABLE_MEMORY]
        node.workerinput[FOLDER_INPUT] = self.config.getoption("run_dir")
        partly_cached = self.config.pluginmanager.get_plugin("conform-partly-cached")
        node.workerinput[FILES_INPUT] = None if partly_cached is None else partly_cached.files
        only = self.config.stash.get(CHANGED, None)
        node.workerinput[CHANGED_INPUT] = None if only is None else sorted(map(str, only.files))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, bool, bool]:
        """Without xdist, refuse allocations beyond the available memory: no worker can be ended."""
        if not isinstance(item, CellItem) or item.nodeid in get_reused_cells(self.config):
            return (yield)
        with limit_allocations(self.config.stash[AVAILABLE_MEMORY]):
            return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Read dependencies of cells while workers import, as they would wait for it later."""
        if self.config.pluginmanager.hasplugin("dsession"):
            self._session_cache.inputs()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Without xdist, begin the run with the items of this process."""
        if session.config.option.collectonly:
            return
        if (cached := self.config.pluginmanager.get_plugin("conform-cached-session")) is not None:
            self._start(cached.collection.nodeids, cached.collection.ready)
            return
        cells = [item for item in session.items if isinstance(item, CellItem)]
        if cells:
            load = self.config.stash.get(BACKEND_LOADER, load_backends)
            self._start([item.nodeid for item in session.items], load(cells))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """With xdist, begin the run with the collection of the first worker."""
        if self._tests is None:
            self._tests = ids
        elif self._deaths and ids != self._tests:  # xdist itself compares the first workers
            # The scheduler would give it nothing, and with a single worker wait forever.
            self._stop(
                f"worker {node.gateway.id}, which replaces a dead one, collected {len(ids)} tests "
                f"instead of {len(self._tests)}; the collection must not depend on the worker or "
                "the time"
            )
        self._collected.add(node.gateway.id)
        self._watch.add(node.gateway.id)
        if not self._watch.is_alive():
            self._watch.start()
        if any(map(get_cell_id, ids)) and self.recorder is None:
            self._start(ids, read_states(self._logs, node.gateway.id))

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
            add_observed_memory(cell, self._watch.pop_observation(cell.id))
            self._record(cell)
        self._check_vacuous(cell)
        if taken is None:
            self._session_cache.ended(report.nodeid, cell, claim)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        """End the session if workers die before they run anything."""
        self._watch.remove(node.gateway.id)
        if not error:
            return
        name = node.gateway.id
        if not self._deaths and name not in self._collected and self._includes_suites():
            # No test has run yet, so that no result is lost; a replacement that survives would
            # hide that the selected suites kill workers.
            self._stop(f"worker {name} died while it collected; run with -n 0 to see why")
        self._deaths += 1
        recorded = self.recorder.recorded if self.recorder else 0
        self._idle_deaths = self._idle_deaths + 1 if recorded == self._recorded_at_death else 1
        self._recorded_at_death = recorded
        if self._idle_deaths >= _MAX_IDLE_DEATHS:
            self._stop(
                f"{_MAX_IDLE_DEATHS} workers died in a row without running anything; run with -n 0 "
                "to see why"
            )

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: Any, sched: Any) -> None:
        """Record the cell of a dead worker, and check it against the known issues."""
        name = get_cell_id(crashitem)
        if name is None or self.recorder is None:
            return
        suite = load_suite(self.config.rootpath / crashitem.partition("::")[0])
        worker = report.node.gateway.id
        seed = self.config.getoption("seed")
        cell, is_judged = build_crash_record(
            self._logs, name, worker, seed, self._watch.pop_observation(name)
        )
        if not is_judged:
            judge_crashed_cell(cell, suite)
        self._keep_files(cell)
        self._record(cell)
        self._check_vacuous(cell)
        report.user_properties.append((CELL_PROPERTY, cell.to_json()))
        report.longrepr = f"{cell.id}: {cell.status.value}\n  {cell.error}\n  repro: {cell.repro}"
        if not cell.status.is_red:
            report.outcome = "skipped"
            report.wasxfail = cell.limitation.reason if cell.limitation else ""

    def _keep_files(self, cell: Cell) -> None:
        """Keep or delete the program and inputs that a dead worker wrote for a cell."""
        left = Path(self.config.getoption("run_dir")) / saved_folder(cell.id)
        if not left.is_dir():
            return
        if cell.status.is_red or self.config.getoption("keep") == "all":
            cell.saved_to = saved_folder(cell.id)
        else:
            shutil.rmtree(left, ignore_errors=True)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Close the run; problems, such as a backend that did not load, make it red."""
        self._watch.close()
        self._session_cache.close()
        if self.recorder is None:
            if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and explain_missing_arguments(
                self.config
            ):
                session.exitstatus = pytest.ExitCode.USAGE_ERROR  # as pytest does without xdist
            return
        self.problems += (
            self.recorder.problems() + self._claims.problems() + self._vacuous_problems()
        )
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
            for line in self._session_cache.lines(self.recorder.recorded):
                terminalreporter.write_line(line)
        elif not self.config.option.collectonly and (since := self.config.option.changed_since):
            terminalreporter.write_line(
                f"conform: no selected cell is affected by changes since {since}"
            )
        if self.recorder is None:
            for absence in explain_missing_arguments(self.config):
                terminalreporter.write_line(f"ERROR: {absence}", red=True)

    def _record(self, cell: Cell) -> None:
        if self.recorder is not None:
            with _ending_session():
                self.recorder.record(cell)

    def _check_vacuous(self, cell: Cell) -> None:
        """Collect vacuous passes without a reason."""
        if cell.status is Status.PASSED and not cell.is_conclusive and not cell.vacuous_reason:
            self._vacuous.append(cell.id)

    def _vacuous_problems(self) -> list[str]:
        """Return the error for vacuous passes if ``conform_vacuous`` is ``error``."""
        if not self._vacuous or vacuous_policy(self.config) == "warn":
            return []
        named = ", ".join(self._vacuous[:_MAX_NAMED])
        more = f" and {len(self._vacuous) - _MAX_NAMED} more" if self._vacuous[_MAX_NAMED:] else ""
        return [
            f"{len(self._vacuous)} cells passed vacuously: any constant output would pass. Give "
            f"the cases better inputs, or a reason with Case(vacuous=...): {named}{more}"
        ]

    def _includes_suites(self) -> bool:
        """Whether the arguments of the session include suites."""
        root = self.config.rootpath
        suites = [root / name for name in self.config.getini("conform_suites")]
        start = self.config.invocation_params.dir
        asked = [(start / str(name).partition("::")[0]).resolve() for name in self.config.args]
        return any(
            path == suite or path in suite.parents or suite in path.parents
            for path in asked
            for suite in suites
        )

    def _stop(self, reason: str) -> None:
        """End the session; its run is recorded as incomplete, with the reason."""
        # Do not change a run that was to be resumed.
        if self.recorder is None and self._includes_suites() and self._session_cache.run is None:
            self._start(None)
        self.problems.append(reason)
        pytest.exit(reason, returncode=pytest.ExitCode.INTERNAL_ERROR)

    def _start(self, ids: Sequence[str] | None, ready: VendorStates | None = None) -> None:
        """Begin the run.

        Args:
            ids: node ids of the session; None if it ends before they are known.
            ready: states of the backends in the process that runs them; None to load them here.
        """
        partly_cached = self.config.pluginmanager.get_plugin("conform-partly-cached")
        if partly_cached is not None and ids is not None:
            ids, ready = list_all_tests(self.config, ids), partly_cached.ready(ready)
        cells = None if ids is None else [name for name in map(get_cell_id, ids) if name]
        option = self.config.getoption
        selected = self.config.stash[SELECTED]
        there = [split_cell_id(cell)[1] for cell in cells or ()]
        try:
            if cells is not None:
                # In a plain run cases name their targets: only the cells show which.
                check_required_delegation(self.config, there if selected is None else selected)
                self._session_cache.check_cells(cells)
        except UsageError as error:
            pytest.exit(str(error), returncode=pytest.ExitCode.USAGE_ERROR)
        plain = registry.default_targets() if selected is None else selected
        info = RunInfo(
            started=format_now(),
            seed=option("seed"),
            command=self._command,
            targets=[str(target) for target in dict.fromkeys([*plain, *there])],
            selection=" and ".join(
                f"({text})" for text in (option("keyword"), option("markexpr")) if text
            ),
            environment=read_environment(self.config.rootpath),
            lower_only=option("lower_only"),
            speed=not option("no_speed"),
            slow_parts={} if ready is None else ready.slow_parts,
            missing_names={} if ready is None else ready.missing_names,
            hosts=self.config.stash.get(HOSTS, {}),
        )
        with _ending_session(), ignore_vendor_warnings():
            self.recorder = Recorder(
                Path(option("run_dir")),
                self._session_cache.info(info),
                resumed=self._session_cache.run,
            )
            if ready is None:
                states = registry.find_backend_states(
                    (target.backend for target in there), selected
                )
            else:
                states = ready.backends
            self.recorder.expect(cells or [], states)
        self._find_reused_cells(
            ids or [], VendorStates(backends=states) if ready is None else ready
        )

    def _find_reused_cells(self, ids: Sequence[str], ready: VendorStates) -> None:
        """Find cells that need not run, and store the collection for the next session."""
        if self.config.pluginmanager.has_plugin("conform-cached-session"):
            return  # all cells are reused
        if self.config.pluginmanager.has_plugin("conform-partly-cached"):
            self._session_cache.go_on(ready.backends)
            return
        self._session_cache.find(ids, ready.backends)
        store_collection(
            self.config, self._session_cache, Collection(nodeids=list(ids), ready=ready)
        )


def check_required_delegation(config: pytest.Config, selected: Iterable[Target]) -> None:
    """Refuse required delegation on targets without cells.

    Raises:
        UnknownTarget: a required target has no cell.
    """
    if idle := config.stash[REQUIRED_DELEGATION].difference(selected):
        names = ", ".join(map(str, sorted(idle)))
        raise UnknownTarget(f"--require-delegation: no cell is selected on {names}")


@contextmanager
def _ending_session() -> Iterator[None]:
    """End the session with one line if a record cannot be written."""
    try:
        yield
    except RunUnwritable as error:
        pytest.exit(str(error), returncode=pytest.ExitCode.INTERNAL_ERROR)
