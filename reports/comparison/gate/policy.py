"""The policy of a gate, a TOML file. Unknown keys are errors: a typo must not loosen it."""

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

#: Kinds of change that are red by default: every loss except size and time.
DEFAULT_RED = (
    ChangeKind.NEWLY_CRASHED,
    ChangeKind.NEWLY_FAILING,
    ChangeKind.NEWLY_TIMED_OUT,
    ChangeKind.NEWLY_XPASSED,
    ChangeKind.FAILS_OTHERWISE,
    ChangeKind.MORE_SEVERE,
    ChangeKind.NEWLY_UNSUPPORTED,
    ChangeKind.LIMITATION_APPEARED,
    ChangeKind.SIGNAL_LOST,
    ChangeKind.DEGRADED_NEWLY,
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
"""Kinds of numerical errors, which are not red below ``severity_at_least``."""


class GateThresholds(Thresholds, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The thresholds of a comparison, and a limit of the bound used.

    Attributes:
        bound_used_limit: largest allowed share of the bound; a cell that exceeds it now and did
            not before counts as ``bound-up``. None for no limit.
    """

    bound_used_limit: float | None = None


class TargetPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rules for some targets. The first entry that matches a target applies to it.

    Attributes:
        match: glob over ``backend:recipe``; several with ``|``.
        red: kinds of change that are red; None for the policy's.
        severity_at_least: least severity of a red mismatch; None for the policy's.
        min_cells: least number of conclusive cells of each of these targets.
        optional: whether the entry may match no target.
        thresholds: overrides of the policy's thresholds.
    """

    match: str
    red: tuple[ChangeKind, ...] | None = None
    severity_at_least: Severity | None = None
    min_cells: int = 0
    optional: bool = False
    thresholds: GateThresholds = GateThresholds()


class Waiver(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes that are not red until a date, with a reason and an owner.

    Attributes:
        cell: glob over cell ids; several with ``|``.
        kind: excused kinds of change; a policy file gives one, a list, or ``"all"``.
        reason: why the changes are acceptable.
        owner: who removes it.
        expires: the last day on which it is valid.
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
        """The waiver's name in reports."""
        kinds = ", ".join(kind.value for kind in self.kind)
        return f"waiver of {'all changes' if self.kind == _ALL else kinds} for {self.cell}"


class CachedPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rules for cached results: which of them count like results of this run.

    Attributes:
        max_age_days: largest age of a cached result at the start of the run, in days.
        hosts: glob over names of accepted hosts; several with ``|``.
    """

    max_age_days: float
    hosts: str = "*"

    def __post_init__(self) -> None:
        if not self.max_age_days > 0:
            raise UsageError(
                "max_age_days must be above 0; to accept no cached result, remove [cached]"
            )


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole policy; docs/gate.md explains each key.

    Attributes:
        cells: glob over ids of judged cells; several with ``|``.
        red: kinds of change that are red.
        severity_at_least: less severe mismatches are listed but not red.
        min_cells: least number of conclusive cells of the run.
        required_targets: targets that must have conclusive cells.
        subset_min_cells: declares that runs select fewer cells than the baseline, and requires at
            least this many conclusive cells; None for full runs.
        thresholds: smallest changes of numbers that count.
        target: rules for some targets.
        waiver: changes that are excused.
        cached: which cached results count; None for none.
    """

    cells: str = "*"
    red: tuple[ChangeKind, ...] = DEFAULT_RED
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
            raise UsageError("min_cells and subset_min_cells must not be negative")
        if self.subset_min_cells == 0:
            raise UsageError("subset_min_cells must be above 0")
        if not self.red and not any(item.red for item in self.target):
            raise UsageError("no kind of change is red, so the gate cannot fail; list kinds in red")

    def without_counts(self) -> Policy:
        """Make a policy for selected cells: without numbers of cells and required targets."""
        return msgspec.structs.replace(
            self,
            min_cells=0,
            required_targets=[],
            target=[msgspec.structs.replace(item, min_cells=0) for item in self.target],
        )

    def find_target_policy(self, target: str) -> TargetPolicy | None:
        """Find the first entry that matches a target."""
        return next((item for item in self.target if matches_any_glob(item.match, target)), None)

    def find_red_kinds(self, target: str) -> frozenset[ChangeKind]:
        """Find the kinds of change that are red for a target."""
        entry = self.find_target_policy(target)
        return frozenset(self.red if entry is None or entry.red is None else entry.red)

    def find_severity_level(self, target: str) -> Severity:
        """Find the least severity of a red mismatch of a target."""
        entry = self.find_target_policy(target)
        own = None if entry is None else entry.severity_at_least
        return self.severity_at_least if own is None else own

    def is_tolerated(self, change: Change) -> bool:
        """Whether a change is a mismatch that is not severe enough to be red.

        Crashes, failures and mismatches without a recorded severity are never tolerated.
        """
        after = change.after
        if change.kind not in _RATED or after is None or after.severity is None:
            return False
        return after.severity.rank < self.find_severity_level(change.target).rank

    def find_thresholds(self, target: str) -> GateThresholds:
        """Find the thresholds of a target."""
        entry = self.find_target_policy(target)
        return self.thresholds if entry is None else entry.thresholds


def load(path: Path) -> Policy:
    """Read a policy file.

    Raises:
        UsageError: the file is not readable or not TOML, or has an unknown key or a wrong value;
            the message names the key and the line.
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
        # Targets inherit thresholds only after all keys have been checked.
        common = raw.get("thresholds", {})
        for entry in raw.get("target", []):
            entry["thresholds"] = common | entry.get("thresholds", {})
        return msgspec.convert(raw, type=Policy)
    except msgspec.ValidationError as error:
        raise UsageError(_explain(str(error), content)) from error


def _explain(message: str, content: str) -> str:
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
