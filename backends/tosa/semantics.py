"""OperatorSemantics of Arm's operators in MX formats, for the oracle.

``tosa_mxfp::linear`` and ``tosa_mxfp::conv2d`` (executorch, ``backends/arm/ao_ext/ops``) become
TOSA's CAST_TO_BLOCK_SCALED, which encodes the activation, and MATMUL_T_BLOCK_SCALED or
CONV2D_BLOCK_SCALED, which multiply it by a weight that was encoded before export. The products of
a block are summed before the scales are applied (TOSA's pseudocode).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from harness.backend_api import GENERIC_SEMANTICS, MxProduct, OperatorSemantics
from harness.numerics.formats.microscaling import (
    E2M1,
    E2M3,
    E3M2,
    E4M3,
    E5M2,
    Element,
    ScaleRule,
    decode_scales,
    unpack_nibbles,
)

RULE = ScaleRule.TOSA
"""How CAST_TO_BLOCK_SCALED of the pinned reference model chooses a scale.

The operators' eager kernels use RCEIL, which differs where the greatest magnitude of a block is
``L · 2^k``.
"""

PAYLOADS = {"f4e2m1": E2M1, "fp6e2m3": E2M3, "fp6e3m2": E3M2, "f8e4m3": E4M3, "f8e5m2": E5M2}
"""Elements by the operators' ``weight_payload_dtype``."""

_DTYPES = {torch.uint8: E2M1, torch.float8_e4m3fn: E4M3, torch.float8_e5m2: E5M2}


def make_mxfp_semantics() -> OperatorSemantics:
    """Return semantics that include the operators of layers in an MX format."""
    return replace(
        GENERIC_SEMANTICS,
        mx_products={"tosa_mxfp::linear": _linear, "tosa_mxfp::conv2d": _conv2d},
    )


def _linear(
    input: torch.Tensor,
    weight_qdata: torch.Tensor,
    weight_scale: torch.Tensor,
    bias: torch.Tensor | None = None,
    block_size: int = 32,
    weight_payload_dtype: str = "",
) -> MxProduct:
    element, weight = _weight(weight_qdata, weight_scale, weight_payload_dtype)

    def multiply(activation: torch.Tensor) -> torch.Tensor:
        result = torch.nn.functional.linear(activation, weight.squeeze(0))
        # The delegate adds the bias with a separate ADD.
        return result if bias is None else result + bias.double()

    return MxProduct(input.double(), element, -1, block_size, RULE, multiply)


def _conv2d(
    input: torch.Tensor,
    weight_qdata: torch.Tensor,
    weight_scale: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    block_size: int = 32,
    weight_payload_dtype: str = "",
) -> MxProduct:
    element, weight = _weight(weight_qdata, weight_scale, weight_payload_dtype)
    weight = weight.permute(0, 3, 1, 2)  # stored as (out, height, width, in)

    def multiply(activation: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv2d(
            activation,
            weight,
            None if bias is None else bias.double(),
            list(stride),
            list(padding),
            list(dilation),
            groups,
        )

    return MxProduct(input.double(), element, 1, block_size, RULE, multiply)


def _weight(data: torch.Tensor, scale: torch.Tensor, payload: str) -> tuple[Element, torch.Tensor]:
    """Return the element and the float64 values of a weight with blocks along its last axis.

    The oracle passes float8 elements and scales as decoded numbers, since torch has dtypes for
    them. FP4 (two in a byte) and FP6 come as codes.
    """
    element = PAYLOADS.get(payload) if payload else _DTYPES.get(data.dtype)
    if element is None:
        raise ValueError(f"no MX element is called {payload!r} or stored as {data.dtype}")
    if data.dtype == torch.uint8:
        codes = unpack_nibbles(data) if element is E2M1 else data
        values = element.table[codes.long()]
    else:
        values = data.double()
    powers = decode_scales(scale) if scale.dtype == torch.uint8 else scale.double()
    return element, values * powers.repeat_interleave(values.shape[-1] // powers.shape[-1], -1)
