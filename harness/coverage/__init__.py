"""Which cell executes which code of the vendors' lowering, and what no cell executes.

``conform coverage record`` runs cells; ``recorder`` records the lines of each in ``coverage_map``.
``unexecuted`` compares the map with the installed code, ``affected`` selects cells by a patch.
docs/coverage.md explains the results.
"""
