"""A TOSA flatbuffer as a delegate: each call runs it on the TOSA reference model, in a child."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import numpy
import torch

from backends.tosa.graph import root
from backends.tosa.served import Array, Request, Result
from harness import Child, DelegateHandle, DelegatePayload, ProgramError

# What a whole cell may take by default (--cell-timeout).
CALL_SECONDS = 300.0

# Without the variable, a graph that the model rejects costs seconds: it forks and has gdb print
# a backtrace (func_print_backtrace in the model's func_debug.cc).
CHILD = Child(
    Path(__file__).with_name("served.py"),
    "the TOSA reference model",
    {"TOSA_MODEL_NO_BACKTRACE": "1"},
    limited=True,
)


def load(payload: DelegatePayload) -> DelegateHandle:
    """Parse the graph's signature and return its executor.

    Raises:
        ProgramError: the payload is not a TOSA graph.
    """
    inputs, outputs = _interface(payload.data)
    name = hashlib.sha256(payload.data).hexdigest()
    holder: int | None = None

    def ask(request: Request) -> Result:
        answer = CHILD.ask(msgspec.msgpack.encode(request), CALL_SECONDS)
        try:
            return msgspec.msgpack.decode(answer, type=Result)
        except msgspec.MsgspecError as error:
            raise ProgramError(f"the reference model answers nonsense: {error}") from error

    def call(arguments: list[Any]) -> None:
        nonlocal holder
        if len(arguments) != inputs + outputs:
            raise ProgramError(
                f"TOSA graph has {inputs} inputs and {outputs} outputs, "
                f"the program passes {len(arguments)} arguments"
            )
        if not all(isinstance(value, torch.Tensor) for value in arguments):
            raise ProgramError("the TOSA delegate takes and returns tensors only")
        request = Request(name, [Array.of(to_array(tensor)) for tensor in arguments[:inputs]])
        result = ask(request) if holder is not None and holder == CHILD.pid else Result()
        if not result.status:
            with tempfile.NamedTemporaryFile(suffix=".tosa") as file:
                file.write(payload.data)
                file.flush()
                request.file = file.name
                result = ask(request)
            holder = CHILD.pid
        if result.status != "GraphStatus.TOSA_VALID":
            raise ProgramError(f"the reference model ended with {result.status}")
        if len(result.outputs) != outputs:
            raise ProgramError(
                f"the reference model returned {len(result.outputs)} of {outputs} outputs"
            )
        for array, tensor in zip(result.outputs, arguments[inputs:], strict=True):
            try:
                result_array = array.array()
            except (TypeError, ValueError) as error:
                raise ProgramError(f"the reference model returned no array: {error}") from error
            store(result_array, tensor)

    return call


def _interface(data: bytes) -> tuple[int, int]:
    """How many inputs and outputs a graph has.

    Raises:
        ProgramError: it has none that can be read.
    """
    try:
        block = root(data).Regions(0).Blocks(0)
        return block.InputsLength(), block.OutputsLength()
    except ProgramError:
        raise
    except Exception as error:
        # The flatbuffer's accessors raise whatever an offset beyond the bytes leads to.
        raise ProgramError(f"the TOSA graph cannot be read: {error}") from error


def to_array(tensor: torch.Tensor) -> numpy.ndarray[Any, Any]:
    """The tensor's memory as an array: a channels-last tensor becomes an NHWC array.

    The reference model takes NumPy's types; bfloat16 and float8 travel as their bits.
    """
    memory = tensor.permute(tensor.dim_order()).contiguous()
    if memory.dtype == torch.bfloat16:
        memory = memory.view(torch.uint16)
    elif memory.dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        memory = memory.view(torch.uint8)
    array: numpy.ndarray[Any, Any] = memory.numpy()
    return array


def store(array: numpy.ndarray[Any, Any], tensor: torch.Tensor) -> None:
    """Write a result into the tensor that the program planned for it, by memory order.

    Raises:
        ProgramError: the result has another number of bytes than the program planned.
    """
    if array.nbytes != tensor.nbytes:
        raise ProgramError(
            f"the reference model returned {array.nbytes} bytes {array.dtype}{array.shape} for a "
            f"planned tensor of {tensor.nbytes} bytes {tensor.dtype}{tuple(tensor.shape)}"
        )
    if tensor.numel() == 0:
        return
    order = tuple(tensor.dim_order())
    flat = torch.frombuffer(bytearray(array.tobytes()), dtype=tensor.dtype)
    tensor.permute(order).copy_(flat.view([tensor.shape[dim] for dim in order]))
