"""Limitation: an expected failure with its cause; strict in both directions.

An entry matches cells by case, operator, tag and target. A matching cell still runs. If it fails
as the entry predicts, it is ``xfailed`` (or ``unsupported``); if it passes, it is ``xpassed``,
which is red; if it fails in another way, it stays red. An entry that matches no cell is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain

from harness.errors import LimitationError
from harness.model.case import Case
from harness.record.cell import Cell, LimitationRef, Status
from harness.record.host import describe_vectors
from harness.record.target import Target, matches_any_glob, matches_target
from harness.vendors.versions import is_installed_within, release_numbers

_PREDICTABLE = frozenset({Status.FAILED, Status.MISMATCH, Status.CRASHED, Status.TIMEOUT})
NOT_RUN_ERROR = "not run: the limitation says that running it would hurt other cells"
"""The error of a cell that does not run because of its limitation."""
_SHOWN_AS = frozenset({Status.XFAILED, Status.UNSUPPORTED})


@dataclass(frozen=True)
class Limitation:
    """One expected failure.

    Attributes:
        target: globs over ``backend:recipe``, separated by ``|``. They also match the recipe with
            added or removed passes; such a cell may pass.
        case: globs over case names, separated by ``|``.
        reason: the upstream cause: what is wrong, and where.
        link: issue, specification or source that shows the cause.
        op: glob over ``Case.op``.
        tag: a tag the case must carry, such as a dtype.
        stage: the stage that must fail; None for any.
        error: text that the error must contain; empty for any.
        or_fails: further pairs of such a stage and text, where one defect shows in several ways.
        outcome: the failing status that is expected.
        shown_as: ``XFAILED`` for a defect, ``UNSUPPORTED`` for a feature that the backend does not
            claim to support.
        host: globs over :func:`~harness.record.host.describe_vectors`, such as ``x86_64/*``,
            separated by ``|``; the entry does not apply on other hosts. For kernels that are chosen
            by processor features.
        seed: the run seed whose values fail for certain; with other seeds a pass is accepted. None
            if every seed fails.
        since: the first affected release of ExecuTorch, such as ``1.5.0``; empty if all supported
            earlier releases are affected.
        until: the first later release that is not affected; empty while none is known. The entry
            does not apply to other releases.
        run: False if running the cell would harm other cells (hangs, exhausts memory).
    """

    target: str
    case: str
    reason: str
    link: str | None = None
    op: str = "*"
    tag: str | None = None
    stage: str | None = None
    error: str = ""
    or_fails: tuple[tuple[str, str], ...] = ()
    outcome: Status = Status.FAILED
    shown_as: Status = Status.XFAILED
    host: str = "*"
    seed: int | None = None
    since: str = ""
    until: str = ""
    run: bool = True

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise LimitationError(f"limitation of {self.case} on {self.target} has no reason")
        if self.outcome not in _PREDICTABLE:
            raise LimitationError(f"a limitation cannot predict {self.outcome.value!r}")
        if self.shown_as not in _SHOWN_AS:
            raise LimitationError(f"a limitation cannot show as {self.shown_as.value!r}")
        if self.since and self.until and release_numbers(self.since) >= release_numbers(self.until):
            raise LimitationError(
                f"limitation of {self.case} on {self.target}: there is no release since "
                f"{self.since} and before {self.until}"
            )

    def matches(self, case: Case, target: Target) -> bool:
        """Whether the entry applies to this cell, on this host and with this release."""
        return (
            self.matches_case(case)
            and matches_target(self.target, target)
            and matches_any_glob(self.host, describe_vectors())
            and is_installed_within(self.since, self.until)
        )

    def matches_case(self, case: Case) -> bool:
        """Whether the entry applies to a case, on some target."""
        return (
            matches_any_glob(self.case, case.name)
            and fnmatchcase(case.op, self.op)
            and (self.tag is None or self.tag in case.tags)
        )

    def predicts(self, status: Status, stage: str | None, error: str | None) -> bool:
        """Whether a cell with this ending failed as the entry predicts."""
        return status is self.outcome and any(
            (where is None or stage == where) and text in (error or "")
            for where, text in ((self.stage, self.error), *self.or_fails)
        )

    def forbids_pass(self, cell: Cell) -> bool:
        """Whether this cell must not pass.

        With another seed, or on a target with passes, settings or several backends that the entry
        does not name, it may.
        """
        if self.seed not in (None, cell.seed):
            return False
        target = Target.parse(cell.target)
        is_plain = not target.passes and not target.is_mixed
        return is_plain or cell.target in self.target.split("|")

    @property
    def ref(self) -> LimitationRef:
        """The entry of the record."""
        return LimitationRef(reason=self.reason, link=self.link)


def find_limitation(
    limitations: Iterable[Limitation], case: Case, target: Target
) -> Limitation | None:
    """Return the first entry that applies to this cell, on this host and with this release."""
    return next((entry for entry in limitations if entry.matches(case, target)), None)


def apply_limitation(cell: Cell, limitation: Limitation | None) -> Cell:
    """Apply a limitation to the outcome of a cell, and return the cell."""
    if limitation is None:
        return cell
    if limitation.predicts(cell.status, cell.stage, cell.error):
        cell.status = limitation.shown_as
        cell.limitation = limitation.ref
    elif cell.status is Status.PASSED and limitation.forbids_pass(cell):
        cell.status = Status.XPASSED
        cell.limitation = limitation.ref
        cell.error = "passed although a limitation says it cannot; remove or narrow the entry"
    return cell


def find_closed(limitations: Iterable[Limitation], oldest: str) -> list[Limitation]:
    """Return entries that apply to no supported release any more.

    Args:
        limitations: all entries.
        oldest: the oldest supported release.
    """
    return [
        entry
        for entry in limitations
        if entry.until and oldest and release_numbers(entry.until) <= release_numbers(oldest)
    ]


def find_unmatched(
    limitations: Iterable[Limitation], cases: Sequence[Case], targets: Sequence[Target]
) -> list[Limitation]:
    """Return entries that match no cell of ``cases`` × ``targets``, on any host and release."""
    by_name = {case.name: case for case in cases}

    def has_case(entry: Limitation) -> bool:
        spelled = [by_name[name] for name in entry.case.split("|") if name in by_name]
        return any(map(entry.matches_case, chain(spelled, cases)))

    return [
        entry
        for entry in limitations
        if not (has_case(entry) and any(matches_target(entry.target, target) for target in targets))
    ]
