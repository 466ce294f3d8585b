"""Reports: render a run as text, Markdown, one HTML page, or tables.

Reads records only (:mod:`harness.run`, :mod:`harness.cell`); pandas, rich and Jinja2 are
imported when first used. Each renderer is one module with ``render(run)``; what they have in
common is computed in :mod:`reports.summary` and judged in :mod:`reports.verdict`.
"""

from __future__ import annotations

from reports import html, markdown, tables, terminal
from reports.outcome import Outcome
from reports.summary import Summary
from reports.tables import frame
from reports.verdict import RunVerdict

__all__ = ["Outcome", "RunVerdict", "Summary", "frame", "html", "markdown", "tables", "terminal"]
