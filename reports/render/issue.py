"""A cell as text for an issue: error, numbers, versions and commands that reproduce it."""

from __future__ import annotations

from harness.record.cell import Cell, Numerics
from harness.record.run import RunInfo
from reports import facts, text
from reports.outcome import CellOutcome, words

_SHOWN = 8
_TRACEBACK_LINES, _LINE = 15, 160
_PACKAGES = ("executorch", "torch", "torchao", "mlx", "tosa-tools")


def issue_text(cell: Cell, outcome: CellOutcome, info: RunInfo) -> str:
    """Markdown for the backend's issue tracker, understandable without this project.

    Args:
        cell: the record.
        outcome: the outcome of the cell.
        info: the run of the cell, for versions and host.
    """
    where = f" in stage {cell.stage}" if cell.stage else ""
    parts = [f"### {cell.id}: {words(outcome, cell.severity)}{where}"]
    if cell.error:
        parts.append(_block(text.clean(cell.error, 1_200)))
    if numbers := [item for item in cell.numerics if item.exceeding or item.problem]:
        parts.append(_numbers(numbers))
    told = [facts.delegation(cell), facts.fallback_ops(cell), facts.divergence(cell)]
    told += [
        f"raised at {cell.vendor_frame}" if cell.vendor_frame else "",
        *facts.known_issues(cell),
    ]
    if told := [f"- {text.line(line, 600)}" for line in told if line]:
        parts.append("\n".join(told))
    if cell.traceback:
        lines = cell.traceback.splitlines()[-_TRACEBACK_LINES:]
        parts.append(_block("\n".join(line[:_LINE] for line in lines)))
    parts.append(
        "To reproduce; the second command writes a script that needs only torch and executorch:\n\n"
        + _block(f"{cell.repro}\n{cell.repro} --script show.py")
    )
    parts.append(_versions(cell, info))
    return "\n\n".join(parts) + "\n"


def _block(body: str) -> str:
    return f"```\n{body.replace('```', '` ` `')}\n```"


def _numbers(numbers: list[Numerics]) -> str:
    lines = [
        "| value | worst at | got | expected | error there | bound there | elements off | "
        "max abs error |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for item in numbers[:_SHOWN]:
        at, got, expected = text.worst(item) or ("", "", "")
        cells = [
            f"call {item.call}, output {item.output}", at, got, expected,
            text.measure(text.error_there(item)), text.measure(item.bound),
            f"{item.exceeding:,} of {item.elements:,}", text.measure(item.max_abs),
        ]  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    if more := len(numbers) - _SHOWN:
        lines += ["", f"and {text.count(more, 'more output')}"] if more > 0 else []
    return "\n".join(lines)


def _versions(cell: Cell, info: RunInfo) -> str:
    place = facts.cell_environment(info, cell.merged_part)
    named = [f"{name} {place.packages[name]}" for name in _PACKAGES if name in place.packages]
    host = [f"Python {place.python}", place.platform, place.machine, f"{cell.runtime} runtime"]
    return text.line(", ".join(filter(None, [*named, *host])), 600)
