"""Execute programs from elsewhere in a child process that stays alive between calls.

A backend passes a program that it does not trust to :func:`execute`. The child calls the backend
again; there :func:`is_child_process` returns True. A crash of the child raises an error in this
process (:mod:`harness.workers.child_process`).
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
from harness.execution.native.runtime_log import extract_failure
from harness.model.backend import Execution
from harness.model.case import Inputs
from harness.workers.child_process import ChildProcess

_CHILD_VARIABLE = "CONFORM_FOREIGN"

# The default time limit of a cell (--cell-timeout).
DEFAULT_TIMEOUT_SECONDS = 300.0


class TensorValue(msgspec.Struct):
    """A tensor in a message: its elements in the order of its memory."""

    dtype: str
    shape: tuple[int, ...]
    dim_order: tuple[int, ...]
    data: memoryview

    @classmethod
    def from_tensor(cls, tensor: torch.Tensor) -> TensorValue:
        """Encode a dense copy of a tensor."""
        order = tuple(tensor.dim_order()) if tensor.numel() else tuple(range(tensor.dim()))
        memory = tensor.detach().permute(order).contiguous().reshape(-1)
        data = memory.view(torch.uint8).numpy().tobytes()
        return cls(
            str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), order, memoryview(data)
        )

    def to_tensor(self) -> torch.Tensor:
        """Decode the tensor.

        Raises:
            ProgramError: dtype, shape, dim order and data are inconsistent.
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
    """A request to execute a program for some calls.

    Attributes:
        program: path of the ``.pte``, which may be too large for a message.
        calls: flat inputs of each call.
        backend: name of the backend that executes it; empty to choose by the program's delegates.
        method: name of the method.
        log: path of the file for standard error of native code.
    """

    program: str
    calls: list[list[Value]]
    backend: str
    method: str
    log: str


class ExecutionResponse(msgspec.Struct):
    """The fields of an :class:`~harness.model.backend.Execution` in a message."""

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
    """Return ``backend.execute(program, calls)``, executed in the child process.

    Args:
        backend: name of a registered backend; empty to choose by the program's delegates
            (:mod:`harness.execution.any_program.run`).
        program: bytes of the ``.pte``.
        calls: flat inputs of each call.
        method: name of the method; used only without a backend.
        seconds: time limit.

    Raises:
        ProgramError: the program is rejected, ends the child, or exceeds the time limit.
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
            raise type(error)(_add_log(str(error), log.read_bytes())) from error
    try:
        result = msgspec.msgpack.decode(answer, type=ExecutionResponse)
    except msgspec.MsgspecError as error:
        raise ProgramError(
            f"the process that executes foreign programs returned an invalid answer: {error}"
        ) from error
    return Execution([unpack_values(values) for values in result.outputs], result.runtime)


def _add_log(message: str, log: bytes) -> str:
    """Append the runtime's log to a message that lacks it: a child that died could not add it."""
    text = printable(extract_failure(log.decode("utf-8", "replace")))
    return message if not text or "the runtime says" in message else f"{message} ({text})"


def is_child_process() -> bool:
    """Return whether this process is the child process."""
    return _CHILD_VARIABLE in os.environ


def pack_values(values: Sequence[Any]) -> list[Value]:
    """Encode values for a message."""
    return [
        TensorValue.from_tensor(value) if isinstance(value, torch.Tensor) else value
        for value in values
    ]


def unpack_values(values: Sequence[Value]) -> list[Any]:
    """Decode values; the inverse of :func:`pack_values`.

    Raises:
        ProgramError: a tensor is inconsistent.
    """
    return [value.to_tensor() if isinstance(value, TensorValue) else value for value in values]


@functools.cache
def _child() -> ChildProcess:
    return ChildProcess(
        Path(__file__).parent / "any_program" / "child_execution.py",
        "the process that executes foreign programs",
        {_CHILD_VARIABLE: "1"},
    )
