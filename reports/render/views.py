"""Data for the HTML page of a run: strings with units, and indices.

Numbers are formatted here, in Python; the script in the page only places text.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from harness.record.cell import Cell, Numerics, Status
from harness.record.run import Run
from reports import facts, text
from reports.columns import Column
from reports.outcome import CellOutcome
from reports.render.issue import issue_text
from reports.summary import CellRow, Totals, worst_bound_used, worst_sqnr

#: Column headings of the numerics table, in the order of :func:`_numbers`.
NUMERICS = ["Output", "Severity", "Worst at", "Got", "Expected", "Error there", "Bound there",
            "Used", "Exceeding", "Max abs error", "SQNR", "Cosine", "Max ULP", "Type"]  # fmt: skip

_ERROR = 1_200
_TRACEBACK = 6_000
_OUTPUTS = 24
_OPS = 60
# Characters of all tracebacks of a page, so that the page of a run with many failures still opens.
_BUDGET = 800_000


@dataclass
class Texts:
    """Distinct tracebacks by position."""

    items: list[str] = field(default_factory=list)
    known: dict[str, int] = field(default_factory=dict)
    length: int = 0

    def add(self, value: str) -> int | None:
        """Add a text and return its position; None if the budget is used up."""
        shown = text.tail(value, _TRACEBACK)
        if shown not in self.known:
            if self.length + len(shown) > _BUDGET:
                return None
            self.length += len(shown)
            self.known[shown] = len(self.items)
            self.items.append(shown)
        return self.known[shown]


def cell_view(row: CellRow, run: Run, texts: Texts) -> dict[str, Any]:
    """The data of one cell for the page. Empty values are left out to keep the page small."""
    view: dict[str, Any] = {
        "id": text.line(row.id, 400),
        "target": row.target,
        "op": text.line(row.op, 200),
        "outcome": row.outcome.value,
        "severity": "" if row.severity is None else row.severity.value,
        "repro": _repro(row, run),
    }
    cell = row.cell
    if cell is None:
        return {name: value for name, value in view.items() if value != ""}
    taken = cell.delegation
    more = len(cell.numerics) - _OUTPUTS
    outputs = sorted(
        cell.numerics,
        key=lambda item: (item.exceeding == 0, -(item.severity.rank if item.severity else 0)),
    )[:_OUTPUTS]
    view |= {
        "stage": text.line(cell.stage or "", 80),
        "error": text.clean(cell.error or "", _ERROR),
        "model_frame": text.line(cell.model_frame or "", 400),
        "vendor": text.line(cell.vendor_frame, 400),
        "known_issues": facts.known_issues(cell),
        "runtime": "" if cell.runtime == "none" else text.line(cell.runtime, 40),
        "delegation": facts.delegation(cell),
        "nodes": [taken.delegated_nodes, taken.undelegated_nodes],
        "taken": text.by_count(taken.delegated_ops)[:_OPS],
        "left": text.by_count(taken.undelegated_ops)[:_OPS],
        "why": [f"{reason}: {text.calls(ops)}" for reason, ops in facts.reasons(cell)[:_OPS]]
        if taken.reasons
        else [],
        "numerics": [
            _numbers(item, len({each.call for each in cell.numerics})) for item in outputs
        ],
        "used": [_round_bound_used(item) for item in outputs],
        "bad": [at for at, item in enumerate(outputs) if item.exceeding or item.problem],
        "notes": [note for item in outputs for note in _notes(item, cell.error or "")]
        + ([f"and {text.count(more, 'more output')}"] if more > 0 else []),
        "defects": facts.defects(cell),
        "stages": _times(cell),
        "seconds": text.seconds(cell.seconds) if cell.seconds else "",
        "memory": text.memory(cell.peak_memory) if cell.peak_memory else "",
        "size": facts.program(cell),
        "calls": facts.calls(cell),
        "sizes": text.line(facts.tested_sizes(cell), 600),
        "suite": text.line(cell.suite, 80),
        "tags": text.line(", ".join(cell.tags), 200),
        "worker": text.line(facts.worker_text(cell, run.info), 120),
        "from": text.line(facts.result_source(cell), 200),
        "attempts": text.line("; ".join(cell.attempts), 400),
        "evidence": text.line(facts.evidence(cell), 400),
        "quality": text.line(facts.quality(cell), 400),
        "metrics": text.line(facts.metrics(cell), 600),
        "quality_search": text.line(facts.quality_search(cell), 600),
        "quality_rows": _quality_rows(cell),
        "fails": 1 if cell.first_divergence is not None and cell.first_divergence.fails else "",
        "diverges": text.line(
            str(
                cell.first_divergence or (cell.trace_skipped and f"not known: {cell.trace_skipped}")
            ),
            600,
        ),
    }
    if cell.limitation is not None:
        view["reason"] = text.line(cell.limitation.reason, 600)
        view["link"] = text.line(cell.limitation.link or "", 500)
        view["href"] = safe_link(cell.limitation.link)
    if cell.traceback:
        view["traceback"] = texts.add(cell.traceback)
    view |= {
        "source": text.line(cell.source, 300),
        "source_href": safe_link(facts.source_link(cell, run.info)),
        "saved_to": cell.saved_to if facts.is_kept_folder(cell.saved_to) else "",
        "issue": texts.add(issue_text(cell, row.outcome, run.info)) if row.outcome.is_red else None,
    }
    view = {name: value for name, value in view.items() if value not in ("", [], None)}
    if view.get("nodes") == [0, 0]:
        del view["nodes"]
    return view


def figures(cell: Cell) -> list[str]:
    """The numbers of a cell for a table row: runtime, nodes in delegates, program, SQNR, bound
    used, time. A value that is not known is empty."""
    taken = cell.delegation
    nodes = taken.delegated_nodes + taken.undelegated_nodes
    return [
        "" if cell.runtime == "none" else text.line(cell.runtime, 40),
        f"{taken.delegated_nodes:,}/{nodes:,} in {taken.delegates:,}" if nodes else "",
        text.size(cell.program_bytes) if cell.program_bytes else "",
        text.decibels(worst_sqnr(cell)) if cell.numerics else "",
        text.bound_use(worst_bound_used(cell)).removesuffix(" bound") if cell.numerics else "",
        text.seconds(cell.seconds) if cell.seconds else "",
    ]


def safe_link(link: str | None) -> str | None:
    """The link if it is an http(s) URL, else None: a ``javascript:`` link must not be clickable."""
    return link if link and re.fullmatch(r"https?://[^\s\"'<>]{1,500}", link) else None


def _repro(row: CellRow, run: Run) -> str:
    # A stand-in for a cell without a record: only its command line is used.
    cell = row.cell or Cell(
        case=row.case, target=row.target, status=Status.UNAVAILABLE, seed=run.info.seed
    )
    return text.line(cell.repro, 600)


def _numbers(item: Numerics, calls: int) -> list[str]:
    at, got, expected = text.worst(item) or ("", "", "")
    call = f"call {item.call}, " if calls > 1 else ""
    return [
        f"{call}output {item.output}" + (f" ({text.line(item.name, 80)})" if item.name else ""),
        "" if item.severity is None else item.severity.value,
        at,
        got,
        expected,
        text.measure(text.error_there(item)),
        text.measure(item.bound),
        text.output_use(item),
        f"{item.exceeding:,} of {text.count(item.elements, 'element')}",
        text.measure(item.max_abs),
        text.decibels(item.sqnr_db),
        text.measure(item.cosine),
        text.ulps(item.max_ulp),
        f"{text.line(item.dtype, 40)} {text.shape(item.shape)}",
    ]


def _quality_rows(cell: Cell) -> list[list[str]]:
    """The head and the rows of the table of roundings; empty without one."""
    rows = [[text.line(item, 200) for item in row] for row in facts.quality_parts(cell)]
    return [list(facts.QUALITY_HEAD), *rows] if rows else []


def _round_bound_used(item: Numerics) -> int:
    """The bound used in percent, for a bar: rounded; 101 if an element exceeds its bound."""
    if item.exceeding or not math.isfinite(item.bound_used):
        return 101
    return min(round(100 * item.bound_used), 100)


def _notes(item: Numerics, error: str) -> list[str]:
    """Numbers without a column in the table. A problem in the cell's error is not repeated."""
    where = f"call {item.call}, output {item.output}"
    notes = []
    if item.problem and item.problem not in error:
        notes.append(f"{where}: {text.line(item.problem, 300)}")
    if why := facts.vacuous(item):
        notes.append(f"vacuous: {text.line(why, 300)}")
    if item.eager_max_abs is not None or item.eager_sqnr_db is not None:
        notes.append(
            f"{where}: against eager in the recipe's dtype, max abs error "
            f"{text.measure(item.eager_max_abs)}, SQNR {text.decibels(item.eager_sqnr_db)}"
        )
    if item.model_sqnr_db is not None:
        notes.append(
            f"{where}: against the float model before quantization, "
            f"SQNR {text.decibels(item.model_sqnr_db)}"
        )
    if item.max_steps is not None:
        notes.append(f"{where}: max error {text.measure(item.max_steps)} quantization steps")
    return notes


def _times(cell: Cell) -> list[tuple[str, str, int, str]]:
    """Name, time, time as a share of the longest stage, and memory of each stage."""
    rest = facts.overhead(cell)
    longest = max(filter(math.isfinite, [*cell.stages.values(), rest]), default=0.0)
    parts = [
        (text.line(name, 40), spent, _share(cell.stages.get(name, 0.0), longest), held)
        for name, spent, held in facts.stages(cell)
    ]
    if rest > 0:
        parts.append(("harness overhead", text.seconds(rest), _share(rest, longest), ""))
    return parts


def _share(value: float, longest: float) -> int:
    if longest <= 0 or value <= 0 or not math.isfinite(value):
        return 0
    return max(1, round(100 * (value / longest)))


def segments(total: Totals) -> list[dict[str, Any]]:
    """The parts of a stacked bar, one for each outcome that occurs."""
    return [
        {"outcome": outcome, "cells": number, "share": round(100 * number / total.cells, 3)}
        for outcome in CellOutcome
        if (number := total.counts[outcome])
    ]


def matrix(rows: list[CellRow], columns: list[Column]) -> list[dict[str, Any]]:
    """Cases by target, grouped by operator. A square holds the position of its cell in ``rows``;
    a column has one square for each of its targets that runs the case."""
    groups: dict[str, dict[str, dict[str, int]]] = {}
    for position, row in enumerate(rows):
        name = row.op or row.suite or row.case.partition("/")[0]
        groups.setdefault(name, {}).setdefault(row.case, {})[row.target] = position
    return [
        {
            "name": text.line(name, 120),
            "summary": [_square(rows, cases, column) for column in columns],
            "cases": [
                {
                    "name": text.line(case, 200),
                    "label": text.line(case.removeprefix(f"{name}/"), 120),
                    "squares": [
                        [
                            {"at": squares[target], "outcome": rows[squares[target]].outcome}
                            for target in column.targets
                            if target in squares
                        ]
                        for column in columns
                    ],
                }
                for case, squares in sorted(cases.items())
            ],
        }
        for name, cases in sorted(groups.items(), key=lambda item: item[0].lower())
    ]


def _square(
    rows: list[CellRow], cases: dict[str, dict[str, int]], column: Column
) -> dict[str, Any] | None:
    counts = Counter(
        rows[squares[target]].outcome
        for squares in cases.values()
        for target in column.targets
        if target in squares
    )
    if not counts:
        return None
    total = Totals(column.name, counts)
    words = ", ".join(f"{number:,} {outcome.label}" for outcome, number in counts.items())
    # Cells that are not rated are not in the bar: 1/1 beside a half-grey bar would mislead.
    others = {outcome: n for outcome, n in counts.items() if outcome is not CellOutcome.UNSUPPORTED}
    rated = Totals(column.name, Counter(others or counts))
    return {
        "worst": max(counts, key=lambda outcome: outcome.badness),
        "uniform": len(counts) == 1,
        # 0/5 would read like five failures where this host cannot execute the cells.
        "text": f"{total.passed}/{total.rated}"
        if total.conclusive
        else counts.most_common(1)[0][0].symbol,
        "red": total.red > 0,
        "segments": segments(rated),
        "words": words,
    }
