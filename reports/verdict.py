"""Verdict: whether a run is good, in one word and one sentence, the same in every report."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from harness.run import Run
from reports import summary, text
from reports.outcome import Outcome


class Kind(enum.Enum):
    """The word of a verdict. Only ``PASSED`` is good."""

    PASSED = "passed"
    FAILED = "failed"
    INCOMPLETE = "incomplete"
    HOLLOW = "nothing passed"
    EMPTY = "empty"


@dataclass(frozen=True)
class Verdict:
    """The verdict on a run.

    Attributes:
        kind: the word.
        sentence: what it rests on, with counts.
        concerns: what a reader must know besides, a line each: why the run is incomplete,
            problems it recorded, backends that are not here, cells recorded twice.
    """

    kind: Kind
    sentence: str
    concerns: list[str]

    @classmethod
    def of(cls, run: Run) -> Verdict:
        """Judge a run.

        Red cells, or a non-zero exit status, make it failed; else a run that did not end or lacks
        records is incomplete; else a run in which nothing passed is not a pass either.
        """
        total = summary.overall(run)
        concerns = _concerns(run)
        status = run.info.exit_status
        if total.red:
            return cls(Kind.FAILED, f"{_red(total)}; {_rest(total)}", concerns)
        if not run.is_complete:
            return cls(Kind.INCOMPLETE, f"No red cell so far; {_rest(total)}", concerns)
        if not total.cells:
            return cls(Kind.EMPTY, f"Nothing to judge; {_rest(total)}", concerns)
        if status:
            why = f"No cell is red, but the run ended with exit status {status}"
            return cls(Kind.FAILED, f"{why}; {_rest(total)}", concerns)
        if not total.passed:
            why = "No red cell, but none passed either"
            return cls(Kind.HOLLOW, f"{why}; {_rest(total)}", concerns)
        return cls(Kind.PASSED, f"No red cell; {_rest(total)}", concerns)

    @property
    def is_good(self) -> bool:
        """Whether nothing is red, nothing is missing and something passed."""
        return self.kind is Kind.PASSED

    @property
    def tone(self) -> str:
        """``good``, ``bad`` or ``warn``, which style sheets colour."""
        return {Kind.PASSED: "good", Kind.FAILED: "bad"}.get(self.kind, "warn")

    @property
    def mark(self) -> str:
        """One character, so that colour is never the only sign."""
        return {Kind.PASSED: "✓", Kind.FAILED: "✕"}.get(self.kind, "!")

    @property
    def headline(self) -> str:
        """The word, and INCOMPLETE beside a failure that is not the whole story."""
        incomplete = any(line.startswith("incomplete:") for line in self.concerns)
        aside = ", INCOMPLETE" if incomplete and self.kind is Kind.FAILED else ""
        return f"{self.kind.value.upper()}{aside}"


def _red(total: summary.Totals) -> str:
    parts = [
        f"{total.counts[outcome]:,} {outcome.label}"
        for outcome in sorted(Outcome, key=lambda outcome: -outcome.badness)
        if outcome.is_red and total.counts[outcome]
    ]
    return f"{text.count(total.red, 'red cell')}: {', '.join(parts)}"


def _rest(total: summary.Totals) -> str:
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


def _concerns(run: Run) -> list[str]:
    lines = [f"incomplete: {reason}" for reason in run.incompleteness]
    lines += [f"problem: {problem}" for problem in run.info.problems]
    lines += [
        f"backend {name} is unavailable: {state.reason or 'no reason recorded'}"
        for name, state in run.info.backends.items()
        if not state.available
    ]
    if again := summary.repeated(run):
        lines.append(
            f"{text.count(len(again), 'cell has', 'cells have')} several records and "
            f"counts with the worst: {', '.join(again[:3])}{' …' if len(again) > 3 else ''}"
        )
    return [text.line(item, 500) for item in lines]
