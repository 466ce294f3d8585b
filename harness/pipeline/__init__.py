"""How a case goes through: the stages, the tester that runs them in order, the cell they make.

Stages are plain functions; :class:`~harness.pipeline.tester.Tester` keeps their artifacts, and
:func:`~harness.pipeline.runner.run_cell` makes the record. ``speed/`` keeps torch from computing
things twice. Imports the vocabulary, ``record``, ``execution`` and ``numerics``.
"""
