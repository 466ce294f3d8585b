"""RunVerdict: the verdict on a run, in one word and one sentence, the same in every report."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from harness.record.run import Run
from harness.record.severity import Severity
from reports import text
from reports.outcome import CellOutcome
from reports.summary import RunSummary, Totals


class VerdictKind(enum.Enum):
    """The verdict in one word. ``PASSED`` and ``DEGRADED`` are good."""

    PASSED = "passed"
    DEGRADED = "passed, degraded"
    FAILED = "failed"
    INCOMPLETE = "incomplete"
    LOWERED = "lowered only, not executed"
    HOLLOW = "nothing passed"
    EMPTY = "empty"


@dataclass(frozen=True)
class RunVerdict:
    """The verdict on a run.

    Attributes:
        kind: the verdict in one word.
        sentence: the reason, with counts.
        concerns: warnings, one line each: why the run is incomplete, problems that it recorded,
            unavailable backends, cells with several records.
        incomplete: whether the run did not end, lacks records, or has damaged records.
    """

    kind: VerdictKind
    sentence: str
    concerns: list[str]
    incomplete: bool = False

    @classmethod
    def from_run(cls, run: Run | RunSummary) -> RunVerdict:
        """Judge a run.

        In this order: a run with red cells has failed; a run that did not end or lacks records is
        incomplete; a run with a non-zero exit status has failed; a run with ``--lower-only`` was
        lowered only; a run without a passed cell is not a pass; one whose passes are all degraded
        is no plain pass.
        """
        found = RunSummary.from_run(run)
        kind, why = _kind(found)
        sentence = f"{why}; {_rest(found.overall)}{_elsewhere(found.run)}"
        return cls(kind, sentence, _concerns(found), bool(found.incompleteness))

    @property
    def is_good(self) -> bool:
        """Whether nothing is red, nothing is missing and something passed."""
        return self.kind in (VerdictKind.PASSED, VerdictKind.DEGRADED)

    @property
    def tone(self) -> str:
        """``good``, ``bad`` or ``warn``: a CSS class."""
        return {VerdictKind.PASSED: "good", VerdictKind.FAILED: "bad"}.get(self.kind, "warn")

    @property
    def mark(self) -> str:
        """One character, so that colour is never the only sign."""
        return {VerdictKind.PASSED: "✓", VerdictKind.FAILED: "✕"}.get(self.kind, "!")

    @property
    def headline(self) -> str:
        """The verdict in capitals; a failure of an incomplete run has INCOMPLETE beside it."""
        aside = ", INCOMPLETE" if self.incomplete and self.kind is VerdictKind.FAILED else ""
        return f"{self.kind.value.upper()}{aside}"


def _kind(found: RunSummary) -> tuple[VerdictKind, str]:
    """The verdict and its reason."""
    total, info = found.overall, found.run.info
    if total.red:
        return VerdictKind.FAILED, _describe_red(total)
    if found.incompleteness:
        return VerdictKind.INCOMPLETE, "No red cell so far"
    if not total.cells:
        return VerdictKind.EMPTY, "Nothing to judge"
    # A check in which no cell passed exits with 2 without any other reason.
    if info.exit_status and (total.passed or info.problems or info.lower_only):
        why = f"No cell is red, but the run ended with exit status {info.exit_status}"
        return VerdictKind.FAILED, why
    if info.lower_only and total.counts[CellOutcome.LOWERED]:
        return VerdictKind.LOWERED, "No red cell; lowered only, not executed, as requested"
    if not total.passed:
        return VerdictKind.HOLLOW, "No cell is red, and no cell passed"
    if total.counts[CellOutcome.DEGRADED] == total.passed:
        return VerdictKind.DEGRADED, "No red cell, but every pass is far from its float model"
    return VerdictKind.PASSED, "No red cell"


def _describe_red(total: Totals) -> str:
    parts = [
        f"{total.counts[outcome]:,} {outcome.label}"
        + (_severities(total) if outcome is CellOutcome.MISMATCH else "")
        for outcome in sorted(CellOutcome, key=lambda outcome: -outcome.badness)
        if outcome.is_red and total.counts[outcome]
    ]
    return f"{text.count(total.red, 'red cell')}: {', '.join(parts)}"


def _severities(total: Totals) -> str:
    """Number of mismatches by severity, worst first; empty if no record has a severity."""
    found = total.severities
    parts = [f"{found[one]:,} {one.value}" for one in reversed(Severity) if found[one]]
    return f" ({', '.join(parts)})" if parts else ""


def _rest(total: Totals) -> str:
    if not total.cells:
        return "the run is empty: no cell was selected and no cell has a record"
    words = {CellOutcome.UNDELEGATED: "with nothing delegated", CellOutcome.DEGRADED: "degraded"}
    which = [f"{total.counts[one]:,} {word}" for one, word in words.items() if total.counts[one]]
    aside = f" ({', '.join(which)})" if which else ""
    parts = [f"{total.passed:,} of {text.count(total.cells, 'cell')} passed{aside}"]
    parts += [
        f"{total.counts[outcome]:,} {outcome.label}"
        for outcome in CellOutcome
        if total.counts[outcome] and not outcome.is_red and not outcome.is_pass
    ]
    return ", ".join(parts)


def _elsewhere(run: Run) -> str:
    """How many results were reused from earlier runs."""
    taken = sum(cell.cached is not None for cell in run.cells)
    if not taken:
        return ""
    which = "all" if taken == len(run.cells) else f"{taken:,}"
    return f"; {which} of these results are cached results of earlier runs"


def _concerns(found: RunSummary) -> list[str]:
    run = found.run
    lines = [f"incomplete: {reason}" for reason in found.incompleteness]
    lines += [f"problem: {problem}" for problem in run.info.problems]
    lines += [
        f"backend {name} is unavailable: {state.reason or 'no reason recorded'}"
        for name, state in run.info.backends.items()
        if not state.available
    ]
    if again := found.repeated:
        lines.append(
            f"{text.count(len(again), 'cell has', 'cells have')} several records; the worst "
            f"record counts: {', '.join(again[:3])}{' …' if len(again) > 3 else ''}"
        )
    return [text.line(item, 500) for item in lines]
