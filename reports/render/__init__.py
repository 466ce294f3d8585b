"""Render one run: for the terminal, as Markdown, as one HTML page.

Each renderer takes the :class:`~reports.summary.RunSummary` of a run. This package imports modules
of ``reports`` itself, not its other subpackages.
"""
