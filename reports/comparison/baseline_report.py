"""Print the changes that an update of a baseline accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports import text
from reports.comparison.diff import diff, terminal as diff_terminal
from reports.comparison.snapshot import RunSnapshot
from reports.console import print_more, print_section, safe_text
from reports.outcome import CellOutcome

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN = 50


def render(old: RunSnapshot | None, new: RunSnapshot, out: Console) -> None:
    """Print the changes since the old baseline, and all cells that are accepted as failing.

    Args:
        old: the baseline that was replaced; None for a first baseline.
        new: the new baseline.
        out: destination.
    """
    if old is None:
        out.print(safe_text(f"first baseline: {text.count(len(new.cells), 'cell')}"))
    else:
        diff_terminal.render(diff(old, new), out, limit=_SHOWN)
    failing = [name for name, cell in sorted(new.cells.items()) if cell.outcome.is_red]
    print_section(out, f"Accepted as failing: {text.count(len(failing), 'cell')}")
    for name in failing[:_SHOWN]:
        out.print(safe_text(f"{new.cells[name].words}: {text.line(name, 200)}"))
    print_more(out, len(failing) - _SHOWN)
    missing = sum(cell.outcome is CellOutcome.NOT_RUN for cell in new.cells.values())
    for reason in new.incomplete:
        out.print(safe_text(f"! accepted incomplete: {reason}", "bold yellow"))
    if missing:
        out.print(safe_text(f"! {text.count(missing, 'cell')} accepted as not run", "bold yellow"))
