"""Programs that nobody here lowered, executed in a warm child process.

A backend hands on what it does not trust with :func:`execute`; in the child it is asked again and
finds :func:`is_inside` true. What crashes there is an error here (:mod:`harness.execution.child`).
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch

from harness.backend import Execution
from harness.case import Inputs
from harness.errors import ProgramError
from harness.execution.child import Child

_MARK = "CONFORM_FOREIGN"

# What a whole cell may take by default (--cell-timeout).
SECONDS = 300.0


class TensorValue(msgspec.Struct):
    """A tensor as it travels: its elements in the order that its memory has."""

    dtype: str
    shape: tuple[int, ...]
    dim_order: tuple[int, ...]
    data: memoryview

    @classmethod
    def of(cls, tensor: torch.Tensor) -> TensorValue:
        """A dense copy of a tensor."""
        order = tuple(tensor.dim_order()) if tensor.numel() else tuple(range(tensor.dim()))
        memory = tensor.detach().permute(order).contiguous().reshape(-1)
        data = memory.view(torch.uint8).numpy().tobytes()
        return cls(
            str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), order, memoryview(data)
        )

    def tensor(self) -> torch.Tensor:
        """What travelled.

        Raises:
            ProgramError: it contradicts itself.
        """
        dtype = getattr(torch, self.dtype, None)
        is_order = sorted(self.dim_order) == list(range(len(self.shape)))
        if not isinstance(dtype, torch.dtype) or not is_order or min(self.shape, default=0) < 0:
            raise ProgramError(f"a tensor of {self.dtype}{self.shape} came in pieces")
        sizes = [self.shape[dim] for dim in self.dim_order]
        try:
            flat = torch.empty(0, dtype=torch.uint8)
            if len(self.data):
                flat = torch.frombuffer(bytearray(self.data), dtype=torch.uint8)
            memory = flat.view(dtype).view(sizes)
        except (RuntimeError, ValueError) as error:
            raise ProgramError(f"a tensor of {self.dtype}{self.shape} came in pieces") from error
        return memory.permute([self.dim_order.index(dim) for dim in range(len(sizes))])


Value = TensorValue | int | float | bool | str | None


class Task(msgspec.Struct):
    """Execute a program on a backend for some calls."""

    backend: str
    program: bytes
    calls: list[list[Value]]


class Result(msgspec.Struct):
    """An :class:`~harness.backend.Execution`."""

    runtime: str
    outputs: list[list[Value]]


def execute(backend: str, program: bytes, calls: Sequence[Inputs]) -> Execution:
    """What ``backend.execute(program, calls)`` returns in the child.

    Args:
        backend: name of a registered backend.
        program: bytes of the ``.pte``.
        calls: flat inputs of each call.

    Raises:
        ProgramError: the program is refused, ends the child, or takes longer than 300 s.
    """
    task = Task(backend, program, [pack(inputs) for inputs in calls])
    answer = _child().ask(msgspec.msgpack.encode(task), SECONDS)
    try:
        result = msgspec.msgpack.decode(answer, type=Result)
    except msgspec.MsgspecError as error:
        raise ProgramError(f"what executes foreign programs answers nonsense: {error}") from error
    return Execution([unpack(values) for values in result.outputs], result.runtime)


def is_inside() -> bool:
    """Whether this process is the child."""
    return _MARK in os.environ


def pack(values: Sequence[Any]) -> list[Value]:
    """Values as they travel."""
    return [TensorValue.of(value) if isinstance(value, torch.Tensor) else value for value in values]


def unpack(values: Sequence[Value]) -> list[Any]:
    """The inverse of :func:`pack`.

    Raises:
        ProgramError: a tensor contradicts itself.
    """
    return [value.tensor() if isinstance(value, TensorValue) else value for value in values]


@functools.cache
def _child() -> Child:
    return Child(
        Path(__file__).with_name("served_backend.py"),
        "the process that executes foreign programs",
        {_MARK: "1"},
    )
