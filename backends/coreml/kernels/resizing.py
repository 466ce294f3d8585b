"""Resizing of images and other tensors.

Definitions: docstrings in coremltools ``mil/ops/defs/iOS15/image_resizing.py`` (the grids are in
``resize_bilinear``) and ``iOS16``, ``iOS17``. Values: positions in float64, interpolation in
float32 along the width and then the height as in torch, rounded once to the dtype of ``x``.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from backends.coreml.kernels.base import (
    Scalar,
    check_allocation,
    register_kernel,
    to_int,
    to_ints,
    to_number,
)
from harness import ProgramError, UnsupportedProgram

_Number = torch.Tensor | Scalar


def make_grid(mode: str, span: float, count: int) -> torch.Tensor:
    """Return positions of samples in the interval from 0 to ``span``, in float64.

    Args:
        mode: a sampling mode of ``resize_bilinear``.
        span: length of the interval: the size of an image less 1. A box can have a negative one.
        count: number of samples.

    Raises:
        ProgramError: the mode is unknown.
    """
    steps = torch.arange(count, dtype=torch.float64)
    if mode in ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS"):
        if count == 1:
            grid = steps + (span / 2 if mode == "ALIGN_CORNERS" else 0)
        else:
            grid = steps * span / (count - 1)
    elif mode == "DEFAULT":
        grid = steps * (span + 1) / count
    elif mode == "OFFSET_CORNERS":
        grid = (steps + 0.5) * max(span, 1) / count
    elif mode == "UNALIGN_CORNERS":
        grid = (steps + 0.5) * (span + 1) / count - 0.5
    else:
        raise ProgramError(f"unknown sampling mode {mode!r}")
    return grid.clamp(min(span, 0), max(span, 0))


def _make_image_grid(mode: str, size: int, count: int) -> torch.Tensor:
    if size < 1 or count < 1:
        raise ProgramError(f"cannot resize an axis from {size} to {count}")
    return make_grid(mode, float(size - 1), count)


def interpolate(x: torch.Tensor, axis: int, grid: torch.Tensor) -> torch.Tensor:
    """Interpolate along an axis at positions within it."""
    low = grid.floor().to(torch.int64)
    high = (low + 1).clamp(max=x.shape[axis] - 1)
    part = (grid - low).to(torch.float32)
    part = part.reshape([-1 if i == axis else 1 for i in range(x.dim())])
    return x.index_select(axis, low) * (1 - part) + x.index_select(axis, high) * part


def _resize(x: torch.Tensor, sizes: list[int], mode: str) -> torch.Tensor:
    """Interpolate linearly along the last axes."""
    check_allocation([*x.shape[: x.dim() - len(sizes)], *sizes], torch.float32)
    result = x.to(torch.float32)
    for axis, count in reversed(list(enumerate(sizes, x.dim() - len(sizes)))):
        check_allocation([*result.shape[:axis], count, *result.shape[axis + 1 :]], torch.float32)
        result = interpolate(result, axis, _make_image_grid(mode, x.shape[axis], count))
    return result.to(x.dtype)


def _resize_nearest(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Take the element at ``floor(i * input / output)`` along the last axes."""
    if any(size < 1 for size in (*sizes, *x.shape[x.dim() - len(sizes) :])):
        raise ProgramError(f"cannot resize {list(x.shape)} to {sizes}")
    check_allocation([*x.shape[: x.dim() - len(sizes)], *sizes], x.dtype)
    for axis, count in enumerate(sizes, x.dim() - len(sizes)):
        places = torch.arange(count) * x.shape[axis] // count
        x = x.index_select(axis, places)
    return x


def _scale_sizes(x: torch.Tensor, height: _Number, width: _Number) -> list[int]:
    """Return ``floor(size * factor)`` of the last two axes, in float32 as coremltools does."""
    if x.dim() < 3:
        raise ProgramError(f"cannot resize a tensor of {x.dim()} dimensions")
    sizes = []
    for size, factor in zip(x.shape[-2:], (height, width), strict=True):
        number = to_number(factor)
        if isinstance(number, float):
            scaled = float(torch.tensor(number, dtype=torch.float32) * size)
            if not math.isfinite(scaled):
                raise ProgramError(f"a scale factor of {number}")
            sizes.append(math.floor(scaled))
        else:
            sizes.append(number * size)
    return sizes


@register_kernel("upsample_nearest_neighbor")
def upsample_nearest_neighbor(
    x: torch.Tensor, scale_factor_height: _Number = 1, scale_factor_width: _Number = 1
) -> torch.Tensor:
    """Resize the last two axes by factors to the nearest element before."""
    return _resize_nearest(x, _scale_sizes(x, scale_factor_height, scale_factor_width))


@register_kernel("resize_nearest_neighbor")
def resize_nearest_neighbor(
    x: torch.Tensor, target_size_height: _Number, target_size_width: _Number
) -> torch.Tensor:
    """Resize the last two axes to sizes, to the nearest element before."""
    return _resize_nearest(x, [to_int(target_size_height), to_int(target_size_width)])


@register_kernel("upsample_bilinear")
def upsample_bilinear(
    x: torch.Tensor,
    scale_factor_height: _Number = 1,
    scale_factor_width: _Number = 1,
    align_corners: bool = True,
    half_pixel_centers: bool | None = None,
) -> torch.Tensor:
    """Interpolate the last two axes; the scale follows from the sizes, not from the factors.

    ``half_pixel_centers`` (iOS 16) is the opposite of ``align_corners`` unless set.
    """
    half = not align_corners if half_pixel_centers is None else bool(half_pixel_centers)
    if align_corners and half:
        raise ProgramError("align_corners and half_pixel_centers exclude each other")
    mode = "UNALIGN_CORNERS" if half else "STRICT_ALIGN_CORNERS" if align_corners else "DEFAULT"
    return _resize(x, _scale_sizes(x, scale_factor_height, scale_factor_width), mode)


@register_kernel("resize_bilinear")
def resize_bilinear(
    x: torch.Tensor,
    target_size_height: _Number = 1,
    target_size_width: _Number = 1,
    sampling_mode: str = "DEFAULT",
) -> torch.Tensor:
    """Interpolate the last two axes to sizes."""
    return _resize(x, [to_int(target_size_height), to_int(target_size_width)], sampling_mode)


@register_kernel("resize")
def resize(
    x: torch.Tensor,
    shape: Any,
    resized_dims: _Number,
    interpolation_mode: str = "LINEAR",
    sampling_mode: str = "DEFAULT",
) -> torch.Tensor:
    """Resize the last ``resized_dims`` axes to the last sizes of ``shape``; 0 keeps a size.

    Raises:
        UnsupportedProgram: the nearest element of another grid than ``DEFAULT`` is not defined.
    """
    count, wanted = to_int(resized_dims), to_ints(shape)
    if not 0 <= count <= len(wanted) <= x.dim():
        raise ProgramError(f"shape {wanted} for {count} of {x.dim()} axes")
    start = len(wanted) - count
    sizes = [n or m for n, m in zip(wanted[start:], x.shape[x.dim() - count :], strict=True)]
    if interpolation_mode == "NEAREST_NEIGHBOR":
        if sampling_mode != "DEFAULT":
            raise UnsupportedProgram(f"NEAREST_NEIGHBOR with sampling mode {sampling_mode}")
        return _resize_nearest(x, sizes)
    if interpolation_mode != "LINEAR" or not x.is_floating_point():
        raise UnsupportedProgram(f"{interpolation_mode} interpolation of {x.dtype}")
    return _resize(x, sizes, sampling_mode)
