"""The pytest plugin: options, collection, transport of records, crashes and timeouts as rows.

Works in one process and under xdist. The controller owns the run folder; workers only run
cells and attach their records to the reports.
"""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from harness import registry
from harness.cell import Cell
from harness.collect import CELL_PROPERTY, TARGETS, CellItem, SuiteFile
from harness.discovery import is_suite
from harness.errors import ConformError
from harness.recorder import LOGS, Recorder
from harness.run import RunInfo, available_cores, environment, now

RECORDER: pytest.StashKey[Recorder] = pytest.StashKey()
PROBLEMS: pytest.StashKey[list[str]] = pytest.StashKey()
_STACK: pytest.StashKey[IO[str]] = pytest.StashKey()

_WORKER_MEMORY_GIB = 3


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of a conformance run."""
    group = parser.getgroup("conform", "ExecuTorch conformance")
    group.addoption(
        "--targets",
        metavar="LIST",
        default="",
        help="comma-separated targets, such as xnnpack:fp32,tosa (default: all of them)",
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
        "--cell-timeout",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="a cell that takes longer is recorded as timeout (default: 300)",
    )
    parser.addini("conform_suites", "folders whose modules declare CASES", "args", ["suites"])


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Check the targets, and choose the run folder before workers copy the options."""
    texts = [text for text in config.getoption("targets").split(",") if text]
    try:
        config.stash[TARGETS] = registry.parse_targets(texts) or registry.default_targets()
    except ConformError as error:
        raise pytest.UsageError(str(error)) from error
    if not config.getoption("run_dir"):
        stamp = now().replace(":", "").replace("+0000", "Z").replace("-", "")
        config.option.run_dir = str(config.rootpath / "runs" / f"{stamp}-{os.getpid()}")
    if _is_worker(config):
        _watch_this_process(config)


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


def pytest_collection_finish(session: pytest.Session) -> None:
    """Without xdist, and in each worker: know the cells; load what they need once."""
    cells = [item.name for item in session.items if isinstance(item, CellItem)]
    if not cells or session.config.option.collectonly:
        return
    if not _has_workers(session.config):
        from harness import speed

        for target in session.config.stash[TARGETS]:
            registry.backend(target.backend).availability()
        speed.settle()
    if not _is_worker(session.config) and not _has_workers(session.config):
        _start(session.config, cells)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: list[str]) -> None:
    """With xdist: the first worker's collection is what the run expects."""
    cells = [name for name in (_cell_of(nodeid) for nodeid in ids) if name]
    if cells and RECORDER not in node.config.stash:
        _start(node.config, cells)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the cells of one case on one worker; other tests go wherever there is room."""
    from xdist.scheduler import LoadScopeScheduling

    class CaseScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist is untyped here
        def _split_scope(self, nodeid: str) -> str:
            return nodeid.rpartition("@")[0] if _cell_of(nodeid) else nodeid

    return CaseScheduling(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """As many workers as there are cores, and memory at 3 GiB each."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    by_memory = int(pages * size / 2**30 / _WORKER_MEMORY_GIB)
    return max(1, min(available_cores(), by_memory))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Let a watchdog end the process when a cell takes too long, native code included."""
    stack = item.config.stash.get(_STACK, None)
    if stack is None or not isinstance(item, CellItem):
        return (yield)
    stack.seek(0)
    stack.truncate()
    faulthandler.dump_traceback_later(item.config.getoption("cell_timeout"), exit=True, file=stack)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Append the record that a report carries (called in the controller, or in -n 0)."""
    if report.when != "call" or _session_config is None:
        return
    for key, value in report.user_properties:
        if key == CELL_PROPERTY:
            _session_config.stash[RECORDER].record(Cell.from_json(str(value)))


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, report: pytest.TestReport, sched: Any) -> None:
    """A worker died: its cell becomes a row, and the report says crash or timeout."""
    name = _cell_of(crashitem)
    if name is None:
        return
    worker = getattr(report.node.gateway, "id", "unknown") if hasattr(report, "node") else "unknown"
    recorder = sched.config.stash[RECORDER]
    cell = recorder.record_death(name, worker, sched.config.getoption("seed"))
    report.longrepr = f"{cell.id}: {cell.status.value}\n  {cell.error}\n  repro: {cell.repro}"


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Close the record; a backend that did not load, or a shrunken run, is red."""
    recorder = session.config.stash.get(RECORDER, None)
    if recorder is None:
        return
    problems = recorder.problems()
    if problems and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = exitstatus = pytest.ExitCode.TESTS_FAILED
    session.config.stash[PROBLEMS] = problems
    recorder.close(int(exitstatus), problems)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say why the session is red when no cell is."""
    for problem in config.stash.get(PROBLEMS, []):
        terminalreporter.write_line(f"RED: {problem}", red=True)


# The config of the process that records; hooks about reports are not given one.
_session_config: pytest.Config | None = None


def _start(config: pytest.Config, cells: list[str]) -> None:
    global _session_config
    folder = Path(config.getoption("run_dir"))
    info = RunInfo(
        started=now(),
        seed=config.getoption("seed"),
        command=["pytest", *map(str, config.invocation_params.args)],
        targets=[str(target) for target in config.stash[TARGETS]],
        selection=config.getoption("keyword") or "",
        environment=environment(config.rootpath),
    )
    try:
        config.stash[RECORDER] = Recorder(folder, info)
        config.stash[RECORDER].expect(cells)
    except ConformError as error:
        raise pytest.UsageError(str(error)) from error
    _session_config = config


def _watch_this_process(config: pytest.Config) -> None:
    """In a worker: native crashes and timeouts write their stacks where the controller looks."""
    import torch

    folder = Path(config.getoption("run_dir")) / LOGS
    folder.mkdir(parents=True, exist_ok=True)
    stack = (folder / f"{os.environ['PYTEST_XDIST_WORKER']}.stack").open("w+")
    config.stash[_STACK] = stack
    faulthandler.enable(file=stack)
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    torch.set_num_threads(max(1, available_cores() // workers))


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _has_workers(config: pytest.Config) -> bool:
    return bool(getattr(config.option, "tx", None)) and not _is_worker(config)


def _cell_of(nodeid: str) -> str | None:
    """The cell id in a node id, or None for another kind of test."""
    name = nodeid.rpartition("::")[2]
    return name if "@" in name and ":" in name.rpartition("@")[2] else None


