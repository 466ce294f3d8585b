"""``--incremental`` and ``--resume``: reuses results of earlier sessions, and stores new ones.

Only the process that writes records uses this module.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from harness.errors import ConformError, UsageError
from harness.pytest_plugin.cached.cached_cells import REUSED, ReusedCell
from harness.pytest_plugin.hooks import list_suite_folders
from harness.pytest_plugin.items import HOSTS, get_cell_id, get_cell_settings
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


class SessionCache:
    """Results that a session reuses, and stores for later sessions.

    Args:
        config: configuration of the session, with its targets parsed.

    Raises:
        UsageError: the result cache cannot be opened, or the run cannot be resumed.
        RunUnreadable: the folder to resume is not a run.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        # Read before torch is imported, as it sets some of them.
        self.variables = platform_facts.describe_variables()
        self.sources = Sources(list_suite_folders(config), config.rootpath)
        self.store = _open_store(config)
        self.run = _load_resumed_run(config, self.compute_digests)
        self._keys: CacheKeys | None = None
        self._problem = ""
        if self.store is not None:
            self.sources.watch()

    def compute_digests(self) -> dict[str, str]:
        """Digests of all dependencies of the session, for ``RunInfo.dependency_digests``."""
        return {
            "sources of suites, backends and the harness": self.sources.digest(
                self.sources.everything
            ),
            "installed packages": platform_facts.describe_packages(),
        }

    def make_keys(self, states: Mapping[str, BackendState]) -> CacheKeys:
        """Create cache keys for these states of backends."""
        return CacheKeys(self.sources, get_conditions(self.config), states, self.variables)

    def complete_info(self, fresh: RunInfo) -> RunInfo:
        """Complete the information about the run, or restore it from a resumed run."""
        if self.run is None:
            return msgspec.structs.replace(fresh, dependency_digests=self.compute_digests())
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
            hosts=fresh.hosts,  # a cluster adds its workers to this dict later
        )

    def check_cells(self, cells: Sequence[str]) -> None:
        """Refuse to resume a run with other cells, before its folder is changed.

        Raises:
            UsageError: the resumed run had other cells.
        """
        if self.run is not None and sorted(cells) != sorted(self.run.info.expected):
            raise UsageError(
                f"cannot resume {self.run.path}: it had {len(self.run.info.expected):,} cells, and "
                f"the current selection has {len(cells):,}, or different ones; use the "
                f"arguments of its {self.run.info.command[0]} command"
            )

    def find_reused(self, nodeids: Sequence[str], states: Mapping[str, BackendState]) -> None:
        """Find the tests of the session that need not run.

        Args:
            nodeids: all node ids of the session.
            states: states of the backends where the cells run.
        """
        cells = {nodeid: name for nodeid in nodeids if (name := get_cell_id(nodeid))}
        there = {} if self.run is None else self._load_recorded(self.run, cells)
        if self.store is not None:
            self._keys = self.make_keys(states)
            others = {nodeid: name for nodeid, name in cells.items() if nodeid not in there}
            there |= self.load_results(self._keys, others)
        self.config.stash[REUSED] = there

    def prepare_keys(self, states: Mapping[str, BackendState]) -> None:
        """Prepare to store results, when reused cells are known already.

        Args:
            states: as in :meth:`find_reused`.
        """
        self._keys = self.make_keys(states)

    def load_results(self, keys: CacheKeys, cells: Mapping[str, str]) -> dict[str, ReusedCell]:
        """Load cached results.

        Args:
            keys: cache keys of the session.
            cells: cell ids by node id.
        """
        if self.store is None:
            return {}
        try:
            named = {nodeid: keys.cell_key(nodeid) for nodeid in cells}
        except ConformError:
            return {}  # cells of an unregistered backend run and report it
        entries = self.store.find(named.values())
        found = {}
        for nodeid, key in named.items():
            entry = entries.get(key)
            cell = entry and entry.load_cell(cells[nodeid])
            if not entry or not cell or self._is_outdated(entry, keys, nodeid):
                continue
            claim = LimitationClaim.from_json(entry.claim) if entry.claim else None
            found[nodeid] = ReusedCell(cell=cell, claim=claim)
        return found

    def store_result(self, nodeid: str, cell: Cell, claim: str) -> None:
        """Store the result of a cell, if it may be cached.

        Args:
            nodeid: node id of its test.
            cell: its record.
            claim: claim about its known issue as JSON, or empty.
        """
        if self.store is None or self._keys is None or self._problem or not is_cacheable(cell):
            return
        there = self.config.stash.get(HOSTS, {}).get(cell.worker or "")
        if there is not None and not self._is_alike(there):
            return  # its key would not describe the worker's host or sources
        if changed := self.sources.changed():
            # The cell may have run with either version.
            self._problem = f"{changed} changed while cells ran; later results are not cached"
            return
        basis = (
            self._keys.claims_key(nodeid, get_cell_settings(self.config).selected)
            if _counts_cells(claim)
            else ""
        )
        run = Path(self.config.getoption("conform_run_dir")).resolve().name
        key = self._keys.cell_key(nodeid)
        host = "" if there is None else there.host
        self.store.put(
            StoredResult.from_cell(key, cell, run=run, host=host, claim=claim, claims=basis)
        )

    def close(self) -> None:
        """Wait until all results are stored."""
        if self.store is not None and (problem := self.store.flush()):
            self._problem = self._problem or f"{problem}; cells run again the next time"

    def summarize(self, recorded: int) -> Iterable[str]:
        """Yield summary lines for the terminal.

        Args:
            recorded: number of cells with a record.
        """
        there = self.config.stash.get(REUSED, {})
        before = sum(each.is_recorded for each in there.values())
        taken = len(there) - before
        parts = [f"{before:,} cells had a record already"] if self.run is not None else []
        if self.store is not None:
            parts.append(f"{taken:,} cells were reused from {self.store.place}")
        if parts:
            yield f"conform: {', '.join(parts)}, {recorded - before - taken:,} ran"
        if self.store is None and self.config.getoption("conform_incremental"):
            yield "conform: all cells ran, because --keep all needs files that only a run writes"
        if self._problem:
            yield f"conform: {self._problem}"

    def _load_recorded(self, run: Run, cells: Mapping[str, str]) -> dict[str, ReusedCell]:
        claims = Recorder.read_claims(run.path)
        records = {cell.id: cell for cell in run.cells}
        return {
            nodeid: ReusedCell(
                cell=records[name],
                claim=LimitationClaim.from_json(claims[name]) if name in claims else None,
                is_recorded=True,
            )
            for nodeid, name in cells.items()
            if name in records
        }

    def _is_alike(self, worker: Environment) -> bool:
        """Whether packages, checkout and kind of host of a cluster worker equal this session's."""
        here = self._here
        same = (worker.packages, worker.revision) == (here.packages, here.revision)
        return same and is_like_here(worker)

    @functools.cached_property
    def _here(self) -> Environment:
        return read_environment(self.config.rootpath)

    def _is_outdated(self, entry: StoredResult, keys: CacheKeys, nodeid: str) -> bool:
        """Whether the claim counts cells that have changed since."""
        return bool(entry.claims) and entry.claims != keys.claims_key(
            nodeid, get_cell_settings(self.config).selected
        )


def get_conditions(config: pytest.Config) -> Conditions:
    """Return the settings of a session that can affect records."""
    of_cells = get_cell_settings(config)
    return Conditions(
        seed=of_cells.seed,
        demanding=frozenset(of_cells.demanding),
        compare_runtimes=of_cells.compare_runtimes,
        lower_only=of_cells.lower_only,
        speed=not config.getoption("conform_no_speed"),
        cell_timeout=of_cells.cell_timeout,
        cell_memory=config.getoption("conform_cell_memory"),
        trace_time=of_cells.trace_time,
    )


def _counts_cells(claim: str) -> bool:
    """Whether a claim counts the cells of its known issue, so that it depends on other cells."""
    return bool(claim) and LimitationClaim.from_json(claim).declared


def _open_store(config: pytest.Config) -> ResultStore | None:
    place = config.getoption("conform_result_cache")
    if not config.getoption("conform_incremental"):
        if place:
            raise UsageError("--result-cache has no effect without --incremental; give both")
        return None
    # Files of --keep are written while a cell runs.
    return (
        None
        if config.getoption("conform_keep") == "all"
        else ResultStore(place or find_default_place())
    )


def _load_resumed_run(config: pytest.Config, inputs: Callable[[], Mapping[str, str]]) -> Run | None:
    folder = config.getoption("conform_resume")
    if not folder:
        return None
    run = load_stopped_run(Path(folder))
    if run.info.seed != config.getoption("conform_seed"):
        raise UsageError(f"cannot resume {folder}: its seed is {run.info.seed}")
    check_unchanged(run, read_environment(config.rootpath), inputs())
    return run
