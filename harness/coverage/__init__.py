"""Which cell executes which code of the vendors' lowering, and what no cell executes.

``conform coverage record`` runs cells; ``recorder`` records the lines of each in ``coverage_map``.
``unexecuted`` compares the map with the installed code. docs/coverage.md explains the results.
"""
