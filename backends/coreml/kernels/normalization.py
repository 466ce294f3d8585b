"""Normalizations.

Formulas and default epsilons: docstrings in coremltools ``mil/ops/defs/iOS15/normalization.py``.
Values: torch's ``batch_norm``, ``instance_norm`` and ``layer_norm``, which accumulate float16 in
float32, and torch's ``local_response_norm``; this and ``l2_norm`` are computed in float32 and
rounded once, since torch's has no float16.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from backends.coreml.kernels.base import (
    Scalar,
    check_allocation,
    match_dtypes,
    normalize_axes,
    register_kernel,
    to_int,
    to_number,
)
from harness import ProgramError

_Number = torch.Tensor | Scalar


@register_kernel("batch_norm")
def batch_norm(
    x: torch.Tensor,
    mean: torch.Tensor,
    variance: torch.Tensor,
    gamma: torch.Tensor | None = None,
    beta: torch.Tensor | None = None,
    epsilon: _Number = 1e-5,
) -> torch.Tensor:
    """Compute ``gamma * (x - mean) / sqrt(variance + epsilon) + beta`` for each channel."""
    center, spread, scale, shift = match_dtypes(x, mean, variance, gamma, beta)
    return functional.batch_norm(
        x, center, spread, scale, shift, False, 0.0, float(to_number(epsilon))
    )


@register_kernel("instance_norm")
def instance_norm(
    x: torch.Tensor,
    gamma: torch.Tensor | None = None,
    beta: torch.Tensor | None = None,
    epsilon: _Number = 1e-5,
) -> torch.Tensor:
    """Normalize each channel of each instance by its own mean and variance."""
    if x.dim() < 3:
        raise ProgramError(f"cannot normalize a tensor of {x.dim()} dimensions")
    scale, shift = match_dtypes(x, gamma, beta)
    # Not torch.nn.functional's: it rejects instances of one element.
    return torch.instance_norm(
        x, scale, shift, None, None, True, 0.0, float(to_number(epsilon)), False
    )


@register_kernel("layer_norm")
def layer_norm(
    x: torch.Tensor,
    axes: Any = None,
    gamma: torch.Tensor | None = None,
    beta: torch.Tensor | None = None,
    epsilon: _Number = 1e-5,
) -> torch.Tensor:
    """Normalize over some axes; ``gamma`` and ``beta`` have the sizes of these axes in order."""
    numbers = normalize_axes(axes, x.dim())
    if not numbers:
        raise ProgramError("layer_norm needs an axis")
    order = [axis for axis in range(x.dim()) if axis not in numbers] + numbers
    inverse = [order.index(axis) for axis in range(x.dim())]
    scale, shift = match_dtypes(x, gamma, beta)
    sizes = [x.shape[axis] for axis in numbers]
    moved = x.permute(order)
    normal = functional.layer_norm(moved, sizes, scale, shift, float(to_number(epsilon)))
    return normal.permute(inverse)


@register_kernel("l2_norm")
def l2_norm(x: torch.Tensor, epsilon: _Number = 1e-6) -> torch.Tensor:
    """Compute ``x / sqrt(sum(x^2) + epsilon)`` over the last three axes."""
    if x.dim() < 3:
        raise ProgramError(f"cannot normalize a tensor of {x.dim()} dimensions")
    wide = x.to(torch.float32)
    total = torch.sum(torch.square(wide), (-3, -2, -1), keepdim=True)
    return (wide / torch.sqrt(total + to_number(epsilon))).to(x.dtype)


@register_kernel("local_response_norm")
def local_response_norm(
    x: torch.Tensor,
    size: _Number,
    alpha: _Number = 1e-4,
    beta: _Number = 0.75,
    k: _Number = 1.0,
) -> torch.Tensor:
    """Compute ``x / (k + alpha / size * sum(x_j^2))^beta`` over neighboring channels."""
    count = to_int(size)
    check_allocation([x.shape[0], x.shape[1] + count, *x.shape[2:]], torch.float32)
    factors = [float(to_number(value)) for value in (alpha, beta, k)]
    return functional.local_response_norm(x.to(torch.float32), count, *factors).to(x.dtype)
