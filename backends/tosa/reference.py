"""A TOSA flatbuffer as a delegate: each call runs it on the TOSA reference model."""

from __future__ import annotations

from typing import Any

import numpy
import torch
import tosa_reference_model

from backends.tosa.graph import root
from harness.errors import ProgramError
from harness.execute import DelegateHandle
from harness.program import DelegatePayload


def load(payload: DelegatePayload) -> DelegateHandle:
    """Parse the graph's signature and return its executor.

    Raises:
        ProgramError: the payload is not a TOSA graph.
    """
    block = root(payload.data).Regions(0).Blocks(0)
    inputs, outputs = block.InputsLength(), block.OutputsLength()

    def call(arguments: list[Any]) -> None:
        if len(arguments) != inputs + outputs:
            raise ProgramError(
                f"TOSA graph has {inputs} inputs and {outputs} outputs, "
                f"the program passes {len(arguments)} arguments"
            )
        results, status = tosa_reference_model.run(
            payload.data,
            [to_array(tensor) for tensor in arguments[:inputs]],
            verbosity="NONE",
            initialize_variable_tensor_from_numpy=1,
        )
        if status != tosa_reference_model.GraphStatus.TOSA_VALID:
            raise ProgramError(f"the reference model ended with {status}")
        for array, tensor in zip(results, arguments[inputs:], strict=True):
            store(array, tensor)

    return call


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
