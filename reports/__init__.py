"""Reports: render a run as text, Markdown, one HTML page, or tables.

Reads records only (:mod:`harness.record`); pandas, rich and Jinja2 are imported when first used.
What the reports have in common stands beside this file: ``summary.py`` computes it, ``verdict.py``
judges it. ``render/`` shows one run, ``comparison/`` two, ``history/`` and ``site/`` many;
``tables/`` and ``export/`` hand a run to other tools; ``commands/`` are those of ``conform``.
"""

from __future__ import annotations

from reports import tables
from reports.outcome import Outcome
from reports.render import html, markdown, terminal
from reports.summary import Summary
from reports.tables import frame
from reports.verdict import RunVerdict

__all__ = ["Outcome", "RunVerdict", "Summary", "frame", "html", "markdown", "tables", "terminal"]
