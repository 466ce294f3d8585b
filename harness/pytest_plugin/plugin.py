"""Main module of the pytest plugin: options and registration of all parts.

Works in one process and with xdist workers. A single
:class:`~harness.pytest_plugin.controller.Controller` owns the run folder. Each worker has a
:class:`~harness.pytest_plugin.workers.watchdog.Watchdog` and attaches records to its reports.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.errors import ConflictingOptions, ConformError, UsageError
from harness.model import registry
from harness.model.selection import parse_list
from harness.pipeline import speed
from harness.pytest_plugin import hooks
from harness.pytest_plugin.cached.cached_cells import ReusedCellReporter
from harness.pytest_plugin.cached.changed_since import (
    CHANGED,
    CHANGED_INPUT,
    ChangedSelection,
    list_changed_files,
)
from harness.pytest_plugin.cached.session_cache import SessionCache
from harness.pytest_plugin.cached.uncollected import (
    FILES_INPUT,
    restrict_collection,
    skip_cached_collection,
)
from harness.pytest_plugin.controller import Controller
from harness.pytest_plugin.coverage_recording import prepare_coverage
from harness.pytest_plugin.durations import DurationRecorder
from harness.pytest_plugin.item_selection import ItemSelection
from harness.pytest_plugin.items import (
    AVAILABLE_MEMORY,
    FOLDER_INPUT,
    MEMORY_INPUT,
    REQUIRED_DELEGATION,
    SELECTED,
)
from harness.pytest_plugin.nightly import TIERS_INI
from harness.pytest_plugin.options import OPTIONS, add_to_parser
from harness.pytest_plugin.progress import Progress
from harness.pytest_plugin.run_start import check_required_delegation
from harness.pytest_plugin.vacuous import get_vacuous_policy
from harness.pytest_plugin.worker_setup import WorkerSetup
from harness.pytest_plugin.workers.forked_workers import ForkedWorkers
from harness.pytest_plugin.workers.watchdog import Watchdog
from harness.record.contradictions import INTEGERS
from harness.record.folder import check_writable, name_new_folder
from harness.record.host import available_memory
from harness.record.target import Target
from harness.session.result_cache.dependencies import Sources
from harness.vendors.quiet import quiet_imports

_PLUGINS, _PUBLIC = "PYTEST_PLUGINS", "harness.pytest_plugin"
# Each native crash ends a worker; xdist's limit of 4 restarts per worker would end the run.
_WORKER_RESTARTS = 500


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and ini options of a conformance run."""
    add_to_parser(parser.getgroup("conform", "ExecuTorch conformance"), OPTIONS)
    parser.addini("conform_suites", "folders whose modules declare CASES", "args", ["suites"])
    parser.addini(TIERS_INI, "tags that -m selects completely, nightly cells included", "args")
    parser.addini(
        "conform_vacuous",
        "report (warn) or fail (error) on vacuous passes of cases without a reason, "
        "Case(vacuous=...) (default: warn)",
        "string",
        "warn",
    )
    parser.addini("conform_untelling", "deprecated name of conform_vacuous", "string", "")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Register the hooks, before xdist asks for the number of workers.

    Does nothing in a project without a folder of suites.
    """
    if hooks.list_suite_folders(config):
        config.pluginmanager.register(hooks, "conform-hooks")
        is_fork_disabled = config.getoption("conform_fresh_workers") or config.getoption(
            "conform_no_speed"
        )
        if config.getoption("numprocesses", 0) and not is_fork_disabled:
            config.pluginmanager.register(ForkedWorkers(), "conform-forked-workers")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Check targets and options, choose the run folder, and register all parts."""
    if not config.pluginmanager.has_plugin("conform-hooks"):
        return
    config.addinivalue_line("markers", "nightly: selected by -m nightly")
    quiet_imports()
    try:
        _prepare_targets(config)
        _check_options(config)
        session_cache = None if hasattr(config, "workerinput") else _create_session_cache(config)
        _register_changed_selection(config)
        prepare_coverage(config)
    except ConformError as error:
        raise pytest.UsageError(str(error)) from error
    config.pluginmanager.register(ItemSelection(config), "conform-selection")
    if session_cache is None:
        _configure_worker(config)
    else:
        _configure_controller(config, session_cache)


def _prepare_targets(config: pytest.Config) -> None:
    """Parse the options that name targets, and check the targets."""
    selected = config.stash[SELECTED] = _parse_targets(config, "--targets")
    config.stash[REQUIRED_DELEGATION] = frozenset(
        _parse_targets(config, "--require-delegation") or ()
    )
    if selected is not None:
        check_required_delegation(config, selected)


def _configure_worker(config: pytest.Config) -> None:
    """Take the settings of the controller, and register the plugins of an xdist worker."""
    received = config.workerinput  # type: ignore[attr-defined]
    config.option.conform_run_dir = received[FOLDER_INPUT]
    config.stash[AVAILABLE_MEMORY] = received[MEMORY_INPUT]
    if received[FILES_INPUT] is not None:
        restrict_collection(config, received[FILES_INPUT])
    config.pluginmanager.register(Watchdog(config), "conform-watchdog")


def _configure_controller(config: pytest.Config, session_cache: SessionCache) -> None:
    """Choose the run folder, and register the plugins of the process that writes records."""
    _load_in_workers(config)
    if not config.getoption("conform_run_dir"):
        config.option.conform_run_dir = str(name_new_folder(config.rootpath / "runs"))
    config.stash[AVAILABLE_MEMORY] = available_memory()
    if getattr(config.option, "maxworkerrestart", "") is None:
        config.option.maxworkerrestart = str(_WORKER_RESTARTS)
    controller, register = Controller(config, session_cache), config.pluginmanager.register
    register(controller, "conform-controller")
    register(controller.watch, "conform-worker-watch")
    register(WorkerSetup(config), "conform-worker-setup")
    register(ReusedCellReporter(), "conform-reused")
    register(DurationRecorder(config), "conform-durations")
    if (mode := config.getoption("conform_progress")) != "dots":
        register(Progress(config, live=mode == "live"), "conform-progress")
    skip_cached_collection(config, session_cache)


def _load_in_workers(config: pytest.Config) -> None:
    """Make workers load the plugin before they parse options.

    pytest reads conftest.py next to the given paths. A worker that mistakes the value of an option
    for a path would not find the plugin.
    """
    before = os.environ.get(_PLUGINS)
    os.environ[_PLUGINS] = ",".join(filter(None, (before, _PUBLIC)))

    def restore() -> None:
        if before is None:
            os.environ.pop(_PLUGINS, None)
        else:
            os.environ[_PLUGINS] = before

    config.add_cleanup(restore)


def _create_session_cache(config: pytest.Config) -> SessionCache:
    """Create the session cache, and check that the run folder can be written."""
    folder, resumed = config.getoption("conform_run_dir"), config.getoption("conform_resume")
    if resumed and folder and Path(folder).resolve() != Path(resumed).resolve():
        raise ConflictingOptions("--resume writes to the folder of its run; leave out --run-dir")
    if folder and not resumed:
        check_writable(Path(folder))
    config.option.conform_run_dir = resumed or folder
    return SessionCache(config)


def _register_changed_selection(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        named = config.workerinput[CHANGED_INPUT]
        changed = None if named is None else [Path(name) for name in named]
    else:
        revision = config.getoption("conform_changed_since")
        changed = list_changed_files(config.rootpath, revision) if revision else None
    if changed is not None:
        sources = Sources(hooks.list_suite_folders(config), config.rootpath)
        config.stash[CHANGED] = ChangedSelection(sources, changed)
        config.pluginmanager.register(config.stash[CHANGED], "conform-changed")


def _check_options(config: pytest.Config) -> None:
    seed = config.getoption("conform_seed")
    if seed not in INTEGERS:
        raise UsageError(f"--seed of {seed.bit_length()} bits does not fit 64 bits with a sign")
    if config.getoption("conform_lower_only") and config.getoption("conform_compare_runtimes"):
        raise ConflictingOptions("--lower-only executes nothing; leave out --compare-runtimes")
    if config.getini("conform_untelling"):
        note = "the ini option conform_untelling is deprecated; rename it to conform_vacuous"
        config.issue_config_time_warning(DeprecationWarning(note), stacklevel=2)
    if (policy := get_vacuous_policy(config)) not in ("warn", "error"):
        raise UsageError(f"conform_vacuous is {policy!r}; use warn or error")
    speed.read_excluded_parts()  # raises on unknown names
    if config.getoption("conform_compare_runtimes"):
        selected = config.stash[SELECTED]
        registry.require_two_runtimes(registry.default_targets() if selected is None else selected)


def _parse_targets(config: pytest.Config, option: str) -> list[Target] | None:
    """Parse the targets of an option; None if it was not given."""
    text = config.getoption(option)
    return None if text is None else parse_list(text, option)
