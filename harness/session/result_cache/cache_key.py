"""The cache key of a cell: one digest of all dependencies of its record.

Cells with the same key have the same record, except for times, memory and worker. Anything that
can change a record must be part of the key; docs/incremental.md lists the parts, and explains why
there are no others.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from harness.record.run import SCHEMA_VERSION, BackendState
from harness.record.target import split_cell_id
from harness.session.result_cache import platform_facts
from harness.session.result_cache.dependencies import Sources

#: Increment it when the meaning of a key changes although its parts stay the same.
FORMAT = 1


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a session that can change a record.

    Attributes:
        seed: run seed.
        demanding: targets on which something must be delegated.
        compare_runtimes: run natively and emulated where both are possible.
        lower_only: execute nothing.
        speed: whether the speed parts are installed (:mod:`harness.pipeline.speed`).
        cell_timeout: seconds that a cell may take, tracing included.
        cell_memory: GiB that it may hold.
        trace_time: seconds that tracing it may take.
    """

    seed: int = 0
    demanding: frozenset[str] = frozenset()
    compare_runtimes: bool = False
    lower_only: bool = False
    speed: bool = True
    cell_timeout: float = 0.0
    cell_memory: float = 0.0
    trace_time: float = 0.0


class CacheKeys:
    """Computes the cache keys of one session's cells.

    Args:
        sources: the source files that cells depend on.
        conditions: the options of the session that affect results.
        states: the states of the backends in the processes that run cells.
        variables: the environment variables from before this process imported vendors, because
            imports set some
            (:func:`~harness.session.result_cache.platform_facts.describe_variables`); default: the
            present variables.
    """

    def __init__(
        self,
        sources: Sources,
        conditions: Conditions,
        states: Mapping[str, BackendState],
        variables: str | None = None,
    ) -> None:
        self._variables = platform_facts.describe_variables() if variables is None else variables
        self.sources = sources
        self.conditions = conditions
        self.states = states
        self._of_files: dict[tuple[Path, str], str] = {}

    def cell_key(self, nodeid: str) -> str:
        """The key of a cell.

        Args:
            nodeid: ``FILE::CASE@BACKEND:RECIPE``, the file relative to the session's root.

        Raises:
            UnknownTarget: it names no target, or a backend that is not registered.
        """
        file, _, cell = nodeid.rpartition("::")
        target = split_cell_id(cell)[1]
        demanded = str(target) in self.conditions.demanding
        parts = [cell, str(demanded), self._shared, self._files(file, target.backend)]
        state = self.states.get(target.backend)
        parts.append("" if state is None else msgspec.json.encode(state).decode())
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    @functools.cached_property
    def _shared(self) -> str:
        """Return the dependencies that all cells of the session share."""
        asked = msgspec.structs.replace(self.conditions, demanding=frozenset())
        parts = [
            f"{FORMAT}.{SCHEMA_VERSION}",
            msgspec.json.encode(asked).decode(),
            self.sources.digest(self.sources.core),
            platform_facts.describe_packages(),
            platform_facts.describe_host(),
            self._variables,
        ]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def _files(self, file: str, backend: str) -> str:
        path = self.sources.root / file
        if (path, backend) not in self._of_files:
            files = self.sources.find_suite_files(path) | self.sources.find_backend_files(backend)
            self._of_files[path, backend] = self.sources.digest(files - self.sources.core)
        return self._of_files[path, backend]

    def claims_key(self, nodeid: str, selected: list[str] | None) -> str:
        """Return a digest of the further dependencies of a cell's claim about its limitation.

        A limitation's cells are counted over its folder, all backends, and the selected targets.
        """
        folder = (self.sources.root / nodeid.rpartition("::")[0]).parent
        return self._claims(folder, msgspec.json.encode(selected).decode())

    @functools.cache  # noqa: B019  (one instance a session)
    def _claims(self, folder: Path, selected: str) -> str:
        files = {path for path in self.sources.everything if path not in self.sources.core}
        modules = [path for path in folder.glob("*.py") if path.is_file()]
        for path in modules:
            files |= self.sources.find_suite_files(path)
        return hashlib.sha256(f"{selected}\0{self.sources.digest(files)}".encode()).hexdigest()
