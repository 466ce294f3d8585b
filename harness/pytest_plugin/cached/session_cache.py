"""What a session takes from elsewhere in place of running it, and what it leaves for others: the
side of ``--incremental`` and ``--resume`` that the process of the records has."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from harness.errors import ConformError, UsageError
from harness.pytest_plugin.cached.cached_cells import KNOWN, Known
from harness.pytest_plugin.hooks import suite_folders
from harness.pytest_plugin.items import HOSTS, asked, cell_of
from harness.record.cell import Cell
from harness.record.folder import format_now
from harness.record.host import Environment, is_like_here, read_environment
from harness.record.recorder import Recorder
from harness.record.resuming import check_unchanged, load_stopped_run
from harness.record.run import BackendState, Run, RunInfo
from harness.session.result_cache import platform_facts
from harness.session.result_cache.cache_key import CacheKeys, Conditions
from harness.session.result_cache.dependencies import Sources
from harness.session.result_cache.entry import StoredResult, is_cacheable
from harness.session.result_cache.store import ResultStore, find_default_place
from harness.session.stale_limitations import LimitationClaim


class Reuse:
    """In the process that writes the records.

    Args:
        config: the session's; its targets are known.

    Raises:
        UsageError: the store cannot be reached, or the run not resumed.
        RunUnreadable: what is to be resumed is no run.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        # Now: torch sets some as it is imported, and this process may come to import it.
        self.variables = platform_facts.describe_variables()
        self.sources = Sources(suite_folders(config), config.rootpath)
        self.store = _store(config)
        self.run = _resumed(config, self.inputs)
        self._keys: CacheKeys | None = None
        self._problem = ""
        if self.store is not None:
            self.sources.watch()

    def inputs(self) -> dict[str, str]:
        """What all cells of the session may hang on, for ``RunInfo.dependency_digests``."""
        return {
            "sources of suites, backends and the harness": self.sources.digest(
                self.sources.everything
            ),
            "installed packages": platform_facts.describe_packages(),
        }

    def keys(self, states: Mapping[str, BackendState]) -> CacheKeys:
        """The keys of cells whose backends say this of themselves."""
        return CacheKeys(self.sources, conditions(self.config), states, self.variables)

    def info(self, fresh: RunInfo) -> RunInfo:
        """What the run says of itself: of one that is resumed, what it said before."""
        if self.run is None:
            return msgspec.structs.replace(fresh, dependency_digests=self.inputs())
        old = self.run.info
        for name, host in old.hosts.items():
            fresh.hosts.setdefault(name, host)
        return msgspec.structs.replace(
            old,
            ended=None,
            complete=False,
            exit_status=None,
            records=None,
            problems=[],
            resumed_at=[*old.resumed_at, format_now()],
            hosts=fresh.hosts,  # to which a farm adds who comes
        )

    def check_cells(self, cells: Sequence[str]) -> None:
        """Refuse to complete a run with other cells than it had, before its folder is written to.

        Raises:
            UsageError: the run that is resumed had others.
        """
        if self.run is not None and sorted(cells) != sorted(self.run.info.expected):
            raise UsageError(
                f"cannot resume {self.run.path}: it had {len(self.run.info.expected):,} cells, and "
                f"what is selected now has {len(cells):,}, or others; give what its "
                f"{self.run.info.command[0]} was given"
            )

    def find(self, nodeids: Sequence[str], states: Mapping[str, BackendState]) -> None:
        """Find out which of the session's tests need not run.

        Args:
            nodeids: all of them.
            states: what the backends say of themselves where the cells run.
        """
        cells = {nodeid: name for nodeid in nodeids if (name := cell_of(nodeid))}
        there = {} if self.run is None else self._recorded(self.run, cells)
        if self.store is not None:
            self._keys = self.keys(states)
            others = {nodeid: name for nodeid, name in cells.items() if nodeid not in there}
            there |= self.stored(self._keys, others)
        self.config.stash[KNOWN] = there

    def go_on(self, states: Mapping[str, BackendState]) -> None:
        """Know which cells need not run already; keep the results of the others.

        Args:
            states: as in :meth:`find`.
        """
        self._keys = self.keys(states)

    def stored(self, keys: CacheKeys, cells: Mapping[str, str]) -> dict[str, Known]:
        """The cells that the store has results of.

        Args:
            keys: of the session.
            cells: ids by node id.
        """
        if self.store is None:
            return {}
        try:
            named = {nodeid: keys.cell_key(nodeid) for nodeid in cells}
        except ConformError:
            return {}  # a backend that is not registered has cells that say so
        entries = self.store.find(named.values())
        found = {}
        for nodeid, key in named.items():
            entry = entries.get(key)
            cell = entry and entry.load_cell(cells[nodeid])
            if not entry or not cell or self._is_outdated(entry, keys, nodeid):
                continue
            claim = LimitationClaim.from_json(entry.claim) if entry.claim else None
            found[nodeid] = Known(cell=cell, claim=claim)
        return found

    def ended(self, nodeid: str, cell: Cell, claim: str) -> None:
        """A cell ran; keep its result if it may be kept.

        Args:
            nodeid: of its test.
            cell: its record.
            claim: what it says of its limitation, as JSON; empty where it says nothing.
        """
        if self.store is None or self._keys is None or self._problem or not is_cacheable(cell):
            return
        there = self.config.stash.get(HOSTS, {}).get(cell.worker or "")
        if there is not None and not self._is_alike(there):
            return  # of another kind of host, or other sources, than its key would say
        if changed := self.sources.changed():
            # Who knows which of the two it ran with.
            self._problem = f"{changed} changed while cells ran; what ended since is not kept"
            return
        basis = self._keys.claims_key(nodeid, asked(self.config).selected) if _counts(claim) else ""
        run = Path(self.config.getoption("run_dir")).resolve().name
        key = self._keys.cell_key(nodeid)
        host = "" if there is None else there.host
        self.store.put(
            StoredResult.from_cell(key, cell, run=run, host=host, claim=claim, claims=basis)
        )

    def close(self) -> None:
        """Wait until everything is stored."""
        if self.store is not None and (problem := self.store.flush()):
            self._problem = self._problem or f"{problem}; cells run again the next time"

    def lines(self, recorded: int) -> Iterable[str]:
        """What a reader of the terminal must know.

        Args:
            recorded: how many cells have a record.
        """
        there = self.config.stash.get(KNOWN, {})
        before = sum(each.is_recorded for each in there.values())
        taken = len(there) - before
        parts = [f"{before:,} cells had a record already"] if self.run is not None else []
        if self.store is not None:
            parts.append(f"{taken:,} cells were taken from {self.store.place}")
        if parts:
            yield f"conform: {', '.join(parts)}, {recorded - before - taken:,} ran"
        if self.store is None and self.config.getoption("incremental"):
            yield "conform: all cells ran, as --keep all keeps what only a cell that runs has"
        if self._problem:
            yield f"conform: {self._problem}"

    def _recorded(self, run: Run, cells: Mapping[str, str]) -> dict[str, Known]:
        claims = Recorder.read_claims(run.path)
        records = {cell.id: cell for cell in run.cells}
        return {
            nodeid: Known(
                cell=records[name],
                claim=LimitationClaim.from_json(claims[name]) if name in claims else None,
                is_recorded=True,
            )
            for nodeid, name in cells.items()
            if name in records
        }

    def _is_alike(self, worker: Environment) -> bool:
        """Whether what a worker of a farm makes of a cell is what its key is of; with ``--mixed``
        its packages or checkout may differ."""
        here = self._here
        same = (worker.packages, worker.revision) == (here.packages, here.revision)
        return same and is_like_here(worker)

    @functools.cached_property
    def _here(self) -> Environment:
        return read_environment(self.config.rootpath)

    def _is_outdated(self, entry: StoredResult, keys: CacheKeys, nodeid: str) -> bool:
        """Whether what the cell said of its limitation counts cells that are others by now."""
        return bool(entry.claims) and entry.claims != keys.claims_key(
            nodeid, asked(self.config).selected
        )


def conditions(config: pytest.Config) -> Conditions:
    """What a session asks of its cells, as far as it can alter their records."""
    of_cells = asked(config)
    return Conditions(
        seed=of_cells.seed,
        demanding=frozenset(of_cells.demanding),
        compare_runtimes=of_cells.compare_runtimes,
        lower_only=of_cells.lower_only,
        speed=not config.getoption("no_speed"),
        cell_timeout=of_cells.cell_timeout,
        cell_memory=config.getoption("cell_memory"),
        trace_time=of_cells.trace_time,
    )


def _counts(claim: str) -> bool:
    """Whether a claim counts the cells of its entry, which others than the cell decide on."""
    return bool(claim) and LimitationClaim.from_json(claim).declared


def _store(config: pytest.Config) -> ResultStore | None:
    place = config.getoption("result_cache")
    if not config.getoption("incremental"):
        if place:
            raise UsageError("--result-cache has no effect without --incremental; give both")
        return None
    # What is kept of a cell is written while it runs.
    return None if config.getoption("keep") == "all" else ResultStore(place or find_default_place())


def _resumed(config: pytest.Config, inputs: Callable[[], Mapping[str, str]]) -> Run | None:
    folder = config.getoption("resume")
    if not folder:
        return None
    run = load_stopped_run(Path(folder))
    if run.info.seed != config.getoption("seed"):
        raise UsageError(f"cannot resume {folder}: its seed is {run.info.seed}")
    check_unchanged(run, read_environment(config.rootpath), inputs())
    return run
