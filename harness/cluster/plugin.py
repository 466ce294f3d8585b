"""Pytest plugin of ``--cluster``: runs the cells of a session on the workers of a cluster.

The session collects as usual, its controller writes all records, and other tests run in this
process.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.cluster import requirements
from harness.cluster.options import OPTIONS
from harness.errors import ConformError
from harness.pytest_plugin import durations
from harness.pytest_plugin.cached.cached_cells import get_reused_cells, report_reused_cells
from harness.pytest_plugin.items import (
    BACKEND_LOADER,
    HOSTS,
    CellItem,
    get_cell_id,
    get_cell_settings,
    make_report,
)
from harness.pytest_plugin.options import add_to_parser
from harness.record.cell import Cell, Status
from harness.record.folder import RUN_FILE
from harness.record.host import Environment, read_environment
from harness.record.run import BackendState
from harness.record.target import split_cell_id
from harness.session.backend_states import VendorStates
from harness.session.discovery import Suite
from harness.session.run_one import judge_crashed_cell

if TYPE_CHECKING:
    from harness.cluster.client import ClusterCellEnded, ClusterEvent, ClusterSession
    from harness.cluster.ledger import WorkItem
    from harness.cluster.placement import RemoteWorker
    from harness.pytest_plugin.progress import Progress


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of a run on a cluster."""
    add_to_parser(
        parser.getgroup("conform cluster", "ExecuTorch conformance on a cluster"), OPTIONS
    )


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Turn off xdist's workers."""
    if config.getoption("conform_cluster", None) is not None and hasattr(
        config.option, "numprocesses"
    ):
        config.option.numprocesses = 0


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin that runs cells on the cluster."""
    address = config.getoption("conform_cluster")
    if address is None or not config.pluginmanager.has_plugin("conform-hooks"):
        return
    if config.getoption("conform_keep") != "none":
        raise pytest.UsageError("--keep writes files on the workers; omit --keep or --cluster")
    try:
        config.pluginmanager.register(ClusterPlugin(config, address), "conform-cluster")
    except ConformError as error:
        raise pytest.UsageError(str(error)) from error


class ClusterPlugin:
    """Sends the cells of a session to the cluster and reports their results to pytest."""

    def __init__(self, config: pytest.Config, address: str) -> None:
        """Check the address without connecting.

        Raises:
            UsageError: the address is invalid or needs keys, or Dask is not installed.
        """
        with requirements.require_dask():
            from harness.cluster.tls import resolve_address
        self.config = config
        keys = config.getoption("conform_keys")
        self._address, self._security = resolve_address(
            address, None if keys is None else Path(keys)
        )
        self._session: ClusterSession | None = None
        self._close: Any = None
        self._hosts: dict[str, Environment] = {}
        self._missing: list[str] = []
        config.stash[BACKEND_LOADER] = self._load
        config.stash[HOSTS] = self._hosts

    def _load(self, cells: Sequence[CellItem]) -> VendorStates:
        """Connect, wait for workers, and return the states of their backends."""
        from harness.cluster.client import ClusterSession
        from harness.cluster.connection import Connection

        config = self.config
        with self._end_session_on_error():
            connection = Connection(self._address, self._security)
            self._close = connection.close
            self._session = ClusterSession(
                connection,
                read_environment(config.rootpath),
                mixed=config.getoption("conform_allow_mixed_workers"),
                wait=config.getoption("conform_cluster_wait"),
            )
            for note in self._session.gather():
                self._print(note.text)
        workers = self._session.workers
        slots = sum(worker.slots for worker in workers)
        if (progress := self._progress) is not None:
            progress.set_cluster_slots(slots)
        self._print(f"workers: {len(workers)}, slots: {slots}, at {self._address}")
        if page := connection.dashboard:
            self._print(f"Dask's dashboard, on the scheduler's machine: {page}")
        names = {cell.target.backend for cell in cells}
        first = workers[0].info
        return VendorStates(
            backends=_merge_states(workers, names), slow_parts=first.slow, missing_names=first.gone
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run all cells on the cluster, then other tests in this process."""
        if session.config.option.collectonly or self._session is None:
            return None
        if session.testsfailed and not session.config.option.continue_on_collection_errors:
            return None  # pytest reports it
        items = {item.name: item for item in session.items if isinstance(item, CellItem)}
        for nodeid in get_reused_cells(self.config):
            items.pop(get_cell_id(nodeid) or "", None)
        report_reused_cells(self.config)
        with self._end_session_on_error():
            for event in self._session.run(self._list_work(items), self._unit_settings()):
                self._report(event, items)
                if session.shouldfail or session.shouldstop:
                    raise session.Interrupted(session.shouldfail or session.shouldstop)
        others = [item for item in session.items if not isinstance(item, CellItem)]
        for index, item in enumerate(others):
            following = others[index + 1] if index + 1 < len(others) else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        return True

    def pytest_sessionfinish(self) -> None:
        """Disconnect from the cluster."""
        if self._session is not None:
            self._note_hosts()
        if self._close is not None:
            self._close()

    def _unit_settings(self) -> Any:
        from harness.cluster.client import UnitSettings

        return UnitSettings(
            asked=get_cell_settings(self.config),
            root=self.config.rootpath,
            cell_memory=self.config.getoption("conform_cell_memory"),
            speed=not self.config.getoption("conform_no_speed"),
        )

    def _list_work(self, items: dict[str, CellItem]) -> list[WorkItem]:
        """Build a work item from the cells of each case."""
        from harness.cluster.ledger import WorkItem

        took = durations.load_durations(self.config)
        units: dict[str, list[CellItem]] = {}
        for item in items.values():
            units.setdefault(durations.get_work_unit(item.nodeid), []).append(item)
        least = self.config.getoption("conform_cell_memory")
        return [
            WorkItem(
                file=str(cells[0].path.relative_to(self.config.rootpath)),
                case=cells[0].case.name,
                cells=tuple(cell.name for cell in cells),
                seconds=took.get(unit, 0.0),
                memory=max(least, cells[0].case.memory),
            )
            for unit, cells in units.items()
        ]

    def _report(self, event: ClusterEvent, items: dict[str, CellItem]) -> None:
        from harness.cluster.client import ClusterCellEnded, ClusterCellStarted, ClusterNotice

        hook = self.config.hook
        match event:
            case ClusterCellStarted():
                item = items[event.cell]
                if (progress := self._progress) is not None:
                    progress.set_worker(item.name, event.worker)
                hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
                self._note_hosts()
            case ClusterCellEnded():
                item = items[event.cell]
                cell = _complete_record(event, item.suite, self.config.getoption("conform_seed"))
                report = make_report(
                    item.nodeid,
                    item.location,
                    cell,
                    event.claim,
                    verbose=self.config.getoption("verbose"),
                    keywords=item.keywords,
                )
                hook.pytest_runtest_logreport(report=report)
                hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
            case ClusterNotice():
                self._print(event.text)
                if event.is_red:
                    self._missing.append(event.text)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Report cells without a record."""
        for text in self._missing:
            terminalreporter.write_line(f"RED: {text}", red=True)

    @contextmanager
    def _end_session_on_error(self) -> Generator[None]:
        """End the session on an error of the cluster; the run can be resumed."""
        try:
            yield
        except ConformError as error:
            folder = self.config.getoption("conform_run_dir")
            has_run = (Path(folder) / RUN_FILE).exists()
            hint = f"; complete the run with: conform run --resume {folder}" if has_run else ""
            pytest.exit(f"{error}{hint}", returncode=pytest.ExitCode.INTERNAL_ERROR)

    def _note_hosts(self) -> None:
        if self._session is not None:
            for worker in self._session.workers:
                self._hosts.setdefault(worker.name, worker.info.environment)

    @property
    def _progress(self) -> Progress | None:
        found: Progress | None = self.config.pluginmanager.get_plugin("conform-progress")
        return found

    def _print(self, text: str) -> None:
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(f"conform: {text}")


def _complete_record(event: ClusterCellEnded, suite: Suite, seed: int) -> Cell:
    """Build the record of a cell; decide its status if its process died."""
    if event.record is not None:
        cell = Cell.from_json(event.record)
    else:
        case, target = split_cell_id(event.cell)
        cell = Cell(case=case, target=str(target), status=Status.CRASHED, seed=seed)
        cell.error = f"it was lost with its worker, twice: {'; '.join(event.attempts)}"
    if event.is_dead:
        judge_crashed_cell(cell, suite)
    cell.worker = event.worker or None
    cell.attempts = list(event.attempts)
    return cell


def _merge_states(workers: Sequence[RemoteWorker], names: set[str]) -> dict[str, BackendState]:
    """Take the state of each backend from the worker with the best runtime."""
    from harness.cluster.placement import find_best_labels, get_label

    labels = find_best_labels(workers)
    found: dict[str, BackendState] = {}
    for worker in workers:
        for name, state in worker.info.backends.items():
            is_best = get_label(name, state, worker.info.delegates) == labels.get(name, "")
            if name in names and is_best:
                found.setdefault(name, state)
    return dict(sorted(found.items()))
