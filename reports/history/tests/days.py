"""Runs that started on days in a row, each on its own commit; for the history."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from harness.record.cell import Cell, Status
from harness.record.host import Environment
from reports.tests.runs import cell, write

START = datetime(2026, 1, 1, 2, tzinfo=UTC)


def environment(commit: str, **fields: Any) -> Environment:
    given: dict[str, Any] = {
        "python": "3.11.7", "platform": "Linux 6.1", "machine": "x86_64", "cores": 4,
        "processor": "Some CPU", "host": "builder", "packages": {"torch": "2.9.0"},
        "git_commit": commit, "git_dirty": False,
    }  # fmt: skip
    return Environment(**(given | fields))


def night(
    root: Path, number: float, cells: Iterable[Cell], *, name: str = "", **fields: Any
) -> Path:
    """A run that started on a day; its commit is ``c<day>`` unless given."""
    setting = {key: fields.pop(key) for key in list(fields) if key in Environment.__struct_fields__}
    commit = setting.pop("git_commit", f"c{int(number)}")
    folder = root / (name or f"night-{number:05.1f}")
    given: dict[str, Any] = {
        "started": (START + timedelta(days=number)).isoformat(),
        "environment": environment(commit, **setting),
        "seed": 0,
    }
    write(folder, cells, **(given | fields))
    return folder


def words(root: Path, said: Sequence[Status | None], **fields: Any) -> None:
    """One cell in successive runs; None where a run has no record of it."""
    for number, status in enumerate(said):
        record = cell("add/a", status=status or Status.PASSED, error=f"error of {number}")
        cells = [] if status is None else [record]
        night(root, number, cells, expected=[record.id], **fields)
