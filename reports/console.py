"""Building blocks of the terminal reports. rich is imported when one is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports import text
from reports.outcome import CellOutcome

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_STYLES = {
    CellOutcome.PASSED: "blue",
    CellOutcome.UNDELEGATED: "cyan",
    CellOutcome.DEGRADED: "magenta",
    CellOutcome.VACUOUS: "yellow",
    CellOutcome.XFAILED: "yellow",
    CellOutcome.NOT_RUN: "bold yellow",
    CellOutcome.XPASSED: "bold magenta",
}


def outcome_style(outcome: CellOutcome) -> str:
    """The rich style of an outcome."""
    return _STYLES.get(outcome, "bold red" if outcome.is_red else "")


def safe_text(value: str, style: str = "") -> Text:
    """Text from a record without markup and without escape sequences."""
    from rich.text import Text

    return Text(text.clean(value), style=style)


def print_section(out: Console, title: str) -> None:
    """Print a blank line and a heading."""
    out.print()
    out.print(safe_text(title, "bold"))


def print_more(out: Console, number: int) -> None:
    """Print how many items a shortened list leaves out, if any."""
    if number > 0:
        out.print(safe_text(f"and {number:,} more", "dim"))


def new_table(*headers: str, title: str = "") -> Table:
    """An empty table with a ruled head, and a title above it if one is given."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    made = Table(
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        title=title or None,
        title_justify="left",
    )
    for header in headers:
        made.add_column(header, overflow="fold")
    return made


def new_grid() -> Table:
    """An empty grid of names and values."""
    from rich.table import Table

    made = Table.grid(padding=(0, 2))
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    return made
