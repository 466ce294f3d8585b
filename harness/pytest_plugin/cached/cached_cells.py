"""The cells of a session that need not run, and their reports.

Whoever hands cells to those who run them asks here, in the process that writes the records, once
that has collected: :func:`known` has the node ids to leave out, :func:`tell` makes their reports,
from which everything follows that follows from a cell's end: its record, counts, progress, claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import pytest

from harness.pytest_plugin.items import report_of
from harness.record.cell import Cell
from harness.session.stale_limitations import LimitationClaim

KNOWN: pytest.StashKey[dict[str, Known]] = pytest.StashKey()


# All tests of a session of which only some are collected: the others are known.
NOTED: pytest.StashKey[list[str]] = pytest.StashKey()


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """A cell that need not run.

    Attributes:
        cell: its record.
        claim: what it says of its limitation.
        is_recorded: the run's folder has the record already.
    """

    cell: Cell
    claim: LimitationClaim | None = None
    is_recorded: bool = False


def known(config: pytest.Config) -> Mapping[str, Known]:
    """The cells of this session that need not run, by node id; empty in workers, and before the
    session's tests are known."""
    return config.stash.get(KNOWN, {})


def whole(config: pytest.Config, collected: Sequence[str]) -> list[str]:
    """The node ids of all tests of this session, those included that are known and were not even
    collected.

    Args:
        config: of the process that writes the records.
        collected: what was.
    """
    return list(dict.fromkeys([*config.stash.get(NOTED, ()), *collected]))


def tell(config: pytest.Config, nodeids: Iterable[str] | None = None) -> None:
    """Report the cells that need not run, as if each had ended now.

    Args:
        config: of the process that writes the records.
        nodeids: which of them; all by default. Each is to be told once.
    """
    there = known(config)
    session = config.pluginmanager.get_plugin("session")
    if session is not None:  # by which pytest counts how far it is
        noted = len(config.stash.get(NOTED, ()))
        session.testscollected = max(session.testscollected, noted)
    for nodeid in there if nodeids is None else nodeids:
        file, _, name = nodeid.rpartition("::")
        location = (file, None, name)
        config.hook.pytest_runtest_logstart(nodeid=nodeid, location=location)
        report = _report(nodeid, there[nodeid], config)
        config.hook.pytest_runtest_logreport(report=report)
        config.hook.pytest_runtest_logfinish(nodeid=nodeid, location=location)


class Telling:
    """Where this process runs the cells itself: those that need not run are told in their turn."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """First those that have no item here."""
        if session.config.option.dist == "no" and not session.config.option.collectonly:
            items = {item.nodeid for item in session.items}
            tell(session.config, [each for each in known(session.config) if each not in items])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """In place of running it."""
        if item.nodeid not in known(item.config):
            return None
        tell(item.config, [item.nodeid])
        return True


def _report(nodeid: str, found: Known, config: pytest.Config) -> pytest.TestReport:
    claim = None if found.claim is None else found.claim.to_json()
    place = (nodeid.rpartition("::")[0], None, nodeid.rpartition("::")[2])
    return report_of(nodeid, place, found.cell, claim, verbose=config.getoption("verbose"))
