"""Arguments of a delegate as a driver gets them: bytes in memory order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import torch

from harness.errors import ProgramError


def read_memory(tensor: torch.Tensor) -> numpy.ndarray[Any, Any]:
    """Convert a tensor to an array in memory order: a channels-last tensor becomes NHWC.

    NumPy has neither bfloat16 nor float8; they become unsigned integers.
    """
    memory = tensor.permute(tensor.dim_order()).contiguous()
    if memory.dtype == torch.bfloat16:
        memory = memory.view(torch.uint16)
    elif memory.dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        memory = memory.view(torch.uint8)
    array: numpy.ndarray[Any, Any] = memory.numpy()
    return array


def write_memory(array: numpy.ndarray[Any, Any], tensor: torch.Tensor) -> None:
    """Copy the bytes of a result in memory order into the program's planned tensor.

    Raises:
        ProgramError: sizes differ, in bytes or in a dimension.
    """
    order = tuple(tensor.dim_order())
    sizes = tuple(tensor.shape[dim] for dim in order)
    # Dimensions of size 1 are the same in memory; passes add and remove them.
    if array.nbytes != tensor.nbytes or _squeeze(array.shape) != _squeeze(sizes):
        raise ProgramError(
            f"the delegate returned {array.nbytes} bytes {array.dtype}{array.shape} for a "
            f"planned tensor of {tensor.nbytes} bytes {tensor.dtype}{sizes}"
        )
    if tensor.numel() == 0:
        return
    flat = torch.frombuffer(bytearray(array.tobytes()), dtype=tensor.dtype)
    tensor.permute(order).copy_(flat.view([tensor.shape[dim] for dim in order]))


def _squeeze(sizes: Sequence[int]) -> list[int]:
    return [size for size in sizes if size != 1]
