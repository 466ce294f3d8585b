"""Semantics of Metal's operators for quantized weights, for the oracle."""

from __future__ import annotations

from dataclasses import replace

import torch

from backends.metal.quantization import OPERATOR
from harness.backend_api import (
    GENERIC_SEMANTICS,
    BlockQuantizedTensor,
    OperatorSemantics,
    QuantizedMatmul,
)
from harness.numerics.formats.microscaling import unpack_nibbles


def make_int4_semantics() -> OperatorSemantics:
    """Return semantics with the linear layer of unsigned 4-bit codes with scale and offset."""
    return replace(GENERIC_SEMANTICS, matmuls={OPERATOR: _linear_uint4})


def _linear_uint4(
    activation: torch.Tensor,
    packed: torch.Tensor,
    group: int,
    scale: torch.Tensor,
    offset: torch.Tensor,
) -> QuantizedMatmul:
    codes = unpack_nibbles(packed)
    return QuantizedMatmul(
        activation, BlockQuantizedTensor(codes, scale.double(), offset.double(), activation.dtype)
    )
