"""Decompress weights: the ``constexpr_*`` operations of MIL.

Each takes constants and returns constants; CoreML decompresses when it loads a model or when it
runs. The formulas are those of coremltools' operation definitions
(``converters/mil/mil/ops/defs/iOS16/constexpr_ops.py`` and ``iOS18/compression.py``): arithmetic
is in the dtype of the scales, so that a 16-bit product is rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from backends.coreml.payload.blobs import unpack_codes
from harness import ProgramError

Values = torch.Tensor | list[torch.Tensor]


def shift_scale(
    data: torch.Tensor, scale: torch.Tensor, offset: torch.Tensor | None = None
) -> torch.Tensor:
    """Return ``scale * (data - offset)``; scale and offset are constant in blocks.

    Args:
        data: codes of any shape.
        scale: as many dimensions, each a divisor of that of ``data``.
        offset: of the shape of ``scale``.

    Returns:
        a tensor of the shape of ``data`` and the dtype of ``scale``.
    """
    shifted = data.to(scale.dtype)
    if offset is not None:
        shifted = shifted - _expand(offset, data.shape).to(scale.dtype)
    return _expand(scale, data.shape) * shifted


def shift_scale_sparse(
    data_mask: torch.Tensor,
    nonzero_data: torch.Tensor,
    scale: torch.Tensor,
    offset: torch.Tensor | None = None,
) -> list[torch.Tensor]:
    """Do the same to the elements that a mask selects; returns the mask and the elements."""
    dense = shift_scale(_scatter(nonzero_data, data_mask), scale, offset)
    return [data_mask, dense[data_mask != 0]]


def dequantize_affine(
    quantized_data: torch.Tensor, zero_point: Any, scale: Any, axis: int
) -> torch.Tensor:
    """Return ``scale * (data - zero_point)``; both are numbers or vectors along an axis.

    A scale of rank 0 has lost its dtype: it is float32 here, and the caller rounds the result.
    """
    shape = [1] * quantized_data.dim()
    shape[axis] = -1
    factor = torch.as_tensor(scale)
    offset = torch.as_tensor(zero_point)
    factor = factor.to(torch.get_default_dtype()) if factor.dim() == 0 else factor.view(shape)
    offset = offset if offset.dim() == 0 else offset.view(shape)
    return (quantized_data.to(factor.dtype) - offset.to(factor.dtype)) * factor


def look_up(
    indices: torch.Tensor,
    lut: torch.Tensor,
    shape: torch.Tensor | None = None,
    vector_axis: int | None = None,
) -> torch.Tensor:
    """Return the entries of a look-up table that indices select.

    Args:
        indices: codes; with ``shape`` (iOS 16), bytes with packed codes.
        lut: with ``shape`` a vector of ``2 ** bits`` entries, else ``[..., 2 ** bits, size]`` whose
            first dimensions divide those of ``indices``.
        shape: the shape of the result.
        vector_axis: the axis along which the ``size`` entries of a vector stand.
    """
    if shape is not None:
        bits = max(lut.numel() - 1, 1).bit_length()
        sizes = _sizes(shape)
        count = math.prod(sizes)
        _require(indices.numel() * 8 >= count * bits, "indices do not fill the shape")
        codes = unpack_codes(indices.numpy().tobytes(), bits, count, False)
        return lut[torch.from_numpy(codes).long()].view(sizes)
    _require(lut.dim() == indices.dim() + 2, "the table's rank is not that of the indices plus 2")
    tables = _expand(lut, (*indices.shape, *lut.shape[-2:]))
    size = lut.shape[-1]
    picked = indices.long()[..., None, None].expand(*indices.shape, 1, size)
    found = tables.gather(-2, picked).squeeze(-2)
    if size == 1:
        return found.squeeze(-1)
    _require(vector_axis is not None, "a table of vectors needs an axis")
    axis = range(indices.dim())[vector_axis or 0]
    return found.movedim(-1, axis + 1).flatten(axis, axis + 1).contiguous()


def look_up_sparse(
    indices_mask: torch.Tensor,
    indices_nonzero_data: torch.Tensor,
    lut: torch.Tensor,
    vector_axis: int | None = None,
) -> list[torch.Tensor]:
    """Do the same to the indices that a mask selects; returns the mask and the entries."""
    dense = look_up(_scatter(indices_nonzero_data, indices_mask), lut, vector_axis=vector_axis)
    mask = indices_mask
    if vector_axis is not None and lut.shape[-1] > 1:
        mask = mask.repeat_interleave(lut.shape[-1], vector_axis)
    return [mask, dense[mask != 0]]


def fill_sparse(
    nonzero_data: torch.Tensor, mask: torch.Tensor, shape: torch.Tensor | None = None
) -> torch.Tensor:
    """Return a tensor with elements where a mask is set, and zeros elsewhere.

    Args:
        nonzero_data: a vector.
        mask: of the result's shape; with ``shape`` (iOS 16), bytes with a bit for each element.
        shape: the shape of the result.
    """
    if shape is not None:
        sizes = _sizes(shape)
        count = math.prod(sizes)
        _require(mask.numel() * 8 >= count, "the mask does not fill the shape")
        mask = torch.from_numpy(unpack_codes(mask.numpy().tobytes(), 1, count, False)).view(sizes)
    return _scatter(nonzero_data, mask)


def widen(source_val: Any, output_dtype: str) -> torch.Tensor:
    """Return float16 values as float32."""
    _require(output_dtype == "fp32", f"it casts to {output_dtype}, only fp32 is defined")
    return torch.as_tensor(source_val, dtype=torch.float32)


CONSTEXPR: Mapping[str, Callable[..., Values]] = {
    "constexpr_affine_dequantize": dequantize_affine,
    "constexpr_blockwise_shift_scale": shift_scale,
    "constexpr_cast": widen,
    "constexpr_lut_to_dense": look_up,
    "constexpr_lut_to_sparse": look_up_sparse,
    "constexpr_sparse_blockwise_shift_scale": shift_scale_sparse,
    "constexpr_sparse_to_dense": fill_sparse,
}
"""The operations by kind, called with keyword arguments named as their inputs."""


def _expand(values: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Repeat values that are constant in blocks, to a shape."""
    _require(values.dim() == len(shape), f"{list(values.shape)} has not the rank of {list(shape)}")
    for axis, (size, blocks) in enumerate(zip(shape, values.shape, strict=True)):
        _require(
            blocks > 0 and size % blocks == 0,
            f"{blocks} blocks do not divide dimension {axis} of size {size}",
        )
        if 1 < blocks < size:
            values = values.repeat_interleave(size // blocks, axis)
    return values.expand(shape)


def _scatter(elements: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    dense = torch.zeros(mask.shape, dtype=elements.dtype)
    selected = mask != 0
    _require(
        int(selected.sum()) == elements.numel(),
        f"the mask selects {int(selected.sum())} elements, there are {elements.numel()}",
    )
    dense[selected] = elements
    return dense


def _sizes(shape: torch.Tensor) -> list[int]:
    sizes: list[int] = shape.to(torch.int64).tolist()
    return sizes


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise ProgramError(problem)
