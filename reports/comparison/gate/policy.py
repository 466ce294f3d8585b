"""The policy of a gate: a TOML file, read strictly, because a typo must not loosen it."""

from __future__ import annotations

import datetime
import difflib
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from harness.errors import UsageError
from harness.record.severity import Severity
from harness.record.target import matches_any_glob
from reports.comparison.diff.compare import Change
from reports.comparison.diff.kinds import ChangeKind, Thresholds

#: What is red unless a policy says otherwise: everything that was lost, but size and time.
USUALLY_RED = (
    ChangeKind.NEWLY_CRASHED,
    ChangeKind.NEWLY_FAILING,
    ChangeKind.NEWLY_TIMED_OUT,
    ChangeKind.NEWLY_XPASSED,
    ChangeKind.FAILS_OTHERWISE,
    ChangeKind.MORE_SEVERE,
    ChangeKind.NEWLY_UNSUPPORTED,
    ChangeKind.LIMITATION_APPEARED,
    ChangeKind.SIGNAL_LOST,
    ChangeKind.DELEGATION_LOST,
    ChangeKind.RUNTIME_CHANGED,
    ChangeKind.NUMERICS_WORSE,
    ChangeKind.QUALITY_WORSE,
)


_ALL = tuple(ChangeKind)

_RATED = frozenset(
    {
        ChangeKind.NEWLY_FAILING,
        ChangeKind.FAILS_OTHERWISE,
        ChangeKind.MORE_SEVERE,
        ChangeKind.NUMERICS_WORSE,
        ChangeKind.BOUND_UP,
        ChangeKind.STILL_FAILING,
    }
)
"""Kinds that speak of errors whose severity is known, and that a low one makes harmless."""


class GateThresholds(Thresholds, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The thresholds of a comparison, and a limit.

    Attributes:
        bound_used_limit: share of the bound that no cell may come to use that did not before;
            counts as ``bound-up``. None for no limit.
    """

    bound_used_limit: float | None = None


class TargetPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is different for some targets. The first entry that matches a target speaks for it.

    Attributes:
        match: glob over ``backend:recipe``; several with ``|``.
        red: kinds that are red, instead of the policy's.
        severity_at_least: mismatches below are not red, instead of the policy's.
        min_cells: conclusive cells that each of these targets must have.
        optional: whether it is fine that no target matches.
        thresholds: those given here; the others are the policy's.
    """

    match: str
    red: tuple[ChangeKind, ...] | None = None
    severity_at_least: Severity | None = None
    min_cells: int = 0
    optional: bool = False
    thresholds: GateThresholds = GateThresholds()


class Waiver(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes that somebody answers for until a day.

    Attributes:
        cell: glob over cell ids; several with ``|``.
        kind: the kinds of change that it excuses; a policy gives one, a list, or ``"all"``.
        reason: why.
        owner: who removes it.
        expires: the last day on which it holds.
    """

    cell: str
    kind: tuple[ChangeKind, ...]
    reason: str
    owner: str
    expires: datetime.date

    def __post_init__(self) -> None:
        for name in ("cell", "reason", "owner"):
            if not getattr(self, name).strip():
                raise UsageError(f"a waiver has an empty {name}")
        if not self.kind:
            raise UsageError(f"a waiver for {self.cell} excuses no kind of change")

    @property
    def title(self) -> str:
        """What it is called in reports."""
        kinds = ", ".join(kind.value for kind in self.kind)
        return f"waiver of {'all changes' if self.kind == _ALL else kinds} for {self.cell}"


class CachedPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which results that a run took from an earlier one count as its own.

    Attributes:
        max_age_days: how long before the run they may have been computed.
        hosts: glob over the names of the machines that may have; several with ``|``.
    """

    max_age_days: float
    hosts: str = "*"

    def __post_init__(self) -> None:
        if not self.max_age_days > 0:
            raise UsageError("max_age_days is not above 0; without [cached] no such cell counts")


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole policy; docs/gate.md explains each key.

    Attributes:
        cells: glob over the ids of the cells that are judged; several with ``|``.
        red: kinds of change that are red.
        severity_at_least: mismatches that are less severe are listed and not red.
        min_cells: conclusive cells that the run must have.
        required_targets: targets that must have conclusive cells.
        subset_min_cells: declares that runs are narrower than the baseline and must have at
            least this many conclusive cells; None for runs that are whole.
        thresholds: from where on a number counts.
        target: what is different for some targets.
        waiver: changes that are excused.
        cached: which results of earlier runs count; None for none.
    """

    cells: str = "*"
    red: tuple[ChangeKind, ...] = USUALLY_RED
    severity_at_least: Severity = Severity.NEGLIGIBLE
    min_cells: int = 1
    required_targets: list[str] = []
    subset_min_cells: int | None = None
    thresholds: GateThresholds = GateThresholds()
    target: list[TargetPolicy] = []
    waiver: list[Waiver] = []
    cached: CachedPolicy | None = None

    def __post_init__(self) -> None:
        numbers = [self.min_cells, self.subset_min_cells, *(item.min_cells for item in self.target)]
        if any(number is not None and number < 0 for number in numbers):
            raise UsageError("a number of cells is negative")
        if self.subset_min_cells == 0:
            raise UsageError("subset_min_cells is 0; a subset of no cells judges nothing")
        if not self.red and not any(item.red for item in self.target):
            raise UsageError("no kind of change is red; nothing could make the gate fail")

    def find_target_policy(self, target: str) -> TargetPolicy | None:
        """The first entry for a target."""
        return next((item for item in self.target if matches_any_glob(item.match, target)), None)

    def red_kinds(self, target: str) -> frozenset[ChangeKind]:
        """What is red for a target."""
        entry = self.find_target_policy(target)
        return frozenset(self.red if entry is None or entry.red is None else entry.red)

    def severity_level(self, target: str) -> Severity:
        """From which severity on a mismatch of a target is red."""
        entry = self.find_target_policy(target)
        own = None if entry is None else entry.severity_at_least
        return self.severity_at_least if own is None else own

    def is_tolerated(self, change: Change) -> bool:
        """Whether a change is of a mismatch that is less severe than what is red. A crash, a
        failure, and a mismatch of which an older record does not say how severe it is are not."""
        after = change.after
        if change.kind not in _RATED or after is None or after.severity is None:
            return False
        return after.severity.rank < self.severity_level(change.target).rank

    def limits(self, target: str) -> GateThresholds:
        """The thresholds of a target."""
        entry = self.find_target_policy(target)
        return self.thresholds if entry is None else entry.thresholds


def load(path: Path) -> Policy:
    """Read a policy.

    Raises:
        UsageError: not readable, not TOML, or a key or value that there is not; names the key and
            the line.
    """
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise UsageError(f"cannot read the policy {path}: {why}") from error
    try:
        return parse(content)
    except UsageError as error:
        raise UsageError(f"policy {path}: {error}") from error


def parse(content: str) -> Policy:
    """Read a policy from its text.

    Raises:
        UsageError: as :func:`load`.
    """
    try:
        raw = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"not TOML: {error}") from error
    for waiver in raw.get("waiver", ()):
        if isinstance(waiver, dict) and isinstance(kind := waiver.get("kind"), str):
            waiver["kind"] = [each.value for each in _ALL] if kind == "all" else [kind]
    try:
        msgspec.convert(raw, type=Policy)
        # Only after every key is known to be right may a target inherit thresholds.
        common = raw.get("thresholds", {})
        for entry in raw.get("target", []):
            entry["thresholds"] = common | entry.get("thresholds", {})
        return msgspec.convert(raw, type=Policy)
    except msgspec.ValidationError as error:
        raise UsageError(_explained(str(error), content)) from error


def _explained(message: str, content: str) -> str:
    names = re.findall(r"`([^`$]+)`", message) + re.findall(r"'([^']+)'", message)
    names += re.findall(r"\.(\w+)(?:\[\d+\])?`", message)
    key = next((name for name in names if _line_of(name, content)), None)
    where = f"line {_line_of(key, content)}: " if key else ""
    near = difflib.get_close_matches(key, _words(), 1, 0.6) if key else []
    hint = f"; did you mean {near[0]}?" if near and near[0] != key else ""
    if message.endswith(".severity_at_least`"):
        *first, last = (repr(each.value) for each in Severity)
        hint = f"; give {', '.join(first)} or {last}"
    return f"{where}{message}{hint}"


def _line_of(name: str, content: str) -> int | None:
    pattern = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
    for number, line in enumerate(content.splitlines(), start=1):
        if pattern.search(line.partition("#")[0]):
            return number
    return None


def _words() -> list[str]:
    structs: list[Any] = [Policy, TargetPolicy, Waiver, GateThresholds, CachedPolicy]
    keys = [field.name for struct in structs for field in msgspec.structs.fields(struct)]
    return [*keys, *(kind.value for kind in ChangeKind)]
