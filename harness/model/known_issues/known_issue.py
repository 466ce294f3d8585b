"""KnownIssue: a known cause of failures, and the conditions that identify it."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

from harness.errors import LimitationError
from harness.model.known_issues.operator_names import base_name, find_operator_names
from harness.record.cell import Cell, KnownIssueRef, Status
from harness.record.host import describe_vectors
from harness.record.target import Target, matches_any_glob, matches_target
from harness.vendors.versions import is_installed_within

_SHOWN = 3
_SHORTEST_ERROR = 8


@dataclass(frozen=True)
class KnownIssue:
    """A known cause of failures. A red cell matches it if all given conditions hold.

    Attributes:
        cause: the defect and its place.
        target: glob over targets; several with ``|``.
        stage: the stage that fails; None for any.
        outcome: how the cell ends.
        error: regular expression that is found in the error.
        op: globs over base names of operators
            (:func:`~harness.model.known_issues.operator_names.base_name`), separated by ``|``; one
            must match the node that fails or is wrong. A cell whose node is not known matches no
            issue that names operators.
        arguments: regular expression that is found in the arguments of that node, which are
            joined with ``; ``: ``float32[1, 3, 8, 8] channels-last; approximate='tanh'``.
        frame: regular expression that is found in the vendor's line that raised.
        program: globs over base names of operators, one of which is in the program.
        calls: the least number of calls of such operators in the program.
        delegated: whether the node's operator is delegated; None for either.
        link: issue, page or source that shows it.
        workaround: a change of the model that avoids it; empty if none is known.
        host: globs over :func:`~harness.record.host.describe_vectors`.
        since: the first release of ExecuTorch that has it; empty for all.
        until: the first release after it that does not; empty while none is known.
    """

    cause: str
    target: str = "*"
    stage: str | None = None
    outcome: Status = Status.FAILED
    error: str = ""
    op: str = "*"
    arguments: str = ""
    frame: str = ""
    program: str = "*"
    calls: int = 1
    delegated: bool | None = None
    link: str = ""
    workaround: str = ""
    host: str = "*"
    since: str = ""
    until: str = ""

    def __post_init__(self) -> None:
        if self.op == "*" and not self.frame and len(self.error) < _SHORTEST_ERROR:
            raise LimitationError(
                f"known issue {self.cause[:60]!r} names neither an operator nor an error; any "
                f"failure would show it"
            )

    def is_shown_by(self, cell: Cell) -> bool:
        """Return whether a cell matches this issue, on this host and with this release."""
        return (
            cell.status is self.outcome
            and self.stage in (None, cell.stage)
            and matches_target(self.target, Target.parse(cell.target))
            and any(self._fits(fact, cell) for fact in _facts(cell))
            and re.search(self.frame, cell.vendor_frame) is not None
            and self._is_of_program(cell)
            and matches_any_glob(self.host, describe_vectors())
            and is_installed_within(self.since, self.until)
        )

    @property
    def ref(self) -> KnownIssueRef:
        """Return the entry of the record."""
        return KnownIssueRef(cause=self.cause, link=self.link, workaround=self.workaround)

    def _fits(self, fact: _Fact, cell: Cell) -> bool:
        if re.search(self.error, fact.error) is None:
            return False
        if self.op == "*":
            return not self.arguments or re.search(self.arguments, fact.arguments) is not None
        found = [name for name in fact.operators if _is_one_of(name, self.op)]
        return (
            bool(found)
            and re.search(self.arguments, fact.arguments) is not None
            and self.delegated in (None, _is_delegated(found, cell))
        )

    def _is_of_program(self, cell: Cell) -> bool:
        if self.program == "*":
            return True
        taken = cell.delegation
        found = sum(
            number
            for ops in (taken.delegated_ops, taken.undelegated_ops)
            for name, number in ops.items()
            if _is_one_of(base_name(name), self.program)
        )
        return found >= self.calls


class _Fact(NamedTuple):
    """An error, with the operators and the arguments of its node."""

    error: str
    operators: list[str]
    arguments: str


def find_known_issues(cell: Cell, issues: Iterable[KnownIssue]) -> list[KnownIssueRef]:
    """Return the known issues that a red cell matches, each cause once; a few at most.

    Args:
        cell: its record, with the failing node if it was found.
        issues: all known issues.
    """
    if not cell.status.is_red:
        return []
    found: dict[str, KnownIssueRef] = {}
    for issue in issues:
        # Several limitations of the same place are one cause.
        name = issue.link or issue.cause
        if name not in found and issue.is_shown_by(cell):
            found[name] = issue.ref
    return list(found.values())[:_SHOWN]


def _facts(cell: Cell) -> Iterator[_Fact]:
    node = cell.first_divergence
    error = cell.error or ""
    if node is None or (node.note and not node.fails):
        # A search that stopped early may have missed the node that is wrong.
        yield _Fact(error, [], "")
    else:
        yield _Fact(error, find_operator_names(node.op), "; ".join(node.arguments))
    for defect in cell.defects:
        yield _Fact(defect.error, find_operator_names(defect.op), "")


@functools.lru_cache(maxsize=4096)
def _is_one_of(name: str, globs: str) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs.split("|"))


def _is_delegated(names: Iterable[str], cell: Cell) -> bool | None:
    """Return whether all calls of some operators are delegated; None if only some are."""
    taken = {base_name(name) for name in cell.delegation.delegated_ops}
    left = {base_name(name) for name in cell.delegation.undelegated_ops}
    names = set(names)
    if names & taken and names & left:
        return None
    return bool(names & taken)
