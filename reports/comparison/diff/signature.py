"""The signature of a failure: its error without text that differs from run to run."""

from __future__ import annotations

import re

from reports import text
from reports.comparison.snapshot import CellFacts
from reports.outcome import CellOutcome

_LENGTH = 200

_RULES = [
    (re.compile(r"0x[0-9a-fA-F]+"), "#"),
    (re.compile(r"\b[0-9a-f]{12,64}\b"), "#"),
    # Keep only the file's name of a path: the folder differs from host to host.
    (re.compile(r"(?:[A-Za-z]:)?(?:[\\/][\w.+~@-]+)+[\\/]([\w.+~@-]+)"), r"\1"),
    # Numbered names of a compiler: buf12, node_3, arg0_1. Keep float32 and conv2d.
    (re.compile(r"(?<=_)\d+\b|(?<=\bbuf)\d+\b"), "#"),
    (re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)*(?:e[+-]?\d+)?(?!\w)", re.IGNORECASE), "#"),
]


def normalize_error(error: str) -> str:
    """Put an error on one line, without addresses, hashes, numbers and folders."""
    shown = text.line(error, 2 * _LENGTH)
    for pattern, replacement in _RULES:
        shown = pattern.sub(replacement, shown)
    return shown[:_LENGTH]


def signature(cell: CellFacts) -> str:
    """How a cell failed: outcome, stage and normalized error; empty if it did not fail.

    The error of a mismatch is left out: it consists of numbers, which the numerics compare.
    """
    if not cell.outcome.is_red and cell.outcome is not CellOutcome.XFAILED:
        return ""
    where = f" in {cell.stage}" if cell.stage else ""
    why = "" if cell.outcome is CellOutcome.MISMATCH else normalize_error(cell.error)
    return f"{cell.outcome.value}{where}{': ' if why else ''}{why}"
