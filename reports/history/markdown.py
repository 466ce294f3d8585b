"""Render a view of a history as GitHub-flavoured Markdown of bounded length."""

from __future__ import annotations

from reports.history.view import View
from reports.render.markdown import Bounded, more, prose, table


def render(shown: View) -> str:
    """Render the view; the text names parts that it omits for length."""
    page = Bounded()
    page.add(f"# {prose(shown.title)}")
    page.add("\n".join(f"- {prose(item)}" for item in [*shown.facts, *shown.warnings]))
    for part in shown.sections:
        body = [[prose(value) for value in row] for row in part.rows]
        parts = [f"## {prose(part.title)}", prose(part.note)]
        parts += [table(part.columns, body), *more(part.more)] if body else []
        page.add("\n\n".join(filter(None, parts)), name=part.title)
    return page.text
