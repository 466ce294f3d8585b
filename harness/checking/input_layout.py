"""Find out whether a failure depends on the memory layout of inputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch

from harness.errors import CaseError
from harness.model.case import Built, CallInputs, Case, arguments
from harness.model.trees import leaves, map_leaves
from harness.record.cell import Cell, Status

_MAY_DEPEND = frozenset({Status.MISMATCH, Status.FAILED, Status.UNSUPPORTED})

LONGEST_SECONDS = 120.0
"""Cells that took longer are not run again with contiguous inputs."""


def explain_layout(case: Case, cell: Cell, seed: int, run: Callable[[Case], Cell]) -> None:
    """Add to a cell's error which inputs are not contiguous, and whether ``.contiguous()`` helps.

    The cell is run again with contiguous inputs to find out.

    Args:
        case: the case of the cell.
        cell: its record. It is not changed if it passed or if all inputs are contiguous.
        seed: run seed.
        run: runs another case in the same way.
    """
    if cell.status not in _MAY_DEPEND:
        return
    try:
        views = list(_describe_views(case.make(seed)))
    except CaseError:
        return  # the cell has this error already
    if not views:
        return
    them = "it" if len(views) == 1 else "them"
    if cell.seconds > LONGEST_SECONDS:
        outcome = f"try .contiguous() on {them}"
    else:
        again = run(make_contiguous(case))
        outcome = (
            f"with .contiguous() on {them} the cell passes"
            if again.status is Status.PASSED
            else f"with .contiguous() on {them} the cell is {again.status.value} as well"
        )
    cell.error = f"{cell.error}; not contiguous: {'; '.join(views)}; {outcome}"


def make_contiguous(case: Case) -> Case:
    """The same case with contiguous copies of its inputs in every call."""

    def build() -> Any:
        module, *given = case.build()
        return module, *(map_leaves(_to_contiguous, one) for one in given)

    calls = case.calls
    return dataclasses.replace(
        case,
        build=build,
        calls=None
        if calls is None
        else lambda: [map_leaves(_to_contiguous, one) for one in calls()],
    )


def _to_contiguous(value: Any) -> Any:
    return value.contiguous() if isinstance(value, torch.Tensor) else value


def _describe_views(built: Built) -> Iterator[str]:
    """Describe the inputs of the first call that are not contiguous."""
    for name, tensor in _tensors(built.inputs):
        if tensor.layout is torch.strided and not tensor.is_contiguous():
            yield f"{name} has shape {list(tensor.shape)} and strides {list(tensor.stride())}" + (
                " (channels last)"
                if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
                else " (a transposed, permuted or expanded view)"
            )


def _tensors(given: CallInputs) -> Iterator[tuple[str, torch.Tensor]]:
    positional, by_name = arguments(given)
    pairs = [*((f"input {number}", one) for number, one in enumerate(positional)),
             *((f"input {name}", one) for name, one in by_name.items())]  # fmt: skip
    for name, value in pairs:
        found = [one for one in leaves(value) if isinstance(one, torch.Tensor)]
        for number, tensor in enumerate(found):
            yield name if len(found) == 1 else f"{name}, tensor {number}", tensor
