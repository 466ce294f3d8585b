"""Skips collection for cells with cached results.

Collecting imports every suite in each worker, which takes most of the time of a run that reuses all
results. A session stores its collection in the result cache, with a key for all its dependencies. A
later session with the same key starts no worker if all tests have cached results; otherwise it
collects only the files of tests without one. Cells that crash as predicted are never cached.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from harness.pytest_plugin.cached.cached_cells import ALL_TESTS, REUSED, ReusedCell
from harness.pytest_plugin.cached.session_cache import SessionCache
from harness.pytest_plugin.hooks import list_suite_folders
from harness.pytest_plugin.items import get_cell_id
from harness.session.backend_states import VendorStates
from harness.session.result_cache import platform_facts, source_tree

# Options whose value does not affect which cells are collected.
_IRRELEVANT = ("--run-dir", "--result-cache", "--results", "--progress", "-n", "--numprocesses",
          "--maxprocesses")  # fmt: skip
# Options that select by the results of earlier sessions, or that need real items.
_INCOMPATIBLE = (
    "lf", "failedfirst", "newfirst", "stepwise", "collectonly", "usepdb", "pyargs",
    "conform_changed_since", "setupplan", "setuponly", "setupshow",
)  # fmt: skip

# Key of the collection of this session.
_COLLECTION_KEY: pytest.StashKey[str] = pytest.StashKey()


FILES_INPUT = "conform_files"
"""Key of the files to collect in the input of workers; None for all arguments."""


class Collection(msgspec.Struct, frozen=True, kw_only=True):
    """Collection of an earlier session.

    Attributes:
        nodeids: node ids of its tests.
        ready: states of the backends in the processes that would run them.
    """

    nodeids: list[str]
    ready: VendorStates


class CachedCollection:
    """Plugin that collects only files of cells without cached results.

    If all cells have cached results it collects nothing, and no worker is needed.

    Attributes:
        files: files to collect, relative to the root.

    Args:
        collection: collection of an earlier session.
        reused: its cells with cached results.
    """

    def __init__(self, collection: Collection, reused: dict[str, ReusedCell]) -> None:
        unknown = (nodeid for nodeid in collection.nodeids if nodeid not in reused)
        self.files = list(dict.fromkeys(nodeid.partition("::")[0] for nodeid in unknown))
        self._states = collection.ready

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> bool | None:
        """Restrict collection in this process, or replace it if there is nothing to collect."""
        if self.files:
            restrict_collection(session.config, self.files)
            return None
        session.items = []
        session.config.hook.pytest_collection_finish(session=session)
        return True

    def merge_states(self, fresh: VendorStates | None) -> VendorStates:
        """Merge the states of all backends.

        Args:
            fresh: states in the processes of this session; None if there are none.
        """
        if fresh is None:
            return self._states
        return msgspec.structs.replace(fresh, backends={**self._states.backends, **fresh.backends})


CACHED_COLLECTION: pytest.StashKey[CachedCollection] = pytest.StashKey()


def restrict_collection(config: pytest.Config, files: list[str]) -> None:
    """Make a process collect only these files, relative to the root."""
    config.args = [str(config.rootpath / name) for name in files]


def skip_cached_collection(config: pytest.Config, session_cache: SessionCache) -> None:
    """Register the plugin that skips collection of cached cells, unless all must be collected."""
    # Computed before the plugin adds arguments for xdist's workers.
    key = config.stash[_COLLECTION_KEY] = _compute_key(config, session_cache)
    content = (
        session_cache.store.load_collection(key)
        if key and session_cache.store is not None
        else None
    )
    try:
        collection = None if content is None else msgspec.json.decode(content, type=Collection)
    except msgspec.MsgspecError:
        return
    if collection is None or not collection.nodeids:
        return
    cells = {each: get_cell_id(each) or "" for each in collection.nodeids}
    if not all(cells.values()):
        return
    reused = session_cache.load_results(session_cache.make_keys(collection.ready.backends), cells)
    cached = CachedCollection(collection, reused)
    # Restricting needs whole files; a cluster runs the items collected in this process.
    named = any("::" in str(name) for name in config.args)
    if cached.files and (not reused or named or config.getoption("conform_cluster", None)):
        return
    config.stash[REUSED], config.stash[ALL_TESTS] = reused, collection.nodeids
    config.stash[CACHED_COLLECTION] = cached
    config.pluginmanager.register(cached, "conform-cached-collection")
    if not cached.files:
        config.option.dist, config.option.tx = "no", []  # xdist reads both later


def store_collection(
    config: pytest.Config, session_cache: SessionCache, collection: Collection
) -> None:
    """Store the collection of this session for later ones."""
    key = config.stash.get(_COLLECTION_KEY, "")
    if key and session_cache.store is not None and not session_cache.sources.changed():
        session_cache.store.store_collection(key, msgspec.json.encode(collection))


def _compute_key(config: pytest.Config, session_cache: SessionCache) -> str:
    """Digest all dependencies of collection; empty if they are not all reused."""
    is_incompatible = any(config.getoption(name, None) for name in _INCOMPATIBLE)
    if session_cache.store is None or session_cache.run is not None or is_incompatible:
        return ""
    arguments = list(_list_relevant_arguments(config))
    start, folders = config.invocation_params.dir, list_suite_folders(config)
    named = [(start / str(name).partition("::")[0]).resolve() for name in config.args]
    if any(text.startswith("@") for text in arguments) or not all(
        any(path.is_relative_to(folder.resolve()) for folder in folders) for path in named
    ):
        return ""  # tests in other folders are no dependencies
    sources = session_cache.sources
    files = {*sources.everything, *source_tree.list_files(sources.harness)}
    for folder in sources.suites:
        files |= set(folder.rglob("*.py"))
    settings = Path(config.inipath).read_bytes() if config.inipath else b""
    found = [
        sources.digest(files),
        hashlib.sha256(settings).hexdigest(),
        *arguments,
        os.path.relpath(start, config.rootpath),
        *(f"{name}={os.environ[name]}" for name in sorted(os.environ) if name[:7] == "PYTEST_"
          and name not in ("PYTEST_CURRENT_TEST", "PYTEST_VERSION")),
        platform_facts.describe_packages(),
        platform_facts.describe_host(),
        session_cache.variables,
        platform_facts.describe_compilers(),
    ]  # fmt: skip
    return hashlib.sha256("\0".join(found).encode()).hexdigest()


def _list_relevant_arguments(config: pytest.Config) -> Iterator[str]:
    """Yield the arguments of the session that can affect its collection."""
    is_value = False
    for text in map(str, config.invocation_params.args):
        if is_value:
            is_value = False
        elif text in _IRRELEVANT:
            is_value = True
        elif not text.startswith(tuple(f"{name}=" for name in _IRRELEVANT)) and not (
            text.startswith("-n") and text[2:].isalnum()
        ):
            yield text.replace(str(config.rootpath), ".")
