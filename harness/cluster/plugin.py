"""The pytest plugin of ``--cluster``: the cells of a session run on the workers of a farm.

The session collects as ever, and its controller alone writes the record; only where cells run is
another matter. Tests that are no cells run here.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.cluster import requirements
from harness.errors import ConformError
from harness.pytest_plugin import durations
from harness.pytest_plugin.cached.cached_cells import known, tell
from harness.pytest_plugin.items import HOSTS, LOADED, CellItem, asked, cell_of, report_of
from harness.record.cell import Cell, Status
from harness.record.folder import RUN_FILE
from harness.record.host import Environment, environment
from harness.record.run import BackendState
from harness.record.target import split_cell_id
from harness.session.backend_states import Ready
from harness.session.discovery import Suite
from harness.session.run_one import judge_dead

if TYPE_CHECKING:
    from harness.cluster.client import Farm, Happening, Record
    from harness.cluster.ledger import Piece
    from harness.cluster.placement import Place
    from harness.pytest_plugin.progress import Progress

WAIT_SECONDS = 60.0


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of a run on a farm."""
    group = parser.getgroup("conform farm", "ExecuTorch conformance on many machines")
    group.addoption(
        "--cluster",
        metavar="ADDRESS",
        default=None,
        help="run the cells on the workers of this scheduler, such as tls://farm:8786 (see conform "
        "cluster up, conform worker); with -n 0",
    )
    group.addoption(
        "--keys",
        metavar="FOLDER",
        default=None,
        help="keys of the farm, made by conform cluster keys; needed beyond loopback",
    )
    group.addoption(
        "--mixed",
        action="store_true",
        help="let workers take part whose packages or checkout differ; records say what each has",
    )
    group.addoption(
        "--cluster-wait",
        type=float,
        default=WAIT_SECONDS,
        metavar="SECONDS",
        help="how long to wait for a worker while there is none (default: %(default)g)",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Workers of a farm stand for those of xdist."""
    if config.getoption("cluster", None) is not None and hasattr(config.option, "numprocesses"):
        config.option.numprocesses = 0


def pytest_configure(config: pytest.Config) -> None:
    """Take the place of the loop that runs tests."""
    address = config.getoption("cluster")
    if address is None or not config.pluginmanager.has_plugin("conform-hooks"):
        return
    if config.getoption("keep") != "none":
        raise pytest.UsageError("--keep writes where a cell runs, which is not here with --cluster")
    try:
        config.pluginmanager.register(OnFarm(config, address), "conform-farm")
    except ConformError as error:
        raise pytest.UsageError(str(error)) from error


class OnFarm:
    """Sends the cells of a session away and reports what comes back."""

    def __init__(self, config: pytest.Config, address: str) -> None:
        """Check the address; nobody is spoken to yet.

        Raises:
            UsageError: it is none, it needs keys, or Dask is not installed.
        """
        with requirements.needed():
            from harness.cluster.tls import secured
        self.config = config
        keys = config.getoption("keys")
        self._address, self._security = secured(address, None if keys is None else Path(keys))
        self._farm: Farm | None = None
        self._close: Any = None
        self._hosts: dict[str, Environment] = {}
        self._unrun: list[str] = []
        config.stash[LOADED] = self._load
        config.stash[HOSTS] = self._hosts

    def _load(self, cells: Sequence[CellItem]) -> Ready:
        """Find the workers; they know what a run says of its backends."""
        from harness.cluster.client import Farm
        from harness.cluster.connection import Connection

        config = self.config
        with self._ending_the_session():
            connection = Connection(self._address, self._security)
            self._close = connection.close
            self._farm = Farm(
                connection,
                environment(config.rootpath),
                mixed=config.getoption("mixed"),
                wait=config.getoption("cluster_wait"),
            )
            for note in self._farm.gather():
                self._say(note.text)
        places = self._farm.places
        slots = sum(place.slots for place in places)
        if (progress := self._progress) is not None:
            progress.on_farm(slots)
        self._say(f"workers: {len(places)}, slots: {slots}, at {self._address}")
        if page := connection.dashboard:
            self._say(f"Dask's own page, on the scheduler's machine: {page}")
        names = {cell.target.backend for cell in cells}
        first = places[0].hello
        return Ready(backends=_states(places, names), slow=first.slow, gone=first.gone)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run all cells there, and what else was collected here."""
        if session.config.option.collectonly or self._farm is None:
            return None
        if session.testsfailed and not session.config.option.continue_on_collection_errors:
            return None  # pytest says it
        items = {item.name: item for item in session.items if isinstance(item, CellItem)}
        for nodeid in known(self.config):
            items.pop(cell_of(nodeid) or "", None)
        tell(self.config)
        with self._ending_the_session():
            for happening in self._farm.run(self._pieces(items), self._manner()):
                self._report(happening, items)
                if session.shouldfail or session.shouldstop:
                    raise session.Interrupted(session.shouldfail or session.shouldstop)
        others = [item for item in session.items if not isinstance(item, CellItem)]
        for index, item in enumerate(others):
            following = others[index + 1] if index + 1 < len(others) else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        return True

    def pytest_sessionfinish(self) -> None:
        """Leave the farm."""
        if self._farm is not None:
            self._note_hosts()
        if self._close is not None:
            self._close()

    def _manner(self) -> Any:
        from harness.cluster.client import Manner

        return Manner(
            asked=asked(self.config),
            root=self.config.rootpath,
            cell_memory=self.config.getoption("cell_memory"),
            speed=not self.config.getoption("no_speed"),
        )

    def _pieces(self, items: dict[str, CellItem]) -> list[Piece]:
        """The cells of each case together."""
        from harness.cluster.ledger import Piece

        took = durations.known(self.config)
        units: dict[str, list[CellItem]] = {}
        for item in items.values():
            units.setdefault(durations.unit_of(item.nodeid), []).append(item)
        least = self.config.getoption("cell_memory")
        return [
            Piece(
                file=str(cells[0].path.relative_to(self.config.rootpath)),
                case=cells[0].case.name,
                cells=tuple(cell.name for cell in cells),
                seconds=took.get(unit, 0.0),
                memory=max(least, cells[0].case.memory),
            )
            for unit, cells in units.items()
        ]

    def _report(self, happening: Happening, items: dict[str, CellItem]) -> None:
        from harness.cluster.client import Note, Record, Started

        hook = self.config.hook
        match happening:
            case Started():
                item = items[happening.cell]
                if (progress := self._progress) is not None:
                    progress.place(item.name, happening.worker)
                hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
                self._note_hosts()
            case Record():
                item = items[happening.cell]
                cell = _cell(happening, item.suite, self.config.getoption("seed"))
                report = report_of(
                    item.nodeid,
                    item.location,
                    cell,
                    happening.claim,
                    verbose=self.config.getoption("verbose"),
                    keywords=item.keywords,
                )
                hook.pytest_runtest_logreport(report=report)
                hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
            case Note():
                self._say(happening.text)
                if happening.is_red:
                    self._unrun.append(happening.text)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say why cells have no record."""
        for text in self._unrun:
            terminalreporter.write_line(f"RED: {text}", red=True)

    @contextmanager
    def _ending_the_session(self) -> Generator[None]:
        """What a farm cannot go on without ends the session; what it leaves can be completed."""
        try:
            yield
        except ConformError as error:
            folder = self.config.getoption("run_dir")
            has_run = (Path(folder) / RUN_FILE).exists()
            hint = f"; complete the run with: conform run --resume {folder}" if has_run else ""
            pytest.exit(f"{error}{hint}", returncode=pytest.ExitCode.INTERNAL_ERROR)

    def _note_hosts(self) -> None:
        if self._farm is not None:
            for place in self._farm.places:
                self._hosts.setdefault(place.name, place.hello.environment)

    @property
    def _progress(self) -> Progress | None:
        found: Progress | None = self.config.pluginmanager.get_plugin("conform-progress")
        return found

    def _say(self, text: str) -> None:
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(f"conform: {text}")


def _cell(happening: Record, suite: Suite, seed: int) -> Cell:
    """The record of a cell that came to its end; where its process died, judged here."""
    if happening.record is not None:
        cell = Cell.from_json(happening.record)
    else:
        case, target = split_cell_id(happening.cell)
        cell = Cell(case=case, target=str(target), status=Status.CRASHED, seed=seed)
        cell.error = f"it was lost with its worker, twice: {'; '.join(happening.attempts)}"
    if happening.is_dead:
        judge_dead(cell, suite)
    cell.worker = happening.worker or None
    cell.attempts = list(happening.attempts)
    return cell


def _states(places: Sequence[Place], names: set[str]) -> dict[str, BackendState]:
    """What the best worker says of each backend."""
    from harness.cluster.placement import best, label_of

    labels = best(places)
    found: dict[str, BackendState] = {}
    for place in places:
        for name, state in place.hello.backends.items():
            is_best = label_of(name, state, place.hello.delegates) == labels.get(name, "")
            if name in names and is_best:
                found.setdefault(name, state)
    return dict(sorted(found.items()))
