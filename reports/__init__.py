"""Reports: render a run as text, Markdown, one HTML page, or tables.

Reports read records only (:mod:`harness.record`); pandas, rich and Jinja2 are imported when first
used. ``summary.py`` computes the outcomes and totals that all reports show, ``verdict.py`` the
verdict. ``render/`` shows one run, ``comparison/`` compares two, ``history/`` and ``site/`` show
many; ``tables/`` and ``export/`` convert a run for other tools; ``commands/`` has the commands of
``conform``.
"""

from __future__ import annotations

from reports import tables
from reports.outcome import CellOutcome
from reports.render import html, markdown, terminal
from reports.summary import RunSummary
from reports.tables import frame
from reports.verdict import RunVerdict

__all__ = [
    "CellOutcome",
    "RunSummary",
    "RunVerdict",
    "frame",
    "html",
    "markdown",
    "tables",
    "terminal",
]
