"""Baseline: a run as a text file for git, a header and a sorted line for each cell.

To keep diffs small it has no times by default, rounded numbers, and no fields with default values.
The header counts the lines, so that a truncated or badly merged file is detected.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec

from harness.errors import RunUnreadable, RunUnwritable
from harness.record.folder import NOT_A_RECORD, check_schema, write_atomically
from harness.record.host import Environment
from harness.record.migrations import upgrade_baseline_cell
from harness.record.number_text import read_number, spell_number
from harness.record.run import SCHEMA_VERSION, BackendState, MergedPart, Run, RunInfo
from harness.record.target import cell_id
from reports import text
from reports.comparison.snapshot import CellFacts, RunSnapshot, take_snapshot
from reports.summary import NO_TARGET

#: Version of the layout of the file; the records in it have the schema of runs.
FORMAT = 1


class _Header(msgspec.Struct, kw_only=True, omit_defaults=True):
    baseline: int
    schema: int
    cells: int
    name: str
    times: bool = False
    started: str = ""
    seed: int = 0
    targets: list[str] = []
    selection: str = ""
    incomplete: list[str] = []
    problems: list[str] = []
    backends: dict[str, BackendState] = {}
    environment: Environment = msgspec.field(default_factory=Environment)
    merged_from: list[MergedPart] = []


def store(path: Path, run: Run | RunSnapshot, *, times: bool = False) -> RunSnapshot:
    """Write a run as a baseline; an existing file is replaced atomically.

    Args:
        path: the file.
        run: the run to accept.
        times: keep times, in seconds rounded to milliseconds; each update then changes every line.

    Returns:
        The baseline as read back from the file.

    Raises:
        RunUnwritable: the folder or the disk refuses.
    """
    taken = take_snapshot(run)
    info = taken.info
    head = _Header(
        baseline=FORMAT,
        schema=SCHEMA_VERSION,
        cells=len(taken.cells),
        name=taken.name,
        times=times and taken.has_times,
        started=info.started,
        seed=info.seed,
        targets=info.targets,
        selection=info.selection,
        incomplete=taken.incomplete,
        problems=info.problems,
        backends=dict(sorted(info.backends.items())),
        environment=info.environment,
        # Comparisons do not use the superseded ids.
        merged_from=[msgspec.structs.replace(part, superseded=[]) for part in info.merged_from],
    )
    lines = [_line(cell, times=head.times) for _, cell in sorted(taken.cells.items())]
    content = b"\n".join([msgspec.json.encode(head), *map(msgspec.json.encode, lines), b""])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)
    except OSError as error:
        raise RunUnwritable(f"cannot write the baseline {path}: {error.strerror}") from error
    return load(path)


def load(path: Path) -> RunSnapshot:
    """Read a stored baseline.

    Raises:
        RunUnreadable: missing, not a baseline, damaged, cut short, or of a newer version.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise RunUnreadable(f"cannot read the baseline {path}: {error.strerror}") from error
    lines = raw.splitlines()
    head = _header(path, lines[0] if lines else b"")
    cells: dict[str, CellFacts] = {}
    for number, line in enumerate(lines[1:], start=2):
        try:
            record = msgspec.json.decode(line)
            upgrade_baseline_cell(record)
            cell = msgspec.convert(_read_numbers(record), type=CellFacts)
        except NOT_A_RECORD as error:
            raise RunUnreadable(
                f"{path} line {number} is not a cell of a baseline: {error}; restore the file, or "
                "make it again with: conform baseline update"
            ) from error
        name = cell.case if cell.target == NO_TARGET else cell_id(cell.case, cell.target)
        if name in cells:
            raise RunUnreadable(f"{path} line {number}: {text.line(name, 200)} is there twice")
        cells[name] = cell
    if len(cells) != head.cells:
        raise RunUnreadable(
            f"{path} has {len(cells)} cells, its header says {head.cells}; restore the file, or "
            "make it again with: conform baseline update"
        )
    info = RunInfo(
        schema=head.schema,
        started=head.started,
        complete=not head.incomplete,
        seed=head.seed,
        targets=head.targets,
        selection=head.selection,
        expected=list(cells),
        backends=head.backends,
        problems=head.problems,
        environment=head.environment,
        merged_from=head.merged_from,
    )
    return RunSnapshot(name=head.name, info=info, cells=cells, incomplete=head.incomplete,
                    has_times=head.times, stored=True)  # fmt: skip


def _header(path: Path, line: bytes) -> _Header:
    try:
        head = msgspec.json.decode(line, type=_Header)
    except NOT_A_RECORD as error:
        raise RunUnreadable(
            f"{path} is not a baseline: its first line is no header ({error}); make one with: "
            "conform baseline update"
        ) from error
    if head.baseline > FORMAT:
        raise RunUnreadable(
            f"{path} has baseline format {head.baseline}, this version reads up to {FORMAT}; "
            "update the project"
        )
    check_schema(path, head.schema)
    return head


def _line(cell: CellFacts, *, times: bool) -> dict[str, Any]:
    made: dict[str, Any] = {"case": cell.case, "target": cell.target}
    for field in msgspec.structs.fields(cell):
        value = getattr(cell, field.name)
        if field.name in made or value == field.default:
            continue
        if field.name == "seconds":
            if not times or not math.isfinite(value):
                continue
            value = round(value, 3)
        elif isinstance(value, dict):
            value = dict(sorted(value.items()))
        made[field.name] = msgspec.to_builtins(value)
    made["outputs"] = [_numbers(item) for item in made.get("outputs", [])]
    return {name: value for name, value in made.items() if value not in ({}, [])}


def _numbers(output: dict[str, Any]) -> dict[str, Any]:
    return {name: spell_number(value) for name, value in output.items() if value is not None}


def _read_numbers(record: Any) -> Any:
    for output in record.get("outputs", []):
        for name, value in output.items():
            output[name] = read_number(value)
    return record
