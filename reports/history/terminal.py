"""Print a view of a history on a terminal. rich is imported only to print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.console import new_table, print_more, print_section, safe_text
from reports.history.view import Section, View

if TYPE_CHECKING:
    from rich.console import Console


def render(shown: View, console: Console | None = None) -> None:
    """Print the view; a table wider than the terminal becomes a list."""
    from rich.console import Console

    out = console or Console()
    out.rule(safe_text(shown.title, "bold"), align="left")
    for fact in shown.facts:
        out.print(safe_text(fact))
    for warning in shown.warnings:
        out.print(safe_text(f"! {warning}", "yellow"))
    for part in shown.sections:
        print_section(out, part.title)
        if not part.rows:
            continue  # the title has the number
        if part.note:
            out.print(safe_text(part.note, "dim"))
        _rows(part, out)
        print_more(out, part.more)


def _rows(part: Section, out: Console) -> None:
    from rich.padding import Padding

    table = new_table(*part.columns)
    for row in part.rows:
        table.add_row(*(safe_text(value) for value in row))
    # rich silently drops columns that do not fit.
    wide = out.options.update(max_width=1000)
    if out.measure(table, options=wide).maximum <= out.width:
        out.print(table)
        return
    for row in part.rows:
        out.print(safe_text("  ".join(row[:2]), "bold"))
        named = zip(part.columns[2:], row[2:], strict=True)
        said = [f"{name} {value}" for name, value in named if value and value != "0"]
        out.print(Padding(safe_text("; ".join(said)), (0, 0, 0, 4)))
