"""What a run amounts to, computed once and shared by every renderer. No pandas."""

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
from reports.outcome import Outcome, severity_rank, words

#: Stands where an expected id names no target.
NO_TARGET = "(no target)"


@dataclass(frozen=True)
class Row:
    """One cell of a run as it counts: its outcome, and its record if there is one."""

    id: str
    case: str
    target: str
    op: str
    suite: str
    outcome: Outcome
    cell: Cell | None = None

    @property
    def severity(self) -> Severity | None:
        """How wrong the outputs of a mismatch are, expected or not; None for all else."""
        return None if self.cell is None else self.cell.severity

    @property
    def words(self) -> str:
        """The words of the outcome, and of the severity where there is one."""
        return words(self.outcome, self.severity)


@dataclass
class Totals:
    """The cells of one target (or of a whole run), each outcome counted apart."""

    target: str
    counts: Counter[Outcome] = field(default_factory=Counter)
    severities: Counter[Severity] = field(default_factory=Counter)
    seconds: float = 0.0
    runtimes: Counter[str] = field(default_factory=Counter)
    available: bool | None = None
    reason: str = ""

    @property
    def cells(self) -> int:
        """All cells, with or without a record."""
        return self.counts.total()

    @property
    def passed(self) -> int:
        """Executed and within bounds, delegated or not; vacuous passes are not in it."""
        return sum(number for outcome, number in self.counts.items() if outcome.is_pass)

    @property
    def vacuous(self) -> int:
        """Within bounds, where a constant would have been, too; evidence of nothing."""
        return self.counts[Outcome.VACUOUS]

    @property
    def red(self) -> int:
        """Cells that make the run fail."""
        return sum(number for outcome, number in self.counts.items() if outcome.is_red)

    @property
    def rated(self) -> int:
        """What the pass rate is out of: all cells but those declared unsupported.

        Unavailable, lowered-only and not-run cells and vacuous passes stay in, so that not running,
        and outputs without a signal, can never raise the rate; reports show them beside it.
        """
        return self.cells - self.counts[Outcome.UNSUPPORTED]

    @property
    def conclusive(self) -> int:
        """Cells that say something of conformance: passed, red, or failed as predicted."""
        return sum(number for outcome, number in self.counts.items() if outcome.is_conclusive)

    @property
    def pass_rate(self) -> float | None:
        """``passed / rated``; None when no cell is conclusive, which is not the same as 0."""
        return self.passed / self.rated if self.conclusive else None

    @property
    def rate_text(self) -> str:
        """The pass rate in words, which says why there is none."""
        if self.conclusive:
            share = text.percent(self.passed, self.rated)
            return f"{self.passed:,} of {self.rated:,} ({share})"
        if not self.cells:
            return "no cells"
        kinds = [outcome.label for outcome in Outcome if self.counts[outcome]]
        return kinds[0] if len(kinds) == 1 else "none executed"

    def add(self, row: Row) -> None:
        """Count one cell."""
        self.counts[row.outcome] += 1
        if row.outcome is Outcome.MISMATCH and row.severity is not None:
            self.severities[row.severity] += 1
        if row.cell is not None:
            self.seconds += row.cell.seconds
            if row.cell.runtime != "none":
                self.runtimes[row.cell.runtime] += 1


def _worst_first(row: Row) -> tuple[int, int, float, str]:
    used = worst_bound_used(row.cell) if row.cell else None
    # NaN is worse than any number: an error that is not a number conforms to no bound.
    wrongness = math.inf if used is not None and math.isnan(used) else (used or 0.0)
    severity = severity_rank(row.outcome, row.severity)
    return -row.outcome.badness, -severity, -wrongness, row.id


@dataclass(frozen=True)
class Cause:
    """Red cells that fail alike: same outcome, same stage, same error but for its numbers; of
    mismatches, which differ in all numbers, the same severity."""

    outcome: Outcome
    stage: str
    error: str
    rows: list[Row]
    severity: Severity | None = None

    @property
    def words(self) -> str:
        """The words of the outcome, and of the severity where there is one."""
        return words(self.outcome, self.severity)


_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def _where_and_why(row: Row) -> tuple[str, str]:
    if row.cell is None:
        return "", ""
    return row.cell.stage or "", row.cell.error or ""


@dataclass
class Gap:
    """The cells that one limitation, or one declared lack of support, explains."""

    reason: str
    link: str | None
    rows: list[Row] = field(default_factory=list)

    @property
    def counts(self) -> Counter[Outcome]:
        """How those cells ended; xpassed among them means the entry is stale."""
        return Counter(row.outcome for row in self.rows)

    @property
    def targets(self) -> list[str]:
        """Where it applies."""
        return sorted({row.target for row in self.rows})


def gap_key(row: Row) -> tuple[str, str | None] | None:
    """Reason and link of the limitation, or of the lack of support, that explains a cell."""
    if row.cell is None:
        return None
    if row.cell.limitation is not None:
        return row.cell.limitation.reason, row.cell.limitation.link
    if row.outcome is Outcome.UNSUPPORTED:
        return row.cell.error or "declared unsupported, no reason recorded", None
    return None


@dataclass
class Partition:
    """What the partitioner gave to one target's backend, over all lowered cells."""

    target: str
    cells: int = 0
    without: int = 0
    delegates: int = 0
    delegated_nodes: int = 0
    undelegated_nodes: int = 0
    left_over: Counter[str] = field(default_factory=Counter)
    left_over_cells: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, taken: Delegation) -> None:
        """Count one lowered cell."""
        self.cells += 1
        self.without += taken.delegates == 0
        self.delegates += taken.delegates
        self.delegated_nodes += taken.delegated_nodes
        self.undelegated_nodes += taken.undelegated_nodes
        self.left_over.update(taken.undelegated_ops)
        self.left_over_cells.update(taken.undelegated_ops.keys())
        for said in taken.reasons.values():
            self.reasons.update(said)


def _badness(cell: Cell, outcome: Outcome) -> tuple[int, int]:
    return outcome.badness, severity_rank(outcome, cell.severity)


def slowest_stage(cell: Cell) -> tuple[str, float] | None:
    """The stage that took longest, with its seconds."""
    return max(cell.stages.items(), key=lambda item: item[1], default=None)


def largest_stage(cell: Cell) -> tuple[str, int] | None:
    """The stage that held most memory, with its bytes; None where it was not measured."""
    return max(cell.memory.items(), key=lambda item: item[1], default=None)


def worst_output(cell: Cell) -> Numerics | None:
    """The output that uses most of its bound, NaN and stated problems first."""

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
class Summary:
    """What a run amounts to: one value that all renderers of a run share.

    Each part is computed when it is first asked for, and once.

    Attributes:
        run: the loaded run.
    """

    run: Run

    @classmethod
    def of(cls, run: Run | Summary) -> Summary:
        """The summary of a run; a summary stays what it is."""
        return run if isinstance(run, Summary) else cls(run)

    @cached_property
    def rows(self) -> list[Row]:
        """Every cell that was expected or recorded, each once.

        A cell with several records counts with the worst of them, so that a crash is not hidden
        by a later pass; :attr:`repeated` names such cells.
        """
        counted: dict[str, tuple[Cell, Outcome]] = {}
        for cell in self.run.cells:
            outcome = Outcome.of(cell)
            known = counted.get(cell.id)
            if known is None or _badness(cell, outcome) >= _badness(*known):
                counted[cell.id] = cell, outcome
        # A missing cell has no record to take its op from; the same case on another target does.
        groups = {cell.case: (cell.op, cell.suite) for cell in self.run.cells}
        rows = []
        for name in dict.fromkeys([*self.run.info.expected, *counted]):
            record, outcome = counted.get(name, (None, Outcome.NOT_RUN))
            if record is not None:
                case, target, op, suite = record.case, record.target, record.op, record.suite
            else:
                case, at, target = name.rpartition("@")
                case, target = (case, target) if at else (name, NO_TARGET)
                op, suite = groups.get(case, (case.partition("/")[0], ""))
            rows.append(Row(name, case, target, op, suite, outcome, record))
        return rows

    @cached_property
    def repeated(self) -> list[str]:
        """Ids of cells that have more than one record."""
        counts = Counter(cell.id for cell in self.run.cells)
        return [name for name, number in counts.items() if number > 1]

    @cached_property
    def targets(self) -> list[str]:
        """All targets: those selected, in that order, then any others that have cells."""
        return list(dict.fromkeys([*self.run.info.targets, *(row.target for row in self.rows)]))

    @cached_property
    def missing(self) -> list[str]:
        """Ids of expected cells without a record."""
        return self.run.missing

    @cached_property
    def incompleteness(self) -> list[str]:
        """Why the run is incomplete, a line each."""
        return self.run.incompleteness

    @cached_property
    def totals(self) -> list[Totals]:
        """Totals of each target; a selected target without cells is there with zero."""
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
    def failures(self) -> list[Row]:
        """Red cells, worst first: crashes, mismatches by severity, failures, timeouts."""
        return sorted((row for row in self.rows if row.outcome.is_red), key=_worst_first)

    @cached_property
    def causes(self) -> list[Cause]:
        """Failures grouped by what went wrong, worst and then largest group first."""
        groups: dict[tuple[Outcome, Severity | None, str, str], list[Row]] = defaultdict(list)
        for row in self.failures:
            stage, error = _where_and_why(row)
            # A mismatch differs in every number it states; the numerics tell those apart.
            is_mismatch = row.outcome is Outcome.MISMATCH
            alike = "" if is_mismatch else _NUMBERS.sub("#", text.line(error, 200))
            groups[row.outcome, row.severity, stage, alike].append(row)
        found = [
            Cause(outcome, stage, _where_and_why(members[0])[1] if alike else "", members, severity)
            for (outcome, severity, stage, alike), members in groups.items()
        ]

        def order(cause: Cause) -> tuple[int, int, int]:
            severity = severity_rank(cause.outcome, cause.severity)
            return -cause.outcome.badness, -severity, -len(cause.rows)

        return sorted(found, key=order)

    @cached_property
    def gaps(self) -> list[Gap]:
        """Limitations by reason, those with a stale entry first, then the most cells."""
        found: dict[tuple[str, str | None], Gap] = {}
        for row in self.rows:
            key = gap_key(row)
            if key is not None:
                found.setdefault(key, Gap(*key)).rows.append(row)
        return sorted(
            found.values(),
            key=lambda gap: (-gap.counts[Outcome.XPASSED], -len(gap.rows), gap.reason),
        )

    @cached_property
    def partitions(self) -> list[Partition]:
        """Delegation of each target that lowered anything."""
        found = {name: Partition(name) for name in self.targets}
        for row in self.rows:
            if row.cell is not None and was_lowered(row.cell.delegation):
                found[row.target].add(row.cell.delegation)
        return [part for part in found.values() if part.cells]

    def slowest(self, limit: int) -> list[Row]:
        """The cells that took longest, longest first."""
        timed = [row for row in self.rows if row.cell is not None and row.cell.seconds > 0]
        timed.sort(key=lambda row: (-(row.cell.seconds if row.cell else 0.0), row.id))
        return timed[:limit]

    def largest(self, limit: int) -> list[Row]:
        """The cells that held most memory, the largest first."""
        held = {row.id: row.cell.peak_memory or 0 for row in self.rows if row.cell is not None}
        rows = [row for row in self.rows if held.get(row.id)]
        rows.sort(key=lambda row: (-held[row.id], row.id))
        return rows[:limit]
