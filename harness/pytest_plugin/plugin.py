"""The pytest plugin: options, collection, transport of records, crashes and timeouts as rows.

Works in one process and under xdist. One :class:`~harness.pytest_plugin.controller.Controller` owns
the run folder; each worker has a :class:`~harness.pytest_plugin.workers.watchdog.Watchdog` and
attaches its records to its reports.
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
from harness.pytest_plugin.cached.cached_cells import Telling
from harness.pytest_plugin.cached.changed_since import (
    CHANGED,
    CHANGED_INPUT,
    OnlyChanged,
    changed_since,
)
from harness.pytest_plugin.cached.session_cache import Reuse
from harness.pytest_plugin.cached.uncollected import FILES_INPUT, Listed, Narrowed, foreseen, narrow
from harness.pytest_plugin.controller import Controller, check_demanded, vacuous_policy
from harness.pytest_plugin.durations import Durations
from harness.pytest_plugin.item_selection import Choosing
from harness.pytest_plugin.items import (
    DEMANDING,
    FOLDER_INPUT,
    ROOM,
    ROOM_INPUT,
    SELECTED,
)
from harness.pytest_plugin.nightly import TIERS
from harness.pytest_plugin.options import OPTIONS, add_to_parser
from harness.pytest_plugin.progress import Progress
from harness.pytest_plugin.workers import fork_server
from harness.pytest_plugin.workers.watchdog import Watchdog
from harness.record.contradictions import INTEGERS
from harness.record.folder import check_writable, name_new_folder
from harness.record.host import available_memory
from harness.record.target import Target
from harness.session.result_cache.dependencies import Sources
from harness.vendors.quiet import quiet_imports

_PLUGINS, _PUBLIC = "PYTEST_PLUGINS", "harness.pytest_plugin"
# Each native crash costs a worker; xdist's own limit of 4 a worker would end the run.
_WORKER_RESTARTS = 500


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of a conformance run."""
    add_to_parser(parser.getgroup("conform", "ExecuTorch conformance"), OPTIONS)
    parser.addini("conform_suites", "folders whose modules declare CASES", "args", ["suites"])
    parser.addini(
        TIERS, "tags that -m takes whole, cells that are left to the night included", "args"
    )
    parser.addini(
        "conform_vacuous",
        "report (warn) or fail (error) on vacuous passes of cases without a reason, "
        "Case(vacuous=...); default: warn",
        "string",
        "warn",
    )
    parser.addini("conform_untelling", "deprecated name of conform_vacuous", "string", "")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Take part, before xdist asks how many workers there should be.

    The plugin is installed with the package, so that every session of the environment has it: one
    of a project without a folder of suites is left as it is.
    """
    if hooks.suite_folders(config):
        config.pluginmanager.register(hooks, "conform-hooks")
        anew = config.getoption("fresh_workers") or config.getoption("no_speed")
        if fork_server.is_possible() and not anew:
            asked = config.getoption("numprocesses", 0)
            # "auto" is a worker for each core.
            workers = asked if isinstance(asked, int) else os.cpu_count() or 1
            if asked:
                fork_server.install(workers)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Check the targets, and choose the run folder, of which workers are told."""
    if not config.pluginmanager.has_plugin("conform-hooks"):
        return
    config.addinivalue_line("markers", "nightly: too long for every change")
    quiet_imports()
    try:
        if not config.getoption("no_speed"):
            speed.prepare()
        selected = config.stash[SELECTED] = _listed(config, "--targets")
        config.stash[DEMANDING] = frozenset(_listed(config, "--require-delegation") or ())
        if selected is not None:
            check_demanded(config, selected)
        _check_options(config)
        if config.getoption("compare_runtimes"):
            plain = registry.default_targets() if selected is None else selected
            registry.require_two_runtimes(plain)
        reuse = None if hasattr(config, "workerinput") else _reuse(config)
        _leave_out_unchanged(config)
    except ConformError as error:
        raise pytest.UsageError(str(error)) from error
    config.pluginmanager.register(Choosing(config), "conform-choosing")
    if reuse is None:
        given = config.workerinput  # type: ignore[attr-defined]
        config.option.run_dir, config.stash[ROOM] = given[FOLDER_INPUT], given[ROOM_INPUT]
        if given[FILES_INPUT] is not None:
            narrow(config, given[FILES_INPUT])
        config.pluginmanager.register(Watchdog(config), "conform-watchdog")
    else:
        _name_in_workers(config)
        if not config.getoption("run_dir"):
            config.option.run_dir = str(name_new_folder(config.rootpath / "runs"))
        config.stash[ROOM] = available_memory()
        if getattr(config.option, "maxworkerrestart", "") is None:
            config.option.maxworkerrestart = str(_WORKER_RESTARTS)
        config.pluginmanager.register(Controller(config, reuse), "conform-controller")
        config.pluginmanager.register(Telling(), "conform-telling")
        config.pluginmanager.register(Durations(config), "conform-durations")
        if (mode := config.getoption("progress")) != "dots":
            config.pluginmanager.register(Progress(config, live=mode == "live"), "conform-progress")
        match foreseen(config, reuse):
            case Listed() as listed:
                config.pluginmanager.register(listed, "conform-listed")
                config.option.dist, config.option.tx = "no", []  # xdist asks after this
            case Narrowed() as narrowed:
                config.pluginmanager.register(narrowed, "conform-narrowed")


def _name_in_workers(config: pytest.Config) -> None:
    """Have workers load the plugin before they read the options.

    pytest reads conftest.py beside the paths that it is given. A worker that takes the value of an
    option for a path would not find the plugin there.
    """
    before = os.environ.get(_PLUGINS)
    os.environ[_PLUGINS] = ",".join(filter(None, (before, _PUBLIC)))

    def restore() -> None:
        if before is None:
            os.environ.pop(_PLUGINS, None)
        else:
            os.environ[_PLUGINS] = before

    config.add_cleanup(restore)


def _reuse(config: pytest.Config) -> Reuse:
    """What the process of the records need not have run; and that it can write where it is to."""
    folder, resumed = config.getoption("run_dir"), config.getoption("resume")
    if resumed and folder and Path(folder).resolve() != Path(resumed).resolve():
        raise ConflictingOptions("--resume writes to the folder of its run; leave out --run-dir")
    if folder and not resumed:
        check_writable(Path(folder))
    config.option.run_dir = resumed or folder
    return Reuse(config)


def _leave_out_unchanged(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        named = config.workerinput[CHANGED_INPUT]
        changed = None if named is None else [Path(name) for name in named]
    else:
        revision = config.getoption("changed_since")
        changed = changed_since(config.rootpath, revision) if revision else None
    if changed is not None:
        sources = Sources(hooks.suite_folders(config), config.rootpath)
        config.stash[CHANGED] = OnlyChanged(sources, changed)
        config.pluginmanager.register(config.stash[CHANGED], "conform-changed")


def _check_options(config: pytest.Config) -> None:
    seed = config.getoption("seed")
    if seed not in INTEGERS:
        raise UsageError(f"--seed of {seed.bit_length()} bits does not fit 64 bits with a sign")
    if config.getoption("lower_only") and config.getoption("compare_runtimes"):
        raise ConflictingOptions("--lower-only executes nothing; leave out --compare-runtimes")
    if config.getini("conform_untelling"):
        note = "the ini option conform_untelling is deprecated; rename it to conform_vacuous"
        config.issue_config_time_warning(DeprecationWarning(note), stacklevel=2)
    if (policy := vacuous_policy(config)) not in ("warn", "error"):
        raise UsageError(f"conform_vacuous is {policy!r}; use warn or error")
    speed.read_excluded_parts()  # says which name is none


def _listed(config: pytest.Config, option: str) -> list[Target] | None:
    """The targets that an option lists; None when it was not given, which is not the same as an
    empty list."""
    text = config.getoption(option)
    return None if text is None else parse_list(text, option)
