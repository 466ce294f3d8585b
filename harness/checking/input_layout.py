"""Failures that depend on the memory layout of inputs: which inputs, and whether a copy helps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch

from harness.errors import CaseError
from harness.model.case import Built, Case, Given, arguments
from harness.model.trees import leaves, map_leaves
from harness.record.cell import Cell, Status

_MAY_DEPEND = frozenset({Status.MISMATCH, Status.FAILED, Status.UNSUPPORTED})

LONGEST_SECONDS = 120.0
"""A cell that took longer is not run again with contiguous inputs."""


def explain_layout(case: Case, cell: Cell, seed: int, run: Callable[[Case], Cell]) -> None:
    """Add to the error of a cell which inputs are not contiguous, and whether ``.contiguous()``
    on all of them helps, which is tried.

    Args:
        case: what the cell ran.
        cell: its record; one that passed, or whose inputs are all contiguous, stays as it is.
        seed: the run seed.
        run: runs another case as this one was run.
    """
    if cell.status not in _MAY_DEPEND:
        return
    try:
        views = list(_views(case.make(seed)))
    except CaseError:
        return  # the error of the cell says so
    if not views:
        return
    them = "it" if len(views) == 1 else "them"
    if cell.seconds > LONGEST_SECONDS:
        outcome = f"try .contiguous() on {them}"
    else:
        again = run(contiguous(case))
        outcome = (
            f"with .contiguous() on {them} the cell passes"
            if again.status is Status.PASSED
            else f"with .contiguous() on {them} the cell is {again.status.value} as well"
        )
    cell.error = f"{cell.error}; not contiguous: {'; '.join(views)}; {outcome}"


def contiguous(case: Case) -> Case:
    """The same case with contiguous copies of its inputs, in every call."""

    def build() -> Any:
        module, *given = case.build()
        return module, *(map_leaves(_copied, one) for one in given)

    calls = case.calls
    return dataclasses.replace(
        case,
        build=build,
        calls=None if calls is None else lambda: [map_leaves(_copied, one) for one in calls()],
    )


def _copied(value: Any) -> Any:
    return value.contiguous() if isinstance(value, torch.Tensor) else value


def _views(built: Built) -> Iterator[str]:
    """Inputs of the first call that are not contiguous, in words."""
    for name, tensor in _tensors(built.inputs):
        if tensor.layout is torch.strided and not tensor.is_contiguous():
            yield f"{name} has shape {list(tensor.shape)} and strides {list(tensor.stride())}" + (
                " (channels last)"
                if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
                else " (a transposed, permuted or expanded view)"
            )


def _tensors(given: Given) -> Iterator[tuple[str, torch.Tensor]]:
    positional, by_name = arguments(given)
    pairs = [*((f"input {number}", one) for number, one in enumerate(positional)),
             *((f"input {name}", one) for name, one in by_name.items())]  # fmt: skip
    for name, value in pairs:
        found = [one for one in leaves(value) if isinstance(one, torch.Tensor)]
        for number, tensor in enumerate(found):
            yield name if len(found) == 1 else f"{name}, tensor {number}", tensor
