"""Run a case on a target in this process: the stages, the tester that calls them, the cell.

Stages are plain functions; :class:`~harness.pipeline.tester.Tester` keeps their artifacts, and
:func:`~harness.pipeline.runner.run_cell` makes the record. ``speed/`` caches work that torch
repeats for each program. Imports ``model``, ``record``, ``execution`` and ``numerics``.
"""
