"""Programs that nobody here lowered, executed in a warm child process.

A backend hands on what it does not trust with :func:`execute`; in the child it is asked again and
finds :func:`is_child_process` true. What crashes there is an error here
(:mod:`harness.execution.child_process`).
"""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch

from harness.errors import ProgramError, printable
from harness.execution.child_process import ChildProcess
from harness.execution.native.runtime_log import extract_failure
from harness.model.backend import Execution
from harness.model.case import Inputs

_MARK = "CONFORM_FOREIGN"

# What a whole cell may take by default (--cell-timeout).
DEFAULT_TIMEOUT_SECONDS = 300.0


class TensorValue(msgspec.Struct):
    """A tensor as it travels: its elements in the order that its memory has."""

    dtype: str
    shape: tuple[int, ...]
    dim_order: tuple[int, ...]
    data: memoryview

    @classmethod
    def from_tensor(cls, tensor: torch.Tensor) -> TensorValue:
        """A dense copy of a tensor."""
        order = tuple(tensor.dim_order()) if tensor.numel() else tuple(range(tensor.dim()))
        memory = tensor.detach().permute(order).contiguous().reshape(-1)
        data = memory.view(torch.uint8).numpy().tobytes()
        return cls(
            str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), order, memoryview(data)
        )

    def to_tensor(self) -> torch.Tensor:
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


class ExecutionRequest(msgspec.Struct):
    """Execute a program for some calls.

    Attributes:
        program: the file of its bytes, which may be many.
        calls: flat inputs of each call.
        backend: on which backend; empty for whoever executes the delegates that it names.
        method: which of its methods.
        log: the file that gets what native code prints on standard error.
    """

    program: str
    calls: list[list[Value]]
    backend: str
    method: str
    log: str


class ExecutionResponse(msgspec.Struct):
    """An :class:`~harness.model.backend.Execution`."""

    runtime: str
    outputs: list[list[Value]]


def execute(
    backend: str,
    program: bytes,
    calls: Sequence[Inputs],
    *,
    method: str = "forward",
    seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> Execution:
    """What ``backend.execute(program, calls)`` returns in the child.

    Args:
        backend: name of a registered backend; empty for whoever executes the delegates that the
            program names (:mod:`harness.execution.any_program.run`).
        program: bytes of the ``.pte``.
        calls: flat inputs of each call.
        method: which method, where no backend is named.
        seconds: how long it may take.

    Raises:
        ProgramError: the program is refused, ends the child, or takes longer.
    """
    with tempfile.TemporaryDirectory(prefix="conform-") as folder:
        file, log = Path(folder, "program.pte"), Path(folder, "log")
        file.write_bytes(program)
        log.touch()
        task = ExecutionRequest(
            str(file), [pack_values(inputs) for inputs in calls], backend, method, str(log)
        )
        try:
            answer = _child().ask(msgspec.msgpack.encode(task), seconds)
        except ProgramError as error:
            raise type(error)(_with_log(str(error), log.read_bytes())) from error
    try:
        result = msgspec.msgpack.decode(answer, type=ExecutionResponse)
    except msgspec.MsgspecError as error:
        raise ProgramError(f"what executes foreign programs answers nonsense: {error}") from error
    return Execution([unpack_values(values) for values in result.outputs], result.runtime)


def _with_log(message: str, log: bytes) -> str:
    """A failure with what the runtime logged of it, where the message has not got it yet: a child
    that died could not add it."""
    said = printable(extract_failure(log.decode("utf-8", "replace")))
    return message if not said or "the runtime says" in message else f"{message} ({said})"


def is_child_process() -> bool:
    """Whether this process is the child."""
    return _MARK in os.environ


def pack_values(values: Sequence[Any]) -> list[Value]:
    """Values as they travel."""
    return [
        TensorValue.from_tensor(value) if isinstance(value, torch.Tensor) else value
        for value in values
    ]


def unpack_values(values: Sequence[Value]) -> list[Any]:
    """The inverse of :func:`pack_values`.

    Raises:
        ProgramError: a tensor contradicts itself.
    """
    return [value.to_tensor() if isinstance(value, TensorValue) else value for value in values]


@functools.cache
def _child() -> ChildProcess:
    return ChildProcess(
        Path(__file__).parent / "any_program" / "child_execution.py",
        "the process that executes foreign programs",
        {_MARK: "1"},
    )
