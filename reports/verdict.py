"""RunVerdict: whether a run is good, in one word and one sentence, the same in every report."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from harness.record.run import Run
from harness.record.severity import Severity
from reports import text
from reports.outcome import Outcome
from reports.summary import Summary, Totals


class VerdictKind(enum.Enum):
    """The word of a verdict. Only ``PASSED`` is good."""

    PASSED = "passed"
    FAILED = "failed"
    INCOMPLETE = "incomplete"
    LOWERED = "lowered only, not executed"
    HOLLOW = "nothing passed"
    EMPTY = "empty"


@dataclass(frozen=True)
class RunVerdict:
    """The verdict on a run.

    Attributes:
        kind: the word.
        sentence: what it rests on, with counts.
        concerns: what a reader must know besides, a line each: why the run is incomplete,
            problems it recorded, backends that are not here, cells recorded twice.
        incomplete: whether the run did not end, lacks records, or has damaged ones.
    """

    kind: VerdictKind
    sentence: str
    concerns: list[str]
    incomplete: bool = False

    @classmethod
    def of(cls, run: Run | Summary) -> RunVerdict:
        """Judge a run.

        Red cells, or a non-zero exit status, make it failed; else a run that did not end or lacks
        records is incomplete; else a run in which nothing passed is not a pass either. One that
        was asked to lower only is called that: nothing of it was executed.
        """
        found = Summary.of(run)
        kind, why = _kind(found)
        sentence = f"{why}; {_rest(found.overall)}{_elsewhere(found.run)}"
        return cls(kind, sentence, _concerns(found), bool(found.incompleteness))

    @property
    def is_good(self) -> bool:
        """Whether nothing is red, nothing is missing and something passed."""
        return self.kind is VerdictKind.PASSED

    @property
    def tone(self) -> str:
        """``good``, ``bad`` or ``warn``, which style sheets colour."""
        return {VerdictKind.PASSED: "good", VerdictKind.FAILED: "bad"}.get(self.kind, "warn")

    @property
    def mark(self) -> str:
        """One character, so that colour is never the only sign."""
        return {VerdictKind.PASSED: "✓", VerdictKind.FAILED: "✕"}.get(self.kind, "!")

    @property
    def headline(self) -> str:
        """The word, and INCOMPLETE beside a failure that is not the whole story."""
        aside = ", INCOMPLETE" if self.incomplete and self.kind is VerdictKind.FAILED else ""
        return f"{self.kind.value.upper()}{aside}"


def _kind(found: Summary) -> tuple[VerdictKind, str]:
    """The word, and why."""
    total, info = found.overall, found.run.info
    if total.red:
        return VerdictKind.FAILED, _red(total)
    if found.incompleteness:
        return VerdictKind.INCOMPLETE, "No red cell so far"
    if not total.cells:
        return VerdictKind.EMPTY, "Nothing to judge"
    # A check of which nothing passed ends with 2 for that reason alone.
    if info.exit_status and (total.passed or info.problems or info.lower_only):
        why = f"No cell is red, but the run ended with exit status {info.exit_status}"
        return VerdictKind.FAILED, why
    if info.lower_only and total.counts[Outcome.LOWERED]:
        return VerdictKind.LOWERED, "No red cell; lowered only, not executed, as asked"
    if not total.passed:
        return VerdictKind.HOLLOW, "No red cell, but none passed either"
    return VerdictKind.PASSED, "No red cell"


def _red(total: Totals) -> str:
    parts = [
        f"{total.counts[outcome]:,} {outcome.label}"
        + (_severities(total) if outcome is Outcome.MISMATCH else "")
        for outcome in sorted(Outcome, key=lambda outcome: -outcome.badness)
        if outcome.is_red and total.counts[outcome]
    ]
    return f"{text.count(total.red, 'red cell')}: {', '.join(parts)}"


def _severities(total: Totals) -> str:
    """How many mismatches are of each severity, worst first; nothing where no record says."""
    found = total.severities
    parts = [f"{found[one]:,} {one.value}" for one in reversed(Severity) if found[one]]
    return f" ({', '.join(parts)})" if parts else ""


def _rest(total: Totals) -> str:
    if not total.cells:
        return "the run is empty, no cell was selected and none has a record"
    undelegated = total.counts[Outcome.UNDELEGATED]
    aside = f" ({undelegated:,} of them with nothing delegated)" if undelegated else ""
    parts = [f"{total.passed:,} of {text.count(total.cells, 'cell')} passed{aside}"]
    parts += [
        f"{total.counts[outcome]:,} {outcome.label}"
        for outcome in Outcome
        if total.counts[outcome] and not outcome.is_red and not outcome.is_pass
    ]
    return ", ".join(parts)


def _elsewhere(run: Run) -> str:
    """How many results are not this run's own."""
    taken = sum(cell.cached is not None for cell in run.cells)
    if not taken:
        return ""
    whose = "all" if taken == len(run.cells) else f"{taken:,}"
    return f"; {whose} of these results are of earlier runs, and did not run here"


def _concerns(found: Summary) -> list[str]:
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
            f"{text.count(len(again), 'cell has', 'cells have')} several records and "
            f"counts with the worst: {', '.join(again[:3])}{' …' if len(again) > 3 else ''}"
        )
    return [text.line(item, 500) for item in lines]
