"""Make the record of a cell whose process died: from its stack, its observed memory, or its own
record."""

from __future__ import annotations

from pathlib import Path

from harness.record.cell import Cell, Status
from harness.record.target import split_cell_id
from harness.workers import worker_status
from harness.workers.last_words import extract_last_stderr_lines, read_captured_stderr
from harness.workers.memory_monitor import ObservedMemory

_STACK_LINES = 40
_TIMEOUT_MARK = "Timeout ("  # the first words of faulthandler.dump_traceback_later


def stack_file(logs: Path, worker: str) -> Path:
    """The file that a worker's faulthandler writes to."""
    return logs / f"{worker}.stack"


def add_lowered_facts(cell: Cell, lowered: Cell | None) -> None:
    """Add the data from before execution to the record of a crash.

    Args:
        cell: the record.
        lowered: the record of the same cell after lowering; None if it did not get that far.
    """
    if lowered is None or lowered.id != cell.id:
        return
    cell.delegation, cell.stages = lowered.delegation, lowered.stages
    cell.program_bytes = lowered.program_bytes
    cell.constant_bytes = lowered.constant_bytes
    cell.duplicate_constant_bytes = lowered.duplicate_constant_bytes
    cell.planned_memory = lowered.planned_memory


def build_crash_record(
    logs: Path, name: str, worker: str, seed: int, seen: ObservedMemory | None
) -> tuple[Cell, bool]:
    """Return the record of a cell whose worker died.

    Args:
        logs: the folder of the worker's stack and status files.
        name: the cell's id.
        worker: name of the worker.
        seed: run seed.
        seen: observations of the memory monitor.

    Returns:
        A crash or a timeout, and False; or the cell's own record and True, if the worker died while
        it traced the cell.
    """
    last = worker_status.read_status(logs, worker)
    cell = _death(
        logs,
        name,
        worker,
        seed,
        stage=(last.stage or None) if last is not None and last.cell == name else None,
        seen=seen,
    )
    judged = worker_status.read_traced_record(logs, worker, name)
    if judged is None:
        return cell, False
    judged.trace_skipped = f"tracing it ended the worker: {cell.error}"
    add_observed_memory(judged, seen)
    return judged, True


def add_observed_memory(cell: Cell, seen: ObservedMemory | None) -> None:
    """Add the memory monitor's figures of a cell's stages, without tracing."""
    if seen is not None:
        seen.complete(cell.memory)
        cell.memory.pop(worker_status.TRACE, None)


def _death(
    logs: Path, name: str, worker: str, seed: int, *, stage: str | None, seen: ObservedMemory | None
) -> Cell:
    case, target = split_cell_id(name)
    reason = seen.verdict if seen is not None else ""
    stack = [] if reason else _stack(logs, worker).strip().splitlines()
    timed_out = any(line.startswith(_TIMEOUT_MARK) for line in stack)
    error = reason or (stack[0] if stack else f"worker {worker} died without a stack")
    words = (
        ""
        if reason or timed_out
        else extract_last_stderr_lines("\n".join((read_captured_stderr(logs, worker), *stack)))
    )
    dead = Cell(
        case=case,
        target=str(target),
        status=Status.TIMEOUT if timed_out else Status.CRASHED,
        stage=stage,
        error=f"{error}: {words}" if words else error,
        memory=dict(seen.peaks) if seen is not None else {},
        traceback="\n".join(stack[:_STACK_LINES]) or None,
        seed=seed,
        worker=worker,
    )
    add_lowered_facts(dead, worker_status.read_lowered_record(logs, worker))
    return dead


def _stack(logs: Path, worker: str) -> str:
    try:
        return stack_file(logs, worker).read_text(errors="replace")
    except OSError:
        return ""  # the worker died before it made the file, or could not make it
