"""Blocks, windows and reversals.

Definitions: docstrings in coremltools ``mil/ops/defs/iOS15/tensor_transformation.py`` and
``tensor_operation.py``; the order of channels in ``depth_to_space`` is in ``ReorganizeDataLayer``
of NeuralNetwork.proto. Results are exact.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from backends.coreml.kernels.base import (
    Scalar,
    check_allocation,
    move_elements,
    normalize_axes,
    normalize_axis,
    register_kernel,
    to_int,
    to_ints,
)
from harness import ProgramError

_Number = torch.Tensor | Scalar


def _read_block(value: _Number, *divided: int) -> int:
    size = to_int(value)
    if size < 1 or any(length % size for length in divided):
        raise ProgramError(f"a block of {size} does not divide {divided}")
    return size


@register_kernel("depth_to_space")
def depth_to_space(x: torch.Tensor, block_size: _Number) -> torch.Tensor:
    """Move channels into blocks; the place within the block is the slow part of the channel."""
    n, c, h, w = x.shape
    b = _read_block(block_size)
    if c % (b * b):
        raise ProgramError(f"{b} x {b} does not divide {c} channels")
    blocks = x.reshape(n, b, b, c // (b * b), h, w)
    return blocks.permute(0, 3, 4, 1, 5, 2).reshape(n, c // (b * b), h * b, w * b)


@register_kernel("space_to_depth")
def space_to_depth(x: torch.Tensor, block_size: _Number) -> torch.Tensor:
    """Move blocks into channels, the inverse of ``depth_to_space``."""
    n, c, h, w = x.shape
    b = _read_block(block_size, h, w)
    blocks = x.reshape(n, c, h // b, b, w // b, b)
    return blocks.permute(0, 3, 5, 1, 2, 4).reshape(n, c * b * b, h // b, w // b)


@register_kernel("pixel_shuffle")
def pixel_shuffle(x: torch.Tensor, upscale_factor: _Number) -> torch.Tensor:
    """Move channels into blocks as torch does; the place within the block is the fast part."""
    return functional.pixel_shuffle(x, _read_block(upscale_factor))


@register_kernel("pixel_unshuffle")
def pixel_unshuffle(x: torch.Tensor, downscale_factor: _Number) -> torch.Tensor:
    """Move blocks into channels, the inverse of ``pixel_shuffle``."""
    return functional.pixel_unshuffle(x, _read_block(downscale_factor))


def _read_pairs(value: Any) -> list[int]:
    table = value if isinstance(value, torch.Tensor) else torch.tensor(value)
    numbers = to_ints(table.reshape(-1))
    if len(numbers) != 4 or any(number < 0 for number in numbers):
        raise ProgramError(f"expected two pairs of 0 or more, found {numbers}")
    return numbers


@register_kernel("space_to_batch")
def space_to_batch(x: torch.Tensor, block_shape: Any, paddings: Any) -> torch.Tensor:
    """Pad with zeros and move blocks into the batch, whose slow part is the place in the block."""
    top, bottom, left, right = _read_pairs(paddings)
    height, width = to_ints(block_shape)
    n, c, h, w = x.shape
    check_allocation([n, c, h + top + bottom, w + left + right], x.dtype)
    padded = functional.pad(x, [left, right, top, bottom])
    h, w = padded.shape[2:]
    _read_block(height, h)
    _read_block(width, w)
    blocks = padded.reshape(n, c, h // height, height, w // width, width)
    moved = blocks.permute(3, 5, 0, 1, 2, 4)
    return moved.reshape(n * height * width, c, h // height, w // width)


@register_kernel("batch_to_space")
def batch_to_space(x: torch.Tensor, block_shape: Any, crops: Any) -> torch.Tensor:
    """Move parts of the batch into blocks and crop, the inverse of ``space_to_batch``."""
    top, bottom, left, right = _read_pairs(crops)
    height, width = to_ints(block_shape)
    n, c, h, w = x.shape
    if height < 1 or width < 1 or n % (height * width):
        raise ProgramError(f"blocks of {height} x {width} do not divide a batch of {n}")
    blocks = x.reshape(height, width, n // (height * width), c, h, w)
    whole = blocks.permute(2, 3, 4, 0, 5, 1).reshape(-1, c, h * height, w * width)
    if top + bottom > h * height or left + right > w * width:
        raise ProgramError(f"cannot crop {list(whole.shape)} by {[top, bottom, left, right]}")
    return whole[:, :, top : h * height - bottom, left : w * width - right]


@register_kernel("sliding_windows")
def sliding_windows(
    x: torch.Tensor, axis: _Number, size: _Number, stride: _Number = 1
) -> torch.Tensor:
    """Return windows along an axis; the elements of a window are the axis after it."""
    number = normalize_axis(axis, x.dim())
    windows = x.unfold(number, to_int(size), to_int(stride))
    check_allocation(windows.shape, x.dtype)
    return windows.movedim(-1, number + 1)


@register_kernel("reverse")
def reverse(x: torch.Tensor, axes: Any = None) -> torch.Tensor:
    """Reverse the order of elements along axes, by default along all."""
    return move_elements(torch.flip, x, dims=normalize_axes(axes, x.dim()))


@register_kernel("reverse_sequence")
def reverse_sequence(
    x: torch.Tensor, lengths: Any, seq_axis: _Number = 0, batch_axis: _Number = 0
) -> torch.Tensor:
    """Reverse the first ``lengths[i]`` elements along ``seq_axis`` of batch element ``i``."""
    sequence, batch = normalize_axis(seq_axis, x.dim()), normalize_axis(batch_axis, x.dim())
    counts, size = to_ints(lengths), x.shape[sequence]
    if len(counts) != x.shape[batch] or any(not 0 <= count <= size for count in counts):
        raise ProgramError(f"lengths {counts} for {x.shape[batch]} sequences of {size}")
    if sequence == batch:
        raise ProgramError("seq_axis and batch_axis are the same")
    places = torch.arange(size)
    count = torch.tensor(counts).unsqueeze(-1)
    order = torch.where(places < count, count - 1 - places, places)
    shape = [1] * x.dim()
    shape[batch], shape[sequence] = len(counts), size
    index = (order if batch < sequence else order.t()).reshape(shape).expand(x.shape)
    return move_elements(_take, x, axis=sequence, index=index)


def _take(x: torch.Tensor, *, axis: int, index: torch.Tensor) -> torch.Tensor:
    return torch.gather(x, axis, index)


@register_kernel("band_part")
def band_part(x: torch.Tensor, lower: _Number = -1, upper: _Number = -1) -> torch.Tensor:
    """Keep a band of the innermost matrix and set other elements to zero.

    The band has ``lower`` diagonals below and ``upper`` above the main one; negative: all.
    """
    below, above = to_int(lower), to_int(upper)
    distance = torch.arange(x.shape[-2]).unsqueeze(-1) - torch.arange(x.shape[-1])
    kept = torch.ones(distance.shape, dtype=torch.bool)
    if below >= 0:
        kept &= distance <= below
    if above >= 0:
        kept &= -distance <= above
    return torch.where(kept, x, torch.zeros_like(x))


@register_kernel("crop")
def crop(x: torch.Tensor, crop_height: Any, crop_width: Any) -> torch.Tensor:
    """Remove rows and columns at the borders of the last two axes."""
    (top, bottom), (left, right) = to_ints(crop_height), to_ints(crop_width)
    h, w = x.shape[-2:]
    if min(top, bottom, left, right) < 0 or top + bottom > h or left + right > w:
        raise ProgramError(f"cannot crop {h} x {w} by {[top, bottom, left, right]}")
    return x[..., top : h - bottom, left : w - right]
