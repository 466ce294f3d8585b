"""One run, rendered: for the terminal, as Markdown, as one HTML page.

Each takes the :class:`~reports.summary.Summary` of a run. Imports what stands beside this folder
and nothing of the other wings.
"""
