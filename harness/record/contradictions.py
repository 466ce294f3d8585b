"""Find contradictions in records. A record that contradicts itself is damaged. Imports no torch.

A cell that passed was executed, and each output is within its bound. A cell that was not executed
has no numerics. A complete run records its end, its exit status and its number of records. Only
rules that all schema versions follow are checked.
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
            return f"{status.value}, but nothing executed it"
        if not cell.numerics:
            return f"{status.value}, but no output was compared"
        for row in cell.numerics:
            if (problem := _explain_nonconformity(row)) is not None:
                where = f"{row.role} {row.output} of call {row.call}"
                return f"{status.value}, but {where} {problem}"
    elif status is Status.MISMATCH and cell.runtime == "none":
        return "mismatch, but nothing executed it"
    elif status in _NEVER_EXECUTED and (cell.runtime != "none" or cell.numerics):
        return f"{status.value}, but it was executed"
    if status in (Status.XFAILED, Status.XPASSED) and cell.limitation is None:
        return f"{status.value}, but the record names no limitation"
    return _find_impossible_number(cell)


def _explain_nonconformity(row: Numerics) -> str | None:
    """Return why an output does not conform to its reference; None if it conforms."""
    if row.exceeding:
        return f"has {row.exceeding} elements outside its bound"
    if row.problem is not None:
        return f"has a problem: {row.problem}"
    # Not "> 1": a NaN conforms to no bound.
    return None if row.bound_used <= 1 else f"uses {row.bound_used:g} times its bound"


def _find_impossible_number(cell: Cell) -> str | None:
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
        return f"{twice} bytes of constants are duplicates, but there are only {constants} bytes"
    counts.append(twice)
    for row in cell.numerics:
        counts += [row.exceeding, row.elements - row.exceeding]
    if min(counts) < 0:
        return "a count is negative, or more elements exceed the bound than the output has"
    return None


def has_long_integer(record: object) -> bool:
    """Return whether plain data contains an integer outside :data:`INTEGERS`."""
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
    """Return the contradictions in ``run.json``, one line each.

    Args:
        info: the description as read.
        record: the JSON object of the file; ``info`` has defaults for missing fields.
        cells: the records of its cells.
    """
    lines = [
        *_find_missing_fields(info, record),
        *_check_ending(info),
        *_check_expected(info, cells),
    ]
    return [*lines, "it has an integer of more than 64 bits"] if has_long_integer(record) else lines


def _find_missing_fields(info: RunInfo, record: Mapping[str, object]) -> Iterator[str]:
    """Report missing fields; their defaults must not hide that they are missing."""
    if gone := [name for name in _NEEDED if name not in record]:
        yield f"it has no {' and no '.join(gone)}"
    parts = record.get("merged_from")
    for part, raw in zip(info.merged_from, parts if isinstance(parts, list) else (), strict=False):
        if isinstance(raw, dict) and (gone := [key for key in _NEEDED_OF_PARTS if key not in raw]):
            yield f"merged run {part.name} has no {' and no '.join(gone)}"


def _check_ending(info: RunInfo) -> Iterator[str]:
    if info.complete:
        # Records of schema 1 do not count their lines.
        lines = info.records if info.schema > 1 else 0
        ending = {"exit_status": info.exit_status, "ended": info.ended, "records": lines}
        if gone := [name for name, value in ending.items() if value is None]:
            yield f"it is complete, but has no {' and no '.join(gone)}"
    if info.records is not None and info.records < 0:
        yield f"its number of records is {info.records}"


def _check_expected(info: RunInfo, cells: Iterable[Cell]) -> Iterator[str]:
    if not info.expected and (first := next(iter(cells), None)) is not None:
        yield f"no cell was expected, but there are records: {first.id}"
