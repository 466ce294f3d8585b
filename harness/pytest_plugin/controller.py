"""The process of a session that writes records: what is expected, what ended, why it is red."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.errors import ConformError, RunUnwritable, UnknownTarget, UsageError
from harness.execution.memory import GIB, limit_allocations
from harness.model import registry
from harness.pytest_plugin.cached.cached_cells import known, whole
from harness.pytest_plugin.cached.changed_since import CHANGED, CHANGED_INPUT
from harness.pytest_plugin.cached.session_cache import Reuse
from harness.pytest_plugin.cached.uncollected import FILES_INPUT, Note, keep_note
from harness.pytest_plugin.item_selection import absences
from harness.pytest_plugin.items import (
    CELL_PROPERTY,
    DEMANDING,
    FOLDER_INPUT,
    HOSTS,
    LIMITATION_PROPERTY,
    LOADED,
    ROOM,
    ROOM_INPUT,
    SELECTED,
    CellItem,
    cell_of,
)
from harness.pytest_plugin.workers.watchdog import load_and_settle
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
from harness.workers.memory_monitor import MemoryMonitor

# Workers that die one after the other without a record in between will go on doing so.
_IDLE_DEATHS = 3
# Of many cells of one problem, these are named.
_NAMED = 5
_BY_ITSELF = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


def vacuous_policy(config: pytest.Config) -> str:
    """Return the value of ``conform_vacuous``: ``warn`` or ``error``."""
    return str(config.getini("conform_untelling") or config.getini("conform_vacuous"))


class Controller:
    """Owns the run folder: the only process of a session that writes records."""

    def __init__(self, config: pytest.Config, reuse: Reuse) -> None:
        self.config = config
        self._reuse = reuse
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
        """Say when workers will wait for each other."""
        workers = len(getattr(self.config.option, "tx", None) or ())
        each, room = self.config.getoption("cell_memory"), self.config.stash[ROOM] / GIB
        if workers < 2 or workers * each <= room:
            return None
        return (
            f"conform: cells of {workers} workers wait for each other: {each:g} GiB each "
            f"(--cell-memory), {room:.1f} GiB available"
        )

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_setupnodes(self) -> None:
        """Give workers the root of this session, which each looks for again: by the time a dead one
        is replaced the run folder exists, and pytest takes a folder behind an option that it does
        not know yet for one of tests."""
        given = self.config.invocation_params
        root = ["--rootdir", str(self.config.rootpath)]
        root += ["-c", str(self.config.inipath)] if self.config.inipath else []
        self.config.invocation_params = pytest.Config.InvocationParams(
            args=[*given.args, *root], plugins=given.plugins, dir=given.dir
        )

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Workers share one run folder, and one idea of how much memory there is."""
        node.workerinput[ROOM_INPUT] = self.config.stash[ROOM]
        node.workerinput[FOLDER_INPUT] = self.config.getoption("run_dir")
        narrowed = self.config.pluginmanager.get_plugin("conform-narrowed")
        node.workerinput[FILES_INPUT] = None if narrowed is None else narrowed.files
        only = self.config.stash.get(CHANGED, None)
        node.workerinput[CHANGED_INPUT] = None if only is None else sorted(map(str, only.files))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, bool, bool]:
        """Without xdist there is no worker to end: what the machine does not have is refused."""
        if not isinstance(item, CellItem) or item.nodeid in known(self.config):
            return (yield)
        with limit_allocations(self.config.stash[ROOM]):
            return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """While workers import, read what cells may hang on: they would wait for it else."""
        if self.config.pluginmanager.hasplugin("dsession"):
            self._reuse.inputs()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Without xdist this process runs the cells itself."""
        if session.config.option.collectonly:
            return
        if (listed := self.config.pluginmanager.get_plugin("conform-listed")) is not None:
            self._start(listed.note.nodeids, listed.note.ready)
            return
        cells = [item for item in session.items if isinstance(item, CellItem)]
        if cells:
            load = self.config.stash.get(LOADED, load_and_settle)
            self._start([item.nodeid for item in session.items], load(cells))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """With xdist the first worker's collection is what the run expects."""
        if self._tests is None:
            self._tests = ids
        elif self._deaths and ids != self._tests:  # of the first workers xdist says so itself
            # The scheduler would give it nothing, and with one worker wait for ever.
            self._stop(
                f"worker {node.gateway.id}, which stands for a dead one, collected {len(ids)} "
                f"tests in place of the session's {len(self._tests)}; what is collected must not "
                "depend on the worker or the time"
            )
        self._collected.add(node.gateway.id)
        self._watch.add(node.gateway.id)
        if not self._watch.is_alive():
            self._watch.start()
        if any(map(cell_of, ids)) and self.recorder is None:
            self._start(ids, read_states(self._logs, node.gateway.id))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Append the record that a report carries."""
        if report.when != "call" or self.recorder is None:
            return
        found = dict(report.user_properties)
        if CELL_PROPERTY not in found:
            return
        claim = str(found.get(LIMITATION_PROPERTY, ""))
        taken = known(self.config).get(report.nodeid)
        cell = Cell.from_json(str(found[CELL_PROPERTY])) if taken is None else taken.cell
        if claim:
            self._claims.add(LimitationClaim.from_json(claim))
        if taken is None or not taken.is_recorded:
            if claim:
                self.recorder.record_claim(cell.id, claim)
            add_observed_memory(cell, self._watch.pop_observation(cell.id))
            self._record(cell)
        self._listen(cell)
        if taken is None:
            self._reuse.ended(report.nodeid, cell, claim)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        """End the session when workers die before they get to run anything."""
        self._watch.remove(node.gateway.id)
        if not error:
            return
        name = node.gateway.id
        if not self._deaths and name not in self._collected and self._may_have_cells():
            # No test runs before every first worker has collected, so nothing is lost but time;
            # a replacement that lives would hide that what is selected kills workers.
            self._stop(f"worker {name} died while it collected; run with -n 0 to see why")
        self._deaths += 1
        recorded = self.recorder.recorded if self.recorder else 0
        self._idle_deaths = self._idle_deaths + 1 if recorded == self._recorded_at_death else 1
        self._recorded_at_death = recorded
        if self._idle_deaths >= _IDLE_DEATHS:
            self._stop(
                f"{_IDLE_DEATHS} workers died in a row without running anything; run with -n 0 "
                "to see why"
            )

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: Any, sched: Any) -> None:
        """A worker died: its cell becomes a row, judged by its limitation like any other."""
        name = cell_of(crashitem)
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
        self._keep(cell)
        self._record(cell)
        self._listen(cell)
        report.user_properties.append((CELL_PROPERTY, cell.to_json()))
        report.longrepr = f"{cell.id}: {cell.status.value}\n  {cell.error}\n  repro: {cell.repro}"
        if not cell.status.is_red:
            report.outcome = "skipped"
            report.wasxfail = cell.limitation.reason if cell.limitation else ""

    def _keep(self, cell: Cell) -> None:
        """What a worker that died left of a cell: its program and inputs, where that was asked."""
        left = Path(self.config.getoption("run_dir")) / saved_folder(cell.id)
        if not left.is_dir():
            return
        if cell.status.is_red or self.config.getoption("keep") == "all":
            cell.saved_to = saved_folder(cell.id)
        else:
            shutil.rmtree(left, ignore_errors=True)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Close the record; a backend that did not load, or a shrunken run, is red."""
        self._watch.close()
        self._reuse.close()
        if self.recorder is None:
            if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and absences(self.config):
                session.exitstatus = pytest.ExitCode.USAGE_ERROR  # as pytest has it without xdist
            return
        self.problems += self.recorder.problems() + self._claims.problems() + self._signals()
        if self.problems and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = exitstatus = pytest.ExitCode.TESTS_FAILED
        complete = exitstatus in _BY_ITSELF and not self.recorder.missing
        try:
            self.recorder.close(int(exitstatus), self.problems, complete=complete)
        except ConformError as error:
            self.problems.append(str(error))
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say why the session is red when no cell is."""
        for problem in self.problems:
            terminalreporter.write_line(f"RED: {problem}", red=True)
        if self.recorder is not None:
            for line in self._reuse.lines(self.recorder.recorded):
                terminalreporter.write_line(line)
        elif not self.config.option.collectonly and (since := self.config.option.changed_since):
            terminalreporter.write_line(
                f"conform: nothing that differs from {since} can affect a cell that is selected"
            )
        if self.recorder is None:
            for absence in absences(self.config):
                terminalreporter.write_line(f"ERROR: {absence}", red=True)

    def _record(self, cell: Cell) -> None:
        if self.recorder is not None:
            with _ending_the_session():
                self.recorder.record(cell)

    def _listen(self, cell: Cell) -> None:
        """Note a vacuous pass."""
        if cell.status is Status.PASSED and not cell.is_conclusive and not cell.vacuous_reason:
            self._vacuous.append(cell.id)

    def _signals(self) -> list[str]:
        """Return the error for vacuous passes if ``conform_vacuous`` is ``error``."""
        if not self._vacuous or vacuous_policy(self.config) == "warn":
            return []
        named = ", ".join(self._vacuous[:_NAMED])
        more = f" and {len(self._vacuous) - _NAMED} more" if self._vacuous[_NAMED:] else ""
        return [
            f"{len(self._vacuous)} cells passed vacuously: any constant output would pass. Give "
            f"the cases better inputs, or a reason with Case(vacuous=...): {named}{more}"
        ]

    def _may_have_cells(self) -> bool:
        """Whether what was asked for touches a folder of suites."""
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
        """End the session; what it leaves says that it is incomplete, and why."""
        # A run that is resumed stays as it was.
        if self.recorder is None and self._may_have_cells() and self._reuse.run is None:
            self._start(None)
        self.problems.append(reason)
        pytest.exit(reason, returncode=pytest.ExitCode.INTERNAL_ERROR)

    def _start(self, ids: Sequence[str] | None, ready: VendorStates | None = None) -> None:
        """Begin the record.

        Args:
            ids: the tests of the session; None where it dies before it knows them.
            ready: what the process that runs them knows; None to ask the backends here.
        """
        narrowed = self.config.pluginmanager.get_plugin("conform-narrowed")
        if narrowed is not None and ids is not None:
            ids, ready = whole(self.config, ids), narrowed.ready(ready)
        cells = None if ids is None else [name for name in map(cell_of, ids) if name]
        option = self.config.getoption
        selected = self.config.stash[SELECTED]
        there = [split_cell_id(cell)[1] for cell in cells or ()]
        try:
            if cells is not None:
                # A plain run takes cases to the targets they name: only the cells tell which.
                check_demanded(self.config, there if selected is None else selected)
                self._reuse.check_cells(cells)
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
        with _ending_the_session(), ignore_vendor_warnings():
            self.recorder = Recorder(
                Path(option("run_dir")), self._reuse.info(info), resumed=self._reuse.run
            )
            if ready is None:
                states = registry.find_backend_states(
                    (target.backend for target in there), selected
                )
            else:
                states = ready.backends
            self.recorder.expect(cells or [], states)
        self._know(ids or [], VendorStates(backends=states) if ready is None else ready)

    def _know(self, ids: Sequence[str], ready: VendorStates) -> None:
        """Find out which of the tests need not run, and note what there is for the next session."""
        if self.config.pluginmanager.has_plugin("conform-listed"):
            return  # they are known
        if self.config.pluginmanager.has_plugin("conform-narrowed"):
            self._reuse.go_on(ready.backends)
            return
        self._reuse.find(ids, ready.backends)
        keep_note(self.config, self._reuse, Note(nodeids=list(ids), ready=ready))


def check_demanded(config: pytest.Config, selected: Iterable[Target]) -> None:
    """Refuse to demand delegation of targets that no cell runs on.

    Raises:
        UnknownTarget: naming them.
    """
    if idle := config.stash[DEMANDING].difference(selected):
        names = ", ".join(map(str, sorted(idle)))
        raise UnknownTarget(f"--require-delegation: no cell is selected on {names}")


@contextmanager
def _ending_the_session() -> Iterator[None]:
    """A record that cannot be written ends the session with one line: going on would run cells
    for nothing."""
    try:
        yield
    except RunUnwritable as error:
        pytest.exit(str(error), returncode=pytest.ExitCode.INTERNAL_ERROR)
