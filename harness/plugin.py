"""The pytest plugin: options, collection, transport of records, crashes and timeouts as rows.

Works in one process and under xdist. One :class:`Controller` owns the run folder; each worker
has a :class:`Watchdog` and attaches its records to its reports.
"""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from harness import registry
from harness.cell import Cell
from harness.collect import (
    CELL_PROPERTY,
    DEMANDING,
    SELECTED,
    CellItem,
    SuiteFile,
    cell_of,
    vendor_warnings_ignored,
)
from harness.discovery import is_suite, load_suite
from harness.errors import ConformError, RunUnwritable, UnknownTarget
from harness.limitation import find, judge
from harness.recorder import LOGS, Recorder
from harness.run import (
    RunInfo,
    available_cores,
    check_writable,
    environment,
    new_folder,
    now,
)
from harness.target import Target, split_cell_id

_WORKER_MEMORY_GIB = 3
# Each native crash costs a worker; xdist's own limit of 4 a worker would end the run.
_WORKER_RESTARTS = 500
# Workers that die one after the other without a record in between will go on doing so.
_IDLE_DEATHS = 3


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of a conformance run."""
    group = parser.getgroup("conform", "ExecuTorch conformance")
    group.addoption(
        "--targets",
        metavar="LIST",
        default=None,
        help="comma-separated targets, such as xnnpack:fp32,tosa (default: those of a plain run)",
    )
    group.addoption(
        "--run-dir",
        metavar="DIR",
        default="",
        help="folder for the record of this run (default: runs/<time>)",
    )
    group.addoption(
        "--seed", type=int, default=0, help="run seed of weights and inputs (default: 0)"
    )
    group.addoption(
        "--require-delegation",
        metavar="LIST",
        default=None,
        help="comma-separated targets, all of them selected, on which a cell fails when nothing "
        "was delegated",
    )
    group.addoption(
        "--compare-runtimes",
        action="store_true",
        help="where a backend runs natively and has an emulation too (mlx on a Mac), run both; "
        "they must come to the same verdict",
    )
    group.addoption(
        "--cell-timeout",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="a cell that takes longer is recorded as timeout (default: 300; needs xdist)",
    )
    parser.addini("conform_suites", "folders whose modules declare CASES", "args", ["suites"])


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Check the targets, and choose the run folder before workers copy the options."""
    config.addinivalue_line("markers", "nightly: too long for every change")
    try:
        selected = config.stash[SELECTED] = _listed(config, "--targets")
        config.stash[DEMANDING] = frozenset(_listed(config, "--require-delegation") or ())
        if selected is not None:
            _check_demanded(config, selected)
        if config.getoption("compare_runtimes"):
            plain = registry.default_targets() if selected is None else selected
            registry.check_two_runtimes(plain)
        if not hasattr(config, "workerinput") and config.getoption("run_dir"):
            check_writable(Path(config.getoption("run_dir")))
    except ConformError as error:
        raise pytest.UsageError(str(error)) from error
    if not config.getoption("run_dir"):
        config.option.run_dir = str(new_folder(config.rootpath / "runs"))
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(Watchdog(config), "conform-watchdog")
    else:
        if getattr(config.option, "maxworkerrestart", "") is None:
            config.option.maxworkerrestart = str(_WORKER_RESTARTS)
        config.pluginmanager.register(Controller(config), "conform-controller")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> SuiteFile | None:
    """Collect modules with ``CASES`` below the suite folders."""
    folders = [parent.config.rootpath / name for name in parent.config.getini("conform_suites")]
    if any(folder in file_path.parents for folder in folders) and is_suite(file_path):
        node: SuiteFile = SuiteFile.from_parent(parent, path=file_path)
        return node
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse two cases of one name: their records could not be told apart."""
    seen: dict[str, str] = {}
    for item in items:
        if isinstance(item, CellItem):
            other = seen.setdefault(item.name, item.nodeid)
            if other != item.nodeid:
                raise pytest.UsageError(f"cell {item.name} is in {other} and in {item.nodeid}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """As many workers as there are cores, and memory at 3 GiB each."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return max(1, min(available_cores(), int(memory / _WORKER_MEMORY_GIB)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the cells of one case on one worker; other tests go wherever there is room."""
    from harness.scheduling import CaseScheduling

    return CaseScheduling(config, log)


class Controller:
    """Owns the run folder: the only process of a session that writes records."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.recorder: Recorder | None = None
        self.problems: list[str] = []
        self._idle_deaths = 0
        self._recorded_at_death = -1

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Without xdist this process runs the cells itself."""
        cells = [item for item in session.items if isinstance(item, CellItem)]
        if cells and not session.config.option.collectonly:
            _load_and_settle(cells)
            self._start([item.name for item in cells])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """With xdist the first worker's collection is what the run expects."""
        cells = [name for name in map(cell_of, ids) if name]
        if cells and self.recorder is None:
            self._start(cells)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Append the record that a report carries."""
        if report.when == "call" and self.recorder is not None:
            for key, value in report.user_properties:
                if key == CELL_PROPERTY:
                    with _ending_the_session():
                        self.recorder.record(Cell.from_json(str(value)))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        """End the session when workers die before they get to run anything."""
        if not error:
            return
        recorded = self.recorder.recorded if self.recorder else 0
        self._idle_deaths = self._idle_deaths + 1 if recorded == self._recorded_at_death else 1
        self._recorded_at_death = recorded
        if self._idle_deaths >= _IDLE_DEATHS:
            pytest.exit(
                f"{_IDLE_DEATHS} workers died in a row without running anything; run with -n 0 "
                "to see why",
                returncode=pytest.ExitCode.INTERNAL_ERROR,
            )

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: Any, sched: Any) -> None:
        """A worker died: its cell becomes a row, judged by its limitation like any other."""
        name = cell_of(crashitem)
        if name is None or self.recorder is None:
            return
        suite = load_suite(self.config.rootpath / crashitem.partition("::")[0])
        cell = self.recorder.death(name, report.node.gateway.id, self.config.getoption("seed"))
        case = next(case for case in suite.cases if case.name == cell.case)
        cell.suite, cell.op, cell.tags = suite.name, case.op, sorted(case.tags)
        judge(cell, find(suite.limitations, case, Target.parse(cell.target)))
        with _ending_the_session():
            self.recorder.record(cell)
        report.longrepr = f"{cell.id}: {cell.status.value}\n  {cell.error}\n  repro: {cell.repro}"
        if not cell.status.is_red:
            report.outcome = "skipped"
            report.wasxfail = cell.limitation.reason if cell.limitation else ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Close the record; a backend that did not load, or a shrunken run, is red."""
        if self.recorder is None:
            return
        self.problems = self.recorder.problems()
        if self.problems and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = exitstatus = pytest.ExitCode.TESTS_FAILED
        try:
            self.recorder.close(int(exitstatus), self.problems)
        except ConformError as error:
            self.problems.append(str(error))
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say why the session is red when no cell is."""
        for problem in self.problems:
            terminalreporter.write_line(f"RED: {problem}", red=True)

    def _start(self, cells: list[str]) -> None:
        selected = self.config.stash[SELECTED]
        there = [split_cell_id(cell)[1] for cell in cells]
        try:
            # A plain run takes cases to the targets they name: only the cells tell which.
            _check_demanded(self.config, there if selected is None else selected)
        except UnknownTarget as error:
            pytest.exit(str(error), returncode=pytest.ExitCode.USAGE_ERROR)
        plain = registry.default_targets() if selected is None else selected
        targets = dict.fromkeys([*plain, *there])
        info = RunInfo(
            started=now(),
            seed=self.config.getoption("seed"),
            command=["pytest", *map(str, self.config.invocation_params.args)],
            targets=[str(target) for target in targets],
            selection=" and ".join(
                f"({text})"
                for text in (self.config.getoption("keyword"), self.config.getoption("markexpr"))
                if text
            ),
            environment=environment(self.config.rootpath),
        )
        with _ending_the_session(), vendor_warnings_ignored():
            self.recorder = Recorder(Path(self.config.getoption("run_dir")), info)
            self.recorder.expect(cells)


class Watchdog:
    """In a worker: stacks of native crashes and of timeouts go where the controller looks."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.stack: IO[str] | None = None

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Load what the cells need before the first one is timed."""
        cells = [item for item in session.items if isinstance(item, CellItem)]
        if not cells:
            return
        import torch

        folder = Path(self.config.getoption("run_dir")) / LOGS
        folder.mkdir(parents=True, exist_ok=True)
        name = os.environ["PYTEST_XDIST_WORKER"]
        self.stack = (folder / f"{name}.stack").open("w+", encoding="utf-8")
        faulthandler.enable(file=self.stack)
        # One thread a worker: idle OpenMP threads spin, and cost the neighbour its core.
        workers = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        torch.set_num_threads(max(1, available_cores() // workers))
        _load_and_settle(cells)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, bool, bool]:
        """End the process when a cell takes too long, even inside native code."""
        if self.stack is None or not isinstance(item, CellItem):
            return (yield)
        self.stack.seek(0)
        self.stack.truncate()
        timeout: float = self.config.getoption("cell_timeout")
        faulthandler.dump_traceback_later(timeout, exit=True, file=self.stack)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()


@contextmanager
def _ending_the_session() -> Iterator[None]:
    """A record that cannot be written ends the session with one line: going on would run cells
    for nothing."""
    try:
        yield
    except RunUnwritable as error:
        pytest.exit(str(error), returncode=pytest.ExitCode.INTERNAL_ERROR)


def _listed(config: pytest.Config, option: str) -> list[Target] | None:
    """The targets that an option lists; None when it was not given, which is not the same as an
    empty list."""
    text = config.getoption(option)
    return None if text is None else registry.parse_list(text, option)


def _check_demanded(config: pytest.Config, selected: Iterable[Target]) -> None:
    """Refuse to demand delegation of targets that no cell runs on.

    Raises:
        UnknownTarget: naming them.
    """
    if idle := config.stash[DEMANDING].difference(selected):
        names = ", ".join(map(str, sorted(idle)))
        raise UnknownTarget(f"--require-delegation: no cell is selected on {names}")


def _load_and_settle(cells: list[CellItem]) -> None:
    from harness import speed

    with vendor_warnings_ignored():
        for name in sorted({item.target.backend for item in cells}):
            registry.backend(name).availability()
    speed.settle()
