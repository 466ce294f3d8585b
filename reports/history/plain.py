"""Render the findings of a history as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
import pandas as pd

from harness.record.number_text import spell_number
from reports.history.store import History
from reports.history.view import Findings


def render(past: History, found: Findings) -> str:
    """Render every row of every requested table, and the runs.

    Numbers that are not finite become ``"inf"``, ``"-inf"``, ``"nan"``.
    """
    tables = {
        "runs": past.runs,
        "nights": found.nights,
        "cell": found.cell,
        "steps": found.steps,
        "first_bad": found.first_bad,
        "flaky": found.flaky,
    }
    made: dict[str, Any] = {"problems": past.problems, "cells": len(past.cells)}
    for name, table in tables.items():
        if table is not None:
            rows = table.to_dict("records")
            made[name] = [{str(key): _plain(value) for key, value in row.items()} for row in rows]
    return msgspec.json.format(msgspec.json.encode(made), indent=1).decode()


def _plain(value: Any) -> Any:
    if isinstance(value, dict | list):
        return value
    if value is None or value is pd.NaT:
        return None
    if isinstance(value, datetime):
        return value.isoformat()
    if hasattr(value, "item"):
        value = value.item()
    return spell_number(value)
