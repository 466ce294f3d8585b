"""RunSummary: outcomes, totals and groups of a run, computed once and shared by every renderer."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cached_property

from harness.record.cell import Cell, Delegation, Numerics
from harness.record.run import Run
from harness.record.severity import Severity
from reports import text
from reports.numbers import was_lowered, worst
from reports.outcome import CellOutcome, severity_rank, words

#: Shown for an expected cell id that names no target.
NO_TARGET = "(no target)"


@dataclass(frozen=True)
class CellRow:
    """One cell of a run: its outcome, and its record if there is one."""

    id: str
    case: str
    target: str
    op: str
    suite: str
    outcome: CellOutcome
    cell: Cell | None = None

    @property
    def severity(self) -> Severity | None:
        """The severity of a mismatch, expected or not; None for every other outcome."""
        return None if self.cell is None else self.cell.severity

    @property
    def words(self) -> str:
        """The label of the outcome, with the severity if there is one."""
        return words(self.outcome, self.severity)


@dataclass
class Totals:
    """The number of cells of one target (or of a whole run) by outcome."""

    target: str
    counts: Counter[CellOutcome] = field(default_factory=Counter)
    severities: Counter[Severity] = field(default_factory=Counter)
    seconds: float = 0.0
    runtimes: Counter[str] = field(default_factory=Counter)
    available: bool | None = None
    reason: str = ""

    @property
    def cells(self) -> int:
        """The number of all cells, with or without a record."""
        return self.counts.total()

    @property
    def passed(self) -> int:
        """Cells that executed within their bounds, delegated or not, without vacuous passes."""
        return sum(number for outcome, number in self.counts.items() if outcome.is_pass)

    @property
    def vacuous(self) -> int:
        """Vacuous passes: a constant output would pass too, so they are no evidence."""
        return self.counts[CellOutcome.VACUOUS]

    @property
    def red(self) -> int:
        """Cells that make the run fail."""
        return sum(number for outcome, number in self.counts.items() if outcome.is_red)

    @property
    def rated(self) -> int:
        """The denominator of the pass rate: all cells except the unsupported ones.

        It includes unavailable, lowered-only and not-run cells and vacuous passes, so that a cell
        that is not run, or that tests nothing, cannot raise the rate.
        """
        return sum(number for outcome, number in self.counts.items() if outcome.is_rated)

    @property
    def conclusive(self) -> int:
        """Cells that are evidence for or against conformance: passed, red or xfailed."""
        return sum(number for outcome, number in self.counts.items() if outcome.is_conclusive)

    @property
    def pass_rate(self) -> float | None:
        """``passed / rated``; None when no cell is conclusive, which is not the same as 0."""
        return self.passed / self.rated if self.conclusive else None

    @property
    def rate_text(self) -> str:
        """The pass rate as text, or the reason why there is none."""
        if self.conclusive:
            share = text.percent(self.passed, self.rated)
            return f"{self.passed:,} of {self.rated:,} ({share})"
        if not self.cells:
            return "no cells"
        kinds = [outcome.label for outcome in CellOutcome if self.counts[outcome]]
        return kinds[0] if len(kinds) == 1 else "none executed"

    def add(self, row: CellRow) -> None:
        """Count one cell."""
        self.counts[row.outcome] += 1
        if row.outcome is CellOutcome.MISMATCH and row.severity is not None:
            self.severities[row.severity] += 1
        if row.cell is not None:
            self.seconds += row.cell.seconds
            if row.cell.runtime != "none":
                self.runtimes[row.cell.runtime] += 1


def _worst_first(row: CellRow) -> tuple[int, int, float, str]:
    used = worst_bound_used(row.cell) if row.cell else None
    # NaN is worse than any number: it is within no bound.
    wrongness = math.inf if used is not None and math.isnan(used) else (used or 0.0)
    severity = severity_rank(row.outcome, row.severity)
    return -row.outcome.badness, -severity, -wrongness, row.id


@dataclass(frozen=True)
class FailureGroup:
    """Red cells that fail in the same way: same outcome, stage and error text without numbers.

    Mismatches are grouped by severity instead, because their errors differ in every number.
    """

    outcome: CellOutcome
    stage: str
    error: str
    rows: list[CellRow]
    severity: Severity | None = None

    @property
    def words(self) -> str:
        """The label of the outcome, with the severity if there is one."""
        return words(self.outcome, self.severity)


_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def _where_and_why(row: CellRow) -> tuple[str, str]:
    if row.cell is None:
        return "", ""
    return row.cell.stage or "", row.cell.error or ""


@dataclass
class LimitationGroup:
    """The cells that share one limitation: a known issue, or a reason for being unsupported."""

    reason: str
    link: str | None
    rows: list[CellRow] = field(default_factory=list)

    @property
    def counts(self) -> Counter[CellOutcome]:
        """Number of cells by outcome; an xpassed cell means that the known issue is stale."""
        return Counter(row.outcome for row in self.rows)

    @property
    def targets(self) -> list[str]:
        """The targets of the cells, sorted."""
        return sorted({row.target for row in self.rows})


def limitation_key(row: CellRow) -> tuple[str, str | None] | None:
    """Reason and link of a cell's limitation; None if it has none."""
    if row.cell is None:
        return None
    if row.cell.limitation is not None:
        return row.cell.limitation.reason, row.cell.limitation.link
    if row.outcome is CellOutcome.UNSUPPORTED:
        return row.cell.error or "declared unsupported, no reason recorded", None
    return None


@dataclass
class DelegationTotals:
    """Delegation of one target, summed over its lowered cells."""

    target: str
    cells: int = 0
    undelegated_cells: int = 0
    delegates: int = 0
    delegated_nodes: int = 0
    undelegated_nodes: int = 0
    fallback_ops: Counter[str] = field(default_factory=Counter)
    fallback_cells: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, taken: Delegation) -> None:
        """Count one lowered cell."""
        self.cells += 1
        self.undelegated_cells += taken.is_empty
        self.delegates += taken.delegates
        self.delegated_nodes += taken.delegated_nodes
        self.undelegated_nodes += taken.undelegated_nodes
        self.fallback_ops.update(taken.undelegated_ops)
        self.fallback_cells.update(taken.undelegated_ops.keys())
        for reasons in taken.reasons.values():
            self.reasons.update(reasons)


def _badness(cell: Cell, outcome: CellOutcome) -> tuple[int, int]:
    return outcome.badness, severity_rank(outcome, cell.severity)


def slowest_stage(cell: Cell) -> tuple[str, float] | None:
    """The stage that took longest, and its seconds."""
    return max(cell.stages.items(), key=lambda item: item[1], default=None)


def largest_stage(cell: Cell) -> tuple[str, int] | None:
    """The stage with the highest memory peak, and its bytes; None if it was not measured."""
    return max(cell.memory.items(), key=lambda item: item[1], default=None)


def worst_output(cell: Cell) -> Numerics | None:
    """The output that uses most of its bound; NaN and recorded problems come first."""

    def wrongness(item: Numerics) -> tuple[bool, bool, float]:
        undefined = math.isnan(item.bound_used)
        return undefined, item.problem is not None, math.inf if undefined else item.bound_used

    return max(cell.numerics, key=wrongness, default=None)


def worst_bound_used(cell: Cell) -> float | None:
    """The largest error / bound over the outputs; NaN if any is; None without outputs."""
    return worst(max, [item.bound_used for item in cell.numerics])


def worst_max_abs(cell: Cell) -> float | None:
    """The largest absolute error over the outputs; NaN if any is; None without outputs."""
    return worst(max, [item.max_abs for item in cell.numerics])


def worst_sqnr(cell: Cell) -> float | None:
    """The smallest SQNR over the outputs, in dB; NaN if any is; None without outputs."""
    return worst(min, [item.sqnr_db for item in cell.numerics])


@dataclass(frozen=True, eq=False)
class RunSummary:
    """The outcomes, totals and groups of a run. All renderers of a run share one summary.

    Each property is computed once, when it is first read.

    Attributes:
        run: the loaded run.
    """

    run: Run

    @classmethod
    def from_run(cls, run: Run | RunSummary) -> RunSummary:
        """The summary of a run; a summary is returned unchanged."""
        return run if isinstance(run, RunSummary) else cls(run)

    @cached_property
    def rows(self) -> list[CellRow]:
        """Every expected or recorded cell, once.

        Of several records of a cell the worst one counts, so that a later pass does not hide a
        crash; :attr:`repeated` lists such cells.
        """
        counted: dict[str, tuple[Cell, CellOutcome]] = {}
        for cell in self.run.cells:
            outcome = CellOutcome.from_cell(cell)
            known = counted.get(cell.id)
            if known is None or _badness(cell, outcome) >= _badness(*known):
                counted[cell.id] = cell, outcome
        # A cell without a record gets op and suite from a record of its case on another target.
        groups = {cell.case: (cell.op, cell.suite) for cell in self.run.cells}
        rows = []
        for name in dict.fromkeys([*self.run.info.expected, *counted]):
            record, outcome = counted.get(name, (None, CellOutcome.NOT_RUN))
            if record is not None:
                case, target, op, suite = record.case, record.target, record.op, record.suite
            else:
                case, at, target = name.rpartition("@")
                case, target = (case, target) if at else (name, NO_TARGET)
                op, suite = groups.get(case, (case.partition("/")[0], ""))
            rows.append(CellRow(name, case, target, op, suite, outcome, record))
        return rows

    @cached_property
    def repeated(self) -> list[str]:
        """Ids of cells that have more than one record."""
        counts = Counter(cell.id for cell in self.run.cells)
        return [name for name, number in counts.items() if number > 1]

    @cached_property
    def targets(self) -> list[str]:
        """All targets: the selected ones in their order, then any others that have cells."""
        return list(dict.fromkeys([*self.run.info.targets, *(row.target for row in self.rows)]))

    @cached_property
    def missing(self) -> list[str]:
        """Ids of expected cells without a record."""
        return self.run.missing

    @cached_property
    def incompleteness(self) -> list[str]:
        """Reasons why the run is incomplete, one line each."""
        return self.run.incompleteness

    @cached_property
    def totals(self) -> list[Totals]:
        """Totals of each target, including selected targets without cells."""
        found = {name: Totals(name) for name in self.targets}
        for row in self.rows:
            found[row.target].add(row)
        for name, total in found.items():
            state = self.run.info.backends.get(name.partition(":")[0])
            if state is not None:
                total.available, total.reason = state.available, state.reason
        return list(found.values())

    @cached_property
    def overall(self) -> Totals:
        """Totals of the whole run."""
        total = Totals("all targets")
        for row in self.rows:
            total.add(row)
        return total

    @cached_property
    def failures(self) -> list[CellRow]:
        """Red cells, worst first: crashes, mismatches by severity, failures, timeouts."""
        return sorted((row for row in self.rows if row.outcome.is_red), key=_worst_first)

    @cached_property
    def failure_groups(self) -> list[FailureGroup]:
        """Red cells grouped by error, the worst outcome first, then the largest group."""
        groups: dict[tuple[CellOutcome, Severity | None, str, str], list[CellRow]] = defaultdict(
            list
        )
        for row in self.failures:
            stage, error = _where_and_why(row)
            # The error of a mismatch consists of numbers that differ from cell to cell.
            is_mismatch = row.outcome is CellOutcome.MISMATCH
            alike = "" if is_mismatch else _NUMBERS.sub("#", text.line(error, 200))
            groups[row.outcome, row.severity, stage, alike].append(row)
        found = [
            FailureGroup(
                outcome, stage, _where_and_why(members[0])[1] if alike else "", members, severity
            )
            for (outcome, severity, stage, alike), members in groups.items()
        ]

        def order(cause: FailureGroup) -> tuple[int, int, int]:
            severity = severity_rank(cause.outcome, cause.severity)
            return -cause.outcome.badness, -severity, -len(cause.rows)

        return sorted(found, key=order)

    @cached_property
    def limitation_groups(self) -> list[LimitationGroup]:
        """Cells grouped by limitation, stale known issues first, then the largest group."""
        found: dict[tuple[str, str | None], LimitationGroup] = {}
        for row in self.rows:
            key = limitation_key(row)
            if key is not None:
                found.setdefault(key, LimitationGroup(*key)).rows.append(row)
        return sorted(
            found.values(),
            key=lambda gap: (-gap.counts[CellOutcome.XPASSED], -len(gap.rows), gap.reason),
        )

    @cached_property
    def delegation_totals(self) -> list[DelegationTotals]:
        """Delegation of each target that has a lowered cell."""
        found = {name: DelegationTotals(name) for name in self.targets}
        for row in self.rows:
            if row.cell is not None and was_lowered(row.cell.delegation):
                found[row.target].add(row.cell.delegation)
        return [part for part in found.values() if part.cells]

    def slowest(self, limit: int) -> list[CellRow]:
        """The slowest cells, the slowest first."""
        timed = [row for row in self.rows if row.cell is not None and row.cell.seconds > 0]
        timed.sort(key=lambda row: (-(row.cell.seconds if row.cell else 0.0), row.id))
        return timed[:limit]

    def largest(self, limit: int) -> list[CellRow]:
        """The cells with the highest memory peaks, the highest first."""
        held = {row.id: row.cell.peak_memory or 0 for row in self.rows if row.cell is not None}
        rows = [row for row in self.rows if held.get(row.id)]
        rows.sort(key=lambda row: (-held[row.id], row.id))
        return rows[:limit]
