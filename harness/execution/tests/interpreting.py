"""Child process: run a program that may be broken, and report the result."""

from __future__ import annotations

import msgspec
import torch

from harness.errors import ProgramError
from harness.execution.execute import Interpreter, run_native
from harness.execution.kernels import AtenKernels, RuntimeKernels

torch.set_num_threads(1)
SETS = {"runtime": RuntimeKernels(), "aten": AtenKernels()}


class Task(msgspec.Struct):
    """A program, its input as float32 bytes with a shape, and the runtime that executes it."""

    executor: str
    program: bytes
    shape: tuple[int, ...]
    data: bytes


def answer(request: bytes) -> bytes:
    task = msgspec.msgpack.decode(request, type=Task)
    inputs = (torch.frombuffer(bytearray(task.data), dtype=torch.float32).reshape(task.shape),)
    try:
        if task.executor == "native":
            run_native(task.program, [inputs])
        else:
            Interpreter(task.program, {}, SETS[task.executor])(inputs)
    except ProgramError as error:
        return f"refused: {error}".encode()
    except Exception as error:
        return f"escaped: {error!r}".encode()
    return b"ran"
