"""Print tables of supported operators."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from reports.console import new_table
from reports.support import views, words
from reports.support.views import Support, SupportTable

_STYLES = {Support.YES: "green", Support.PARTLY: "yellow", Support.FAILS: "red"}


def render(tables: Sequence[SupportTable], console: Console, *, full: bool) -> None:
    """Print a line for each target; if there is one, or with ``full``, also the operators.

    Args:
        tables: the tables.
        console: where to print.
        full: print the operators of each target.
    """
    for table in tables:
        console.print(Text(f"{table.target}: {words.describe_table(table)}"), soft_wrap=True)
    for table in tables if full or len(tables) == 1 else ():
        _print_table(table, console)
    for kind, meaning in words.MEANINGS.items():
        if kind.value:
            console.print(Text(f"{kind.value}: {meaning}", style="dim"), soft_wrap=True)


def _print_table(table: SupportTable, console: Console) -> None:
    shown = new_table(title=f"{table.target}  {words.describe_versions(table)}")
    shown.add_column("operator", overflow="fold")
    shown.add_column("shown", no_wrap=True)
    shown.add_column("claimed")
    shown.add_column("cells")
    for row in views.list_shown(table):
        shown.add_row(
            Text(row.op if row.is_core else f"{row.op} (not core)"),
            Text(row.support.value, style=_STYLES.get(row.support, "")),
            Text(words.describe_claim(row.claim)),
            Text(words.describe_row(row)),
        )
    console.print(shown)
    for line in words.describe_gaps(table):
        console.print(Text(line), soft_wrap=True)
