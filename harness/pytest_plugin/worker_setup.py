"""The memory that the cells of a session may use, and the input of xdist workers."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from harness.pytest_plugin.cached.cached_cells import get_reused_cells
from harness.pytest_plugin.cached.changed_since import CHANGED, CHANGED_INPUT
from harness.pytest_plugin.cached.uncollected import CACHED_COLLECTION, FILES_INPUT
from harness.pytest_plugin.items import AVAILABLE_MEMORY, FOLDER_INPUT, MEMORY_INPUT, CellItem
from harness.workers.memory import GIB, limit_allocations


class WorkerSetup:
    """Prepares the processes that run cells; registered in the process that writes records."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_report_header(self) -> str | None:
        """Tell the user if workers will wait for memory."""
        workers = len(getattr(self.config.option, "tx", None) or ())
        each, room = (
            self.config.getoption("conform_cell_memory"),
            self.config.stash[AVAILABLE_MEMORY] / GIB,
        )
        if workers < 2 or workers * each <= room:
            return None
        return (
            f"conform: cells of {workers} workers wait for each other: {each:g} GiB each "
            f"(--cell-memory), {room:.1f} GiB available"
        )

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_setupnodes(self) -> None:
        """Pass the root and ini file to workers.

        A replaced worker would otherwise search for them, and mistake the run folder, which exists
        by then, for a folder of tests.
        """
        given = self.config.invocation_params
        root = ["--rootdir", str(self.config.rootpath)]
        root += ["-c", str(self.config.inipath)] if self.config.inipath else []
        self.config.invocation_params = pytest.Config.InvocationParams(
            args=[*given.args, *root], plugins=given.plugins, dir=given.dir
        )

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Pass run folder, memory limit and collection to a worker."""
        stash = self.config.stash
        cached, only = stash.get(CACHED_COLLECTION, None), stash.get(CHANGED, None)
        node.workerinput[MEMORY_INPUT] = stash[AVAILABLE_MEMORY]
        node.workerinput[FOLDER_INPUT] = self.config.getoption("conform_run_dir")
        node.workerinput[FILES_INPUT] = None if cached is None else cached.files
        node.workerinput[CHANGED_INPUT] = None if only is None else sorted(map(str, only.files))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, bool, bool]:
        """Without xdist, refuse allocations beyond the available memory: no worker can be ended."""
        if not isinstance(item, CellItem) or item.nodeid in get_reused_cells(self.config):
            return (yield)
        with limit_allocations(self.config.stash[AVAILABLE_MEMORY]):
            return (yield)
