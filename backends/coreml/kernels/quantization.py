"""Quantization.

Definitions: docstrings in coremltools ``mil/ops/defs/iOS17/quantization_ops.py``. They do not say
how halves are rounded; ``quantize_by_scale_and_zp`` in ``coremltools/optimize/_utils.py``, with
which coremltools quantizes constants by this operation, rounds them to even (``numpy.around``).
"""

from __future__ import annotations

import torch

from backends.coreml.kernels.base import (
    Scalar,
    normalize_axis,
    register_kernel,
    to_dtype,
    to_tensor,
)
from harness import ProgramError

_Number = torch.Tensor | Scalar


def _align(value: torch.Tensor, x: torch.Tensor, axis: _Number | None) -> torch.Tensor:
    """Return a scale or zero point in a shape that is broadcast along ``axis``."""
    if value.dim() == 0:
        return value
    if axis is None:
        raise ProgramError("a vector of scales needs an axis")
    number = normalize_axis(axis, x.dim())
    if value.dim() != 1 or value.shape[0] != x.shape[number]:
        raise ProgramError(f"{list(value.shape)} parameters for an axis of {x.shape[number]}")
    return value.reshape([-1 if i == number else 1 for i in range(x.dim())])


@register_kernel("quantize")
def quantize(
    input: torch.Tensor,
    scale: _Number,
    output_dtype: str,
    zero_point: _Number | None = None,
    axis: _Number | None = None,
) -> torch.Tensor:
    """Compute ``clip(round(input / scale) + zero_point)``, halves rounded to even."""
    dtype = to_dtype(output_dtype)
    if dtype not in (torch.int8, torch.uint8):
        raise ProgramError(f"cannot quantize to {output_dtype}")
    factor = _align(to_tensor(scale, input.dtype), input, axis)
    # In float32 from here on: float16 has no integers between 2048 and its largest.
    levels = torch.round(input / factor).to(torch.float32)
    if zero_point is not None:
        levels = levels + _align(to_tensor(zero_point), input, axis).to(torch.float32)
    limits = torch.iinfo(dtype)
    return levels.clamp(limits.min, limits.max).to(dtype)


@register_kernel("dequantize")
def dequantize(
    input: torch.Tensor,
    scale: _Number,
    zero_point: _Number | None = None,
    axis: _Number | None = None,
) -> torch.Tensor:
    """Compute ``scale * (input - zero_point)`` in the dtype of ``scale``."""
    factor = _align(to_tensor(scale), input, axis)
    if not factor.is_floating_point():
        raise ProgramError(f"a scale of {factor.dtype}")
    levels = input.to(factor.dtype)
    if zero_point is not None:
        levels = levels - _align(to_tensor(zero_point), input, axis).to(factor.dtype)
    return levels * factor
