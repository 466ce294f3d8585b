"""Decode block-quantized weights in float64, as their formats define them.

torchao's decoding operators compute in the dtype of the result. Here codes, scales and offsets
are exact numbers; :mod:`harness.numerics.oracle` combines them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.numerics.formats.microscaling import E2M1, unpack_nibbles


@dataclass(frozen=True)
class BlockQuantizedTensor:
    """A tensor in blocks: ``(codes - lowest) * scale + offset``.

    Attributes:
        codes: the number that each code represents; the shape of the tensor, any dtype.
        scale: float64, one per block: each of its sizes divides the tensor's.
        offset: shaped like ``scale``; None for formats that are centred on zero.
        dtype: dtype that the operator rounds its result to.
        lowest: code that represents zero, where there is an offset.
    """

    codes: torch.Tensor
    scale: torch.Tensor
    offset: torch.Tensor | None
    dtype: torch.dtype
    lowest: float = 0.0

    def values(self) -> torch.Tensor:
        """The decoded tensor, float64."""
        # Split each dimension into blocks and elements of a block.
        shape, counts = self.codes.shape, self.scale.shape
        apart = [
            n for size, count in zip(shape, counts, strict=True) for n in (count, size // count)
        ]
        once = [n for count in counts for n in (count, 1)]
        values = self.codes.reshape(apart) * self.scale.reshape(once)
        if self.offset is not None:
            values += (self.offset - self.lowest * self.scale).reshape(once)
        return values.reshape(shape)


def _affine(
    codes: torch.Tensor,
    block: Sequence[int],
    scale: torch.Tensor,
    zero: torch.Tensor | None,
    stored: torch.dtype,
    lowest: float | None = None,
    highest: float | None = None,
    dtype: torch.dtype = torch.float32,
) -> BlockQuantizedTensor:
    blocks = [size // length for size, length in zip(codes.shape, block, strict=True)]
    scale = scale.double().reshape(blocks)
    zero = torch.zeros_like(scale) if zero is None else zero.double().reshape(blocks)
    low = float(torch.iinfo(stored).min if lowest is None else lowest)
    # Targets store codes from zero up, and the offset that this requires.
    return BlockQuantizedTensor(codes, scale, scale * (low - zero), dtype, low)


def _int4(
    codes: torch.Tensor,
    scale: torch.Tensor,
    zero: torch.Tensor,
    group: int,
    dtype: torch.dtype = torch.bfloat16,
) -> BlockQuantizedTensor:
    scale, zero = scale.double().mT, zero.double().mT
    return BlockQuantizedTensor(unpack_nibbles(codes), scale, -scale * zero, dtype)


def _mx(
    codes: torch.Tensor,
    scale: torch.Tensor,
    element: torch.dtype,
    block: int,
    dtype: torch.dtype = torch.float32,
) -> BlockQuantizedTensor:
    packed = element is torch.float4_e2m1fn_x2
    values = E2M1.table[unpack_nibbles(codes).long()] if packed else codes.double()
    return BlockQuantizedTensor(values, scale.double(), None, dtype)


def _nvfp4(
    codes: torch.Tensor,
    scale: torch.Tensor,
    whole: torch.Tensor,
    block: int,
    dtype: torch.dtype = torch.float32,
) -> BlockQuantizedTensor:
    values = E2M1.table[unpack_nibbles(codes).long()]
    block_scale = scale.view(torch.float8_e4m3fn).double()
    return BlockQuantizedTensor(values, block_scale * whole.double(), None, dtype)


@dataclass(frozen=True)
class QuantizedMatmul:
    """``activation @ weight.T``, of an operator that decodes its weight itself.

    Attributes:
        activation: (M, K).
        weight: (N, K).
    """

    activation: torch.Tensor
    weight: BlockQuantizedTensor


DECODERS: dict[str, Callable[..., BlockQuantizedTensor]] = {
    "torchao::dequantize_affine": _affine,
    "torchao::dequantize_int4_tensor": _int4,
    "torchao::dequantize_mx": _mx,
    "torchao::dequantize_nvfp4": _nvfp4,
}
"""torchao's decoding operators by name; each entry takes their arguments and returns the blocks."""


def dequantize(name: str, args: tuple[Any, ...]) -> torch.Tensor:
    """Compute ``(q - zero point) * scale`` in float64, per tensor or along an axis, for an
    activation of a PT2E-quantized graph."""
    value, scale, zero = args[0].double(), args[1], args[2]
    if "per_channel" in name:
        shape = [1] * value.dim()
        shape[args[3]] = -1
        scale = scale.double().reshape(shape)
        zero = 0.0 if zero is None else zero.double().reshape(shape)
    result: torch.Tensor = (value - zero) * scale
    return result
