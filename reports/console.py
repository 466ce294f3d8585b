"""Pieces that the terminal reports are made of. rich is imported when one is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports import text
from reports.outcome import Outcome

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_STYLES = {
    Outcome.PASSED: "blue",
    Outcome.UNDELEGATED: "cyan",
    Outcome.VACUOUS: "yellow",
    Outcome.XFAILED: "yellow",
    Outcome.NOT_RUN: "bold yellow",
    Outcome.XPASSED: "bold magenta",
}


def style_of(outcome: Outcome) -> str:
    """The rich style of an outcome."""
    return _STYLES.get(outcome, "bold red" if outcome.is_red else "")


def styled(value: str, style: str = "") -> Text:
    """Text from a record; brackets in it are not markup, escape sequences are gone."""
    from rich.text import Text

    return Text(text.clean(value), style=style)


def section(out: Console, title: str) -> None:
    """A blank line and a heading."""
    out.print()
    out.print(styled(title, "bold"))


def and_more(out: Console, number: int) -> None:
    """Say how many items a bounded list leaves out, if any."""
    if number > 0:
        out.print(styled(f"and {number:,} more", "dim"))


def new_table(*headers: str) -> Table:
    """An empty table with a ruled head."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    made = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
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
