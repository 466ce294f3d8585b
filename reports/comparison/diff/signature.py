"""The signature of a failure: its error without what differs from run to run."""

from __future__ import annotations

import re

from reports import text
from reports.comparison.snapshot import CellFacts
from reports.outcome import Outcome

_LENGTH = 200

_RULES = [
    (re.compile(r"0x[0-9a-fA-F]+"), "#"),
    (re.compile(r"\b[0-9a-f]{12,64}\b"), "#"),
    # Of a path only the file's name stays: the folder differs from host to host.
    (re.compile(r"(?:[A-Za-z]:)?(?:[\\/][\w.+~@-]+)+[\\/]([\w.+~@-]+)"), r"\1"),
    # Names that a compiler numbers: buf12, node_3, arg0_1. float32 and conv2d stay.
    (re.compile(r"(?<=_)\d+\b|(?<=\bbuf)\d+\b"), "#"),
    (re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)*(?:e[+-]?\d+)?(?!\w)", re.IGNORECASE), "#"),
]


def normalised(error: str) -> str:
    """An error on one line, without addresses, hashes, numbers and folders."""
    shown = text.line(error, 2 * _LENGTH)
    for pattern, replacement in _RULES:
        shown = pattern.sub(replacement, shown)
    return shown[:_LENGTH]


def signature(cell: CellFacts) -> str:
    """How a cell failed: outcome, stage and normalised error; empty when it did not.

    Two mismatches are alike: they differ in every number they state, and the numerics tell
    those apart.
    """
    if not cell.outcome.is_red and cell.outcome is not Outcome.XFAILED:
        return ""
    where = f" in {cell.stage}" if cell.stage else ""
    why = "" if cell.outcome is Outcome.MISMATCH else normalised(cell.error)
    return f"{cell.outcome.value}{where}{': ' if why else ''}{why}"
