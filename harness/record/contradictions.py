"""Contradictions in records: a record that contradicts itself is damaged. Imports no torch.

A cell that passed was executed, and an output was compared and conforms. A cell that was never
executed has no numbers. A run that ended by itself records when, how, and its number of records.
Only rules that every writer of every schema version follows are here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from harness.record.cell import Cell, Numerics, Status
from harness.record.run import RunInfo

#: The integers that a record may have: 64 bits with a sign, as tables and readers carry them.
INTEGERS = range(-(2**63), 2**63)

_CONFORMING = (Status.PASSED, Status.XPASSED)
_NEVER_EXECUTED = (Status.UNAVAILABLE, Status.LOWERED)
_NEEDED = ("schema", "seed", "expected", "backends")
_NEEDED_OF_PARTS = ("seed", "expected", "backends")


def find_cell_contradiction(cell: Cell) -> str | None:
    """Return the first contradiction in a record, or None."""
    status = cell.status
    if status in _CONFORMING:
        if cell.runtime == "none":
            return f"{status.value}, and nothing executed it"
        if not cell.numerics:
            return f"{status.value}, and no output was compared"
        for row in cell.numerics:
            if (problem := _exceeds(row)) is not None:
                where = f"{row.role} {row.output} of call {row.call}"
                return f"{status.value}, and {where} {problem}"
    elif status is Status.MISMATCH and cell.runtime == "none":
        return "mismatch, and nothing executed it"
    elif status in _NEVER_EXECUTED and (cell.runtime != "none" or cell.numerics):
        return f"{status.value}, and yet it was executed"
    if status in (Status.XFAILED, Status.XPASSED) and cell.limitation is None:
        return f"{status.value}, and no limitation says why"
    return _impossible_number(cell)


def _exceeds(row: Numerics) -> str | None:
    """Return why a row describes an output that does not conform; None if it conforms."""
    if row.exceeding:
        return f"has {row.exceeding} elements outside its bound"
    if row.problem is not None:
        return f"has a problem: {row.problem}"
    # Not "> 1": a NaN conforms to no bound.
    return None if row.bound_used <= 1 else f"uses {row.bound_used:g} times its bound"


def _impossible_number(cell: Cell) -> str | None:
    executed = [("the first call", cell.first_seconds), ("a further call", cell.steady_seconds)]
    for name, value in [("seconds", cell.seconds), *cell.stages.items(), *executed]:
        if value is not None and value < 0:
            return f"{name} took {value:g} seconds"
    for name, held in cell.memory.items():
        if held < 0:
            return f"{name} held {held} bytes"
    taken = cell.delegation
    counts = [
        cell.program_bytes,
        *cell.planned_memory,
        taken.delegates,
        taken.delegated_nodes,
        taken.undelegated_nodes,
    ]
    constants, twice = cell.constant_bytes or 0, cell.duplicate_constant_bytes or 0
    if twice > constants:
        return f"of {constants} bytes of constants {twice} are there once too often"
    counts.append(twice)
    for row in cell.numerics:
        counts += [row.exceeding, row.elements - row.exceeding]
    if min(counts) < 0:
        return "a count in it is negative, or more elements exceed the bound than there are"
    return None


def has_long_integer(record: object) -> bool:
    """Return whether plain data has an integer outside :data:`INTEGERS`, which no table can
    hold."""
    stack = [record]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            stack += value.values()
        elif isinstance(value, list):
            stack += value
        elif isinstance(value, int) and value not in INTEGERS:
            return True
    return False


def find_run_contradictions(
    info: RunInfo, record: Mapping[str, object], cells: Sequence[Cell]
) -> list[str]:
    """Return the contradictions in a run's description, a line each.

    Args:
        info: the description as read.
        record: the JSON object of the file; ``info`` has defaults for missing fields.
        cells: the records of its cells.
    """
    lines = [*_left_out(info, record), *_ending(info), *_unexpected(info, cells)]
    return [*lines, "it has a number of more than 64 bits"] if has_long_integer(record) else lines


def _left_out(info: RunInfo, record: Mapping[str, object]) -> Iterator[str]:
    """Report missing fields, which must not count as empty."""
    if gone := [name for name in _NEEDED if name not in record]:
        yield f"it has no {' and no '.join(gone)}"
    parts = record.get("merged_from")
    for part, raw in zip(info.merged_from, parts if isinstance(parts, list) else (), strict=False):
        if isinstance(raw, dict) and (gone := [key for key in _NEEDED_OF_PARTS if key not in raw]):
            yield f"its part {part.name} has no {' and no '.join(gone)}"


def _ending(info: RunInfo) -> Iterator[str]:
    if info.complete:
        # Records of schema 1 do not count their lines.
        lines = info.records if info.schema > 1 else 0
        ending = {"exit_status": info.exit_status, "ended": info.ended, "records": lines}
        if gone := [name for name, value in ending.items() if value is None]:
            yield f"it says that it is complete, and has no {' and no '.join(gone)}"
    if info.records is not None and info.records < 0:
        yield f"it says that it wrote {info.records} records"


def _unexpected(info: RunInfo, cells: Iterable[Cell]) -> Iterator[str]:
    if not info.expected and (first := next(iter(cells), None)) is not None:
        yield f"no cell was expected, and there are records: {first.id}"
