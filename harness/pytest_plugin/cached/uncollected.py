"""A session of which every cell is known, without collecting it; or nearly every, collecting those
files alone whose cells are not.

Collecting is importing every suite, in each worker: most of what a run takes that has nothing to
run. A session that collected notes what it found beside the results, under a number for all that
this hangs on; one that finds such a note, and a result for every test in it, starts no worker. Most
runs have a few tests without one: what crashes as predicted, say, has never a result.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from harness.pytest_plugin.cached.cached_cells import KNOWN, NOTED, Known, tell
from harness.pytest_plugin.cached.session_cache import Reuse
from harness.pytest_plugin.hooks import suite_folders
from harness.pytest_plugin.items import cell_of
from harness.session.backend_states import VendorStates
from harness.session.result_cache import platform_facts, source_tree

# Options with a value that says nothing of which cells there are.
_ASIDE = ("--run-dir", "--result-cache", "--results", "--progress", "-n", "--numprocesses",
          "--maxprocesses")  # fmt: skip
# What selects by what earlier sessions left, or looks at items that are made here.
_BY_MEMORY = ("lf", "failedfirst", "newfirst", "stepwise", "collectonly", "usepdb", "changed_since",
              "pyargs", "setupplan", "setuponly", "setupshow")  # fmt: skip

# What collection hangs on in this session.
_NUMBER: pytest.StashKey[str] = pytest.StashKey()


FILES_INPUT = "conform_files"
"""Key under which workers are told what to collect; None for what was asked for."""


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What a session collected.

    Attributes:
        nodeids: its tests.
        ready: what the processes that would run them said of their vendors.
    """

    nodeids: list[str]
    ready: VendorStates


class Listed:
    """In place of collection and of running: every cell is known.

    Args:
        note: what an earlier session collected.
        known: its cells.
    """

    def __init__(self, note: Note, known: dict[str, Known]) -> None:
        self.note = note
        self._known = known

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> bool:
        """Make items without the modules that they are from."""
        session.config.stash[KNOWN] = self._known
        made: list[pytest.Item | pytest.Collector] = []
        for nodeid in self.note.nodeids:
            made.append(KnownItem.from_parent(session, name=cell_of(nodeid), nodeid=nodeid))
        session.items = [item for item in made if isinstance(item, pytest.Item)]
        session.testscollected = len(made)
        hook = session.config.hook
        hook.pytest_collectreport(report=pytest.CollectReport("", "passed", None, made))
        hook.pytest_collection_finish(session=session)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Report them."""
        tell(session.config)
        return True


class KnownItem(pytest.Item):
    """Stands for a cell that is known; it is not run."""

    def runtest(self) -> None:
        """Refuse."""
        raise RuntimeError(f"{self.nodeid} is known, and has no case here that could run")


class Narrowed:
    """In place of all that was asked for, the files of the few cells that are not known.

    Args:
        note: what an earlier session collected.
        known: those of its cells that are.
    """

    def __init__(self, note: Note, known: dict[str, Known]) -> None:
        self.note = note
        unknown = (nodeid for nodeid in note.nodeids if nodeid not in known)
        self.files = list(dict.fromkeys(nodeid.partition("::")[0] for nodeid in unknown))

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> None:
        """Where this process collects."""
        narrow(session.config, self.files)

    def ready(self, fresh: VendorStates | None) -> VendorStates:
        """What the processes that would run all of the cells say of their vendors.

        Args:
            fresh: what those say that collected some of them.
        """
        if fresh is None:
            return self.note.ready
        return msgspec.structs.replace(
            fresh, backends={**self.note.ready.backends, **fresh.backends}
        )


def narrow(config: pytest.Config, files: list[str]) -> None:
    """Have a process collect these files, relative to the root, and no others."""
    config.args = [str(config.rootpath / name) for name in files]


def foreseen(config: pytest.Config, reuse: Reuse) -> Listed | Narrowed | None:
    """A session that need not collect, as all of its cells are known, or that need not collect all
    of them; None where it must."""
    # Now: xdist has yet to start, and the plugin to add arguments for its workers.
    key = config.stash[_NUMBER] = _key(config, reuse)
    content = reuse.store.listing(key) if key and reuse.store is not None else None
    try:
        note = None if content is None else msgspec.json.decode(content, type=Note)
    except msgspec.MsgspecError:
        return None
    cells = {} if note is None else {each: cell_of(each) or "" for each in note.nodeids}
    if note is None or not cells or not all(cells.values()):
        return None
    known = reuse.stored(reuse.keys(note.ready.backends), cells)
    if len(known) == len(cells):
        return Listed(note, known)
    # A file's cells are all asked for, unless one is named; a farm hands out what was collected.
    named = any("::" in str(name) for name in config.args)
    if not known or named or config.getoption("cluster", None):
        return None
    config.stash[KNOWN], config.stash[NOTED] = known, note.nodeids
    return Narrowed(note, known)


def keep_note(config: pytest.Config, reuse: Reuse, note: Note) -> None:
    """Note what this session collected, where a later one may go by it."""
    key = config.stash.get(_NUMBER, "")
    if key and reuse.store is not None and not reuse.sources.changed():
        reuse.store.note(key, msgspec.json.encode(note))


def _key(config: pytest.Config, reuse: Reuse) -> str:
    """A number for what collection hangs on; empty where that cannot be said."""
    by_memory = any(config.getoption(name, None) for name in _BY_MEMORY)
    if reuse.store is None or reuse.run is not None or by_memory:
        return ""
    arguments = list(_telling(config))
    start, folders = config.invocation_params.dir, suite_folders(config)
    named = [(start / str(name).partition("::")[0]).resolve() for name in config.args]
    if any(text.startswith("@") for text in arguments) or not all(
        any(path.is_relative_to(folder.resolve()) for folder in folders) for path in named
    ):
        return ""  # tests of other folders may come and go
    sources = reuse.sources
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
        reuse.variables,
        platform_facts.describe_compilers(),
    ]  # fmt: skip
    return hashlib.sha256("\0".join(found).encode()).hexdigest()


def _telling(config: pytest.Config) -> Iterator[str]:
    """The arguments of the session, but for those that say nothing of which cells there are."""
    is_value = False
    for text in map(str, config.invocation_params.args):
        if is_value:
            is_value = False
        elif text in _ASIDE:
            is_value = True
        elif not text.startswith(tuple(f"{name}=" for name in _ASIDE)) and not (
            text.startswith("-n") and text[2:].isalnum()
        ):
            yield text.replace(str(config.rootpath), ".")
