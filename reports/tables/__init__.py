"""A run as pandas tables, for notebooks and for other tools.

pandas is imported with the first table. :data:`TABLES` has the tables of one run, by the names that
``conform export --table`` accepts.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.record.run import Run
from reports.tables.cells import failures, frame, largest, not_run, slowest
from reports.tables.counts import column, coverage, limitations, matrix, totals
from reports.tables.delegation import delegation, left_over
from reports.tables.lazy import Frame
from reports.tables.numbers import histogram, numerics
from reports.tables.setting import environments

__all__ = [
    "TABLES",
    "Frame",
    "column",
    "coverage",
    "delegation",
    "environments",
    "failures",
    "frame",
    "histogram",
    "largest",
    "left_over",
    "limitations",
    "matrix",
    "not_run",
    "numerics",
    "slowest",
    "totals",
]

TABLES: dict[str, Callable[[Run], Frame]] = {
    "cells": frame,
    "coverage": coverage,
    "delegation": delegation,
    "environment": lambda run: environments([run]),
    "failures": failures,
    "histogram-bound": lambda run: histogram(run, "bound_used"),
    "histogram-sqnr": lambda run: histogram(run, "sqnr_db"),
    "largest": largest,
    "left-over": left_over,
    "limitations": limitations,
    "matrix": matrix,
    "not-run": not_run,
    "numerics": numerics,
    "slowest": slowest,
    "totals": totals,
}
