"""A view of a history for a terminal. rich is imported when something is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.console import and_more, new_table, section, styled
from reports.history.view import Section, View

if TYPE_CHECKING:
    from rich.console import Console


def render(shown: View, console: Console | None = None) -> None:
    """Print it; a table that is wider than the terminal becomes a list."""
    from rich.console import Console

    out = console or Console()
    out.rule(styled(shown.title, "bold"), align="left")
    for fact in shown.facts:
        out.print(styled(fact))
    for warning in shown.warnings:
        out.print(styled(f"! {warning}", "yellow"))
    for part in shown.sections:
        section(out, part.title)
        if not part.rows:
            continue  # the title has said how many there are
        if part.note:
            out.print(styled(part.note, "dim"))
        _rows(part, out)
        and_more(out, part.more)


def _rows(part: Section, out: Console) -> None:
    from rich.padding import Padding

    table = new_table(*part.columns)
    for row in part.rows:
        table.add_row(*(styled(value) for value in row))
    # rich drops columns that do not fit without a word.
    wide = out.options.update(max_width=1000)
    if out.measure(table, options=wide).maximum <= out.width:
        out.print(table)
        return
    for row in part.rows:
        out.print(styled("  ".join(row[:2]), "bold"))
        named = zip(part.columns[2:], row[2:], strict=True)
        said = [f"{name} {value}" for name, value in named if value and value != "0"]
        out.print(Padding(styled("; ".join(said)), (0, 0, 0, 4)))
