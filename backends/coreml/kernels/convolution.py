"""Convolutions.

Definitions: docstrings in coremltools ``mil/ops/defs/iOS15/conv.py``. Padding ``same`` divides the
total padding as TensorFlow does, with the larger half at the end, and ``same_lower`` at the start:
the shape rules (``aggregated_pad`` in ``_utils.py``) and the text on ``same_lower`` agree with
this, while the docstring's formula for ``same`` (the larger half first) agrees with neither.
Values: torch's kernels in the dtype of ``x``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

from backends.coreml.kernels.base import (
    Scalar,
    check_allocation,
    register_kernel,
    to_int,
    to_ints,
    to_tensor,
)
from harness import ProgramError

_CONVOLUTIONS: dict[int, Callable[..., torch.Tensor]] = {
    1: functional.conv1d,
    2: functional.conv2d,
    3: functional.conv3d,
}
_TRANSPOSED: dict[int, Callable[..., torch.Tensor]] = {
    1: functional.conv_transpose1d,
    2: functional.conv_transpose2d,
    3: functional.conv_transpose3d,
}


def read_sizes(value: Any, count: int, default: int = 1) -> list[int]:
    """Return strides, dilations or kernel sizes: one positive integer for each spatial axis.

    Raises:
        ProgramError: their number differs, or one is below 1.
    """
    sizes = [default] * count if value is None else to_ints(value)
    if len(sizes) != count or any(size < 1 for size in sizes):
        raise ProgramError(f"expected {count} positive integers, found {sizes}")
    return sizes


def resolve_padding(
    pad_type: str,
    pad: Any,
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
) -> list[tuple[int, int]]:
    """Return elements to add before and after each spatial axis.

    Args:
        pad_type: ``valid``, ``custom``, ``same`` or ``same_lower``.
        pad: before and after for each axis; used for ``custom`` only.
        sizes: sizes of the input.
        kernel: sizes of the kernel with dilation.
        strides: strides.

    Raises:
        ProgramError: the type is unknown, or ``pad`` has another length or a negative number.
    """
    if pad_type == "valid":
        return [(0, 0)] * len(sizes)
    if pad_type == "custom":
        numbers = [0] * 2 * len(sizes) if pad is None else to_ints(pad)
        if len(numbers) != 2 * len(sizes) or any(number < 0 for number in numbers):
            raise ProgramError(f"expected {2 * len(sizes)} paddings of 0 or more, found {numbers}")
        return list(zip(numbers[::2], numbers[1::2], strict=True))
    if pad_type not in ("same", "same_lower"):
        raise ProgramError(f"unknown pad_type {pad_type!r}")
    pairs = []
    for size, width, stride in zip(sizes, kernel, strides, strict=True):
        total = max((-(-size // stride) - 1) * stride + width - size, 0)
        small, large = total // 2, total - total // 2
        pairs.append((small, large) if pad_type == "same" else (large, small))
    return pairs


def pad_spatial(x: torch.Tensor, pairs: Sequence[tuple[int, int]], value: float) -> torch.Tensor:
    """Pad the last axes with a constant; negative numbers crop.

    Raises:
        UnsupportedProgram: the result would be too large.
    """
    if not any(map(any, pairs)):
        return x
    rank = x.dim() - len(pairs)
    grown = [n + sum(pair) for n, pair in zip(x.shape[rank:], pairs, strict=True)]
    check_allocation([*x.shape[:rank], *grown], x.dtype)
    return functional.pad(x, [n for pair in reversed(pairs) for n in pair], value=value)


def _spatial_rank(x: torch.Tensor, weight: torch.Tensor) -> int:
    rank = x.dim() - 2
    if rank not in _CONVOLUTIONS or weight.dim() != x.dim():
        raise ProgramError(f"an input of rank {x.dim()} and a weight of rank {weight.dim()}")
    return rank


@register_kernel("conv")
def conv(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    strides: Any = None,
    pad_type: str = "valid",
    pad: Any = None,
    dilations: Any = None,
    groups: torch.Tensor | Scalar = 1,
) -> torch.Tensor:
    """Convolve ``x`` [n, C_in, *D] with ``weight`` [C_out, C_in / groups, *K]."""
    rank = _spatial_rank(x, weight)
    steps, spread = read_sizes(strides, rank), read_sizes(dilations, rank)
    kernel = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], spread, strict=True)]
    pairs = resolve_padding(pad_type, pad, x.shape[2:], kernel, steps)
    extent = [n + sum(pair) for n, pair in zip(x.shape[2:], pairs, strict=True)]
    check_allocation([x.shape[0], x.shape[1], *extent], x.dtype)
    spatial = [(n - k) // s + 1 for n, k, s in zip(extent, kernel, steps, strict=True)]
    check_allocation([x.shape[0], weight.shape[0], *spatial], x.dtype)
    symmetric = all(before == after for before, after in pairs)
    padded = x if symmetric else pad_spatial(x, pairs, 0.0)
    return _CONVOLUTIONS[rank](
        padded,
        weight.to(x.dtype),
        None if bias is None else to_tensor(bias, x.dtype),
        steps,
        [before for before, _ in pairs] if symmetric else 0,
        spread,
        to_int(groups),
    )


@register_kernel("conv_quantized")
def conv_quantized(
    x: torch.Tensor,
    weight: torch.Tensor,
    quantization_type: str,
    quant_scale: torch.Tensor,
    quant_bias: torch.Tensor,
    bias: torch.Tensor | None = None,
    nbits: torch.Tensor | Scalar = 8,
    **options: Any,
) -> torch.Tensor:
    """Convolve with ``weight * quant_scale + quant_bias``, for each output channel or all.

    Raises:
        ProgramError: the weight is a look-up table, whose layout is not documented.
    """
    if quantization_type != "linear" or not 1 <= to_int(nbits) <= 8:
        raise ProgramError(f"quantization {quantization_type!r} of {to_int(nbits)} bits")
    column = [-1, *[1] * (weight.dim() - 1)]
    scale, shift = (to_tensor(q, x.dtype).reshape(column) for q in (quant_scale, quant_bias))
    floats = weight.to(x.dtype) * scale + shift
    return conv(x, floats, bias, **options)


@register_kernel("conv_transpose")
def conv_transpose(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    pad: Any = None,
    output_shape: Any = None,
    pad_type: str = "valid",
    strides: Any = None,
    dilations: Any = None,
    groups: torch.Tensor | Scalar = 1,
) -> torch.Tensor:
    """Convolve ``x`` [n, C_in, *D] transposed with ``weight`` [C_in, C_out / groups, *K].

    Padding crops the full result: ``custom`` by ``pad``, ``same`` to ``D * stride`` with the
    larger half at the end. ``output_shape`` crops or extends at the end; with ``same`` it is
    centered instead. An extension has the bias alone.
    """
    rank = _spatial_rank(x, weight)
    steps, spread = read_sizes(strides, rank), read_sizes(dilations, rank)
    kernel = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], spread, strict=True)]
    full = [(n - 1) * s + k for n, s, k in zip(x.shape[2:], steps, kernel, strict=True)]
    channels = weight.shape[1] * to_int(groups)
    check_allocation([x.shape[0], channels, *full], x.dtype)
    wanted = None
    if output_shape is not None:
        shape = to_ints(output_shape)
        if len(shape) != rank + 2 or shape[:2] != [x.shape[0], channels]:
            raise ProgramError(f"output_shape {shape} for {x.shape[0]} x {channels} channels")
        wanted = shape[2:]
    crops = _resolve_crops(
        pad_type, pad, full, wanted or [n * s for n, s in zip(x.shape[2:], steps, strict=True)]
    )
    if wanted is not None:
        crops = [
            (first, n - first - size)
            for (first, _), n, size in zip(crops, full, wanted, strict=True)
        ]
    # torch adds overlapping windows in float16; its other products accumulate in float32.
    wide = torch.float32 if x.dtype == torch.float16 else x.dtype
    groups = to_int(groups)
    result = _TRANSPOSED[rank](x.to(wide), weight.to(wide), None, steps, 0, 0, groups, spread)
    result = pad_spatial(result, [(-first, -last) for first, last in crops], 0.0)
    if bias is not None:
        result = result + to_tensor(bias, wide).reshape(-1, *[1] * rank)
    return result.to(x.dtype)


def _resolve_crops(
    pad_type: str, pad: Any, full: Sequence[int], same: Sequence[int]
) -> list[tuple[int, int]]:
    """Return elements to remove before and after each axis of the full result."""
    if pad_type == "same":
        totals = [n - size for n, size in zip(full, same, strict=True)]
        # A kernel smaller than its stride leaves elements at the end without a contribution.
        return [(max(total, 0) // 2, total - max(total, 0) // 2) for total in totals]
    if pad_type == "same_lower":
        raise ProgramError("a transposed convolution has no pad_type 'same_lower'")
    return resolve_padding(pad_type, pad, full, full, [1] * len(full))
