"""Hooks of a session with suites: collection, number of workers, scheduling, speed parts.

The plugin registers this module only if the project has suites.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from harness.pytest_plugin.cached.changed_since import CHANGED
from harness.pytest_plugin.items import CellItem, SuiteFile, pause_garbage_collector
from harness.record.host import available_cores, available_memory
from harness.session.discovery import is_suite
from harness.session.run_one import ignore_vendor_warnings
from harness.workers.memory import GIB


def list_suite_folders(config: pytest.Config) -> list[Path]:
    """List the existing folders whose modules may declare cases."""
    named = (config.rootpath / name for name in config.getini("conform_suites"))
    return [folder for folder in named if folder.is_dir()]


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> SuiteFile | None:
    """Collect modules with ``CASES`` below the suite folders."""
    folders = list_suite_folders(parent.config)
    if any(folder in file_path.parents for folder in folders) and is_suite(file_path):
        if _is_unchanged(parent.config, file_path):
            return None
        node: SuiteFile = SuiteFile.from_parent(parent, path=file_path)
        return node
    return None


def _is_unchanged(config: pytest.Config, module: Path) -> bool:
    """Whether ``--changed-since`` excludes a whole module, so that it need not be imported.

    With node ids on the command line it is imported, so that pytest finds deselected cells.
    """
    only = config.stash.get(CHANGED, None)
    named = any("::" in str(name) for name in config.args)
    return only is not None and not named and not only.is_affected(module, None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse two cases with the same name: their records would be ambiguous."""
    seen: dict[str, str] = {}
    for item in items:
        if isinstance(item, CellItem):
            other = seen.setdefault(item.name, item.nodeid)
            if other != item.nodeid:
                raise pytest.UsageError(f"cell {item.name} is in {other} and in {item.nodeid}")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect without garbage collection, as collecting mostly imports modules."""
    with (
        nullcontext() if session.config.getoption("conform_no_speed") else pause_garbage_collector()
    ):
        return (yield)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Install the speed parts if this process is going to lower programs."""
    lowers = any(isinstance(item, CellItem) for item in session.items)
    # Self-tests that lower programs have imported the tester by now.
    lowers = lowers or "harness.pipeline.tester" in sys.modules
    if (
        lowers
        and not session.config.option.collectonly
        and not session.config.option.conform_no_speed
    ):
        from harness.pipeline import speed

        with ignore_vendor_warnings():
            speed.install(complete=session.config.option.conform_coverage)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Unregister Hypothesis' plugin if unused, as its summary imports Hypothesis (0.25 s)."""
    plugins = session.config.pluginmanager
    if "hypothesis" not in sys.modules and plugins.hasplugin("hypothesispytest"):
        plugins.unregister(name="hypothesispytest")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Use one worker per core, if there is ``--cell-memory`` for each."""
    each = GIB * config.getoption("conform_cell_memory")
    return max(1, min(available_cores(), int(available_memory() / each)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the cells of one case on one worker; any worker may run other tests."""
    from harness.pytest_plugin.workers.scheduler import CaseScheduler

    return CaseScheduler(config, log)
