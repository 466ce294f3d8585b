"""Limitation: a known gap as data, with its reason; strict in both directions.

An entry matches cells by case, operator, dtype tag and target. A matching cell still runs.
If it fails the way the entry predicts, it is ``xfailed`` (or ``unsupported``); if it passes it
is ``xpassed``, which is red; if it fails another way it stays red. An entry that matches no
cell at all is an error.
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
"""The error of a cell that a limitation keeps from running."""
_SHOWN_AS = frozenset({Status.XFAILED, Status.UNSUPPORTED})


@dataclass(frozen=True)
class Limitation:
    """One known gap.

    Attributes:
        target: glob over ``backend:recipe``; several with ``|``. What it says of a recipe it says
            of one with a pass more or less, which may yet pass.
        case: glob over case names; several with ``|``.
        reason: what is wrong and where, naming the upstream cause.
        link: issue, specification or source that shows it.
        op: glob over ``Case.op``.
        tag: a tag the case must carry, such as a dtype.
        stage: the stage that must fail; None for any.
        error: text that the error must contain; empty for any.
        outcome: the failing status that is expected.
        shown_as: ``XFAILED`` for a defect, ``UNSUPPORTED`` for something the backend does
            not claim to do.
        host: globs over :func:`~harness.record.host.describe_vectors`, such as ``x86_64/*``,
            separated by ``|``; the entry does not apply on other hosts. For kernels that are chosen
            by processor features.
        seed: the run seed whose values show it for certain; with others a pass is a pass. None
            where every seed shows it.
        since: the first release of ExecuTorch that has the gap, such as ``1.5.0``; empty where all
            that are supported before do.
        until: the first release after it that does not; empty while none is known. Where another
            release is installed, the entry says nothing.
        run: False when running the cell would hurt others (hangs, exhausts memory).
    """

    target: str
    case: str
    reason: str
    link: str | None = None
    op: str = "*"
    tag: str | None = None
    stage: str | None = None
    error: str = ""
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
        """Whether the entry speaks of this cell, on this host and with this release."""
        return (
            self.matches_case(case)
            and matches_target(self.target, target)
            and matches_any_glob(self.host, describe_vectors())
            and is_installed_within(self.since, self.until)
        )

    def matches_case(self, case: Case) -> bool:
        """Whether it speaks of a case, on whatever target."""
        return (
            matches_any_glob(self.case, case.name)
            and fnmatchcase(case.op, self.op)
            and (self.tag is None or self.tag in case.tags)
        )

    def predicts(self, status: Status, stage: str | None, error: str | None) -> bool:
        """Whether a cell that ended like this failed in the way this entry says."""
        return (
            status is self.outcome
            and (self.stage is None or stage == self.stage)
            and self.error in (error or "")
        )

    def forbids_pass(self, cell: Cell) -> bool:
        """Whether this cell must not pass. With other values, or with a pass more or less that the
        entry does not spell, a gap may be gone."""
        if self.seed not in (None, cell.seed):
            return False
        return not Target.parse(cell.target).passes or cell.target in self.target.split("|")

    @property
    def ref(self) -> LimitationRef:
        """What the record keeps."""
        return LimitationRef(reason=self.reason, link=self.link)


def find_limitation(
    limitations: Iterable[Limitation], case: Case, target: Target
) -> Limitation | None:
    """The first entry that speaks of this cell, on this host and with this release."""
    return next((entry for entry in limitations if entry.matches(case, target)), None)


def apply_limitation(cell: Cell, limitation: Limitation | None) -> Cell:
    """Turn the outcome of a cell into what its limitation makes of it."""
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
    """Entries of gaps that no supported release has any more.

    Args:
        limitations: all of them.
        oldest: the oldest release that is supported.
    """
    return [
        entry
        for entry in limitations
        if entry.until and oldest and release_numbers(entry.until) <= release_numbers(oldest)
    ]


def find_unmatched(
    limitations: Iterable[Limitation], cases: Sequence[Case], targets: Sequence[Target]
) -> list[Limitation]:
    """Entries that speak of no cell of ``cases`` × ``targets``, on whatever host and release."""
    by_name = {case.name: case for case in cases}

    def has_case(entry: Limitation) -> bool:
        spelled = [by_name[name] for name in entry.case.split("|") if name in by_name]
        return any(map(entry.matches_case, chain(spelled, cases)))

    return [
        entry
        for entry in limitations
        if not (has_case(entry) and any(matches_target(entry.target, target) for target in targets))
    ]
