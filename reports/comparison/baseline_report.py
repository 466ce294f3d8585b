"""What an update of a baseline accepts, for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports import text
from reports.comparison.diff import diff, terminal as diff_terminal
from reports.comparison.snapshot import Snapshot
from reports.console import and_more, section, styled
from reports.outcome import Outcome

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN = 50


def render(old: Snapshot | None, new: Snapshot, out: Console) -> None:
    """Print the change against the old baseline, and all cells that are accepted as failing.

    Args:
        old: the baseline that was replaced; None when this is the first.
        new: what was written.
        out: where to.
    """
    if old is None:
        out.print(styled(f"first baseline, of {text.count(len(new.cells), 'cell')}"))
    else:
        diff_terminal.render(diff(old, new), out, limit=_SHOWN)
    failing = [name for name, cell in sorted(new.cells.items()) if cell.outcome.is_red]
    section(out, f"Accepted as failing: {text.count(len(failing), 'cell')}")
    for name in failing[:_SHOWN]:
        out.print(styled(f"{new.cells[name].words}: {text.line(name, 200)}"))
    and_more(out, len(failing) - _SHOWN)
    missing = sum(cell.outcome is Outcome.NOT_RUN for cell in new.cells.values())
    for reason in new.incomplete:
        out.print(styled(f"! accepted incomplete: {reason}", "bold yellow"))
    if missing:
        out.print(styled(f"! {text.count(missing, 'cell')} accepted as not run", "bold yellow"))
