"""Reports the cells of a session that need not run.

In the process that writes records, schedulers skip the cells of :func:`get_reused_cells`, and call
:func:`report_reused_cells`, which creates their test reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import pytest

from harness.pytest_plugin.items import make_report
from harness.record.cell import Cell
from harness.session.stale_limitations import LimitationClaim

REUSED: pytest.StashKey[dict[str, ReusedCell]] = pytest.StashKey()


# Node ids of all tests of a session that collects only files with cells to run.
ALL_TESTS: pytest.StashKey[list[str]] = pytest.StashKey()


class ReusedCell(msgspec.Struct, frozen=True, kw_only=True):
    """A cell that need not run.

    Attributes:
        cell: record of the cell.
        claim: claim about its known issue.
        is_recorded: whether the run folder has the record already.
    """

    cell: Cell
    claim: LimitationClaim | None = None
    is_recorded: bool = False


def get_reused_cells(config: pytest.Config) -> Mapping[str, ReusedCell]:
    """Return the cells that need not run, by node id.

    The result is empty in workers, and before the tests of the session are known.
    """
    return config.stash.get(REUSED, {})


def list_all_tests(config: pytest.Config, collected: Sequence[str]) -> list[str]:
    """List the node ids of all tests of this session, including reused cells of files that were not
    collected.

    Args:
        config: configuration of the process that writes records.
        collected: collected node ids.
    """
    return list(dict.fromkeys([*config.stash.get(ALL_TESTS, ()), *collected]))


def report_reused_cells(config: pytest.Config, nodeids: Iterable[str] | None = None) -> None:
    """Report reused cells to pytest, as if each had ended now.

    Args:
        config: configuration of the process that writes records.
        nodeids: cells to report; default: all. Report each cell only once.
    """
    reused = get_reused_cells(config)
    session = config.pluginmanager.get_plugin("session")
    if session is not None:  # pytest's progress needs the total
        count = len(config.stash.get(ALL_TESTS, ()))
        session.testscollected = max(session.testscollected, count)
    for nodeid in reused if nodeids is None else nodeids:
        file, _, name = nodeid.rpartition("::")
        location = (file, None, name)
        config.hook.pytest_runtest_logstart(nodeid=nodeid, location=location)
        report = _report(nodeid, reused[nodeid], config)
        config.hook.pytest_runtest_logreport(report=report)
        config.hook.pytest_runtest_logfinish(nodeid=nodeid, location=location)


class ReusedCellReporter:
    """Reports reused cells in a process that runs cells itself."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Report reused cells without an item."""
        if session.config.option.dist == "no" and not session.config.option.collectonly:
            items = {item.nodeid for item in session.items}
            report_reused_cells(
                session.config,
                [each for each in get_reused_cells(session.config) if each not in items],
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Report a reused cell instead of running it."""
        if item.nodeid not in get_reused_cells(item.config):
            return None
        report_reused_cells(item.config, [item.nodeid])
        return True


def _report(nodeid: str, found: ReusedCell, config: pytest.Config) -> pytest.TestReport:
    claim = None if found.claim is None else found.claim.to_json()
    place = (nodeid.rpartition("::")[0], None, nodeid.rpartition("::")[2])
    return make_report(nodeid, place, found.cell, claim, verbose=config.getoption("verbose"))
