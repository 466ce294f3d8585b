"""The block encoders of torchao, MLX and TOSA behind one signature, and the blocks to try them on.

An encoder takes float32 blocks (count, 32) and returns element codes (count, 32) and scale codes
(count,), both uint8.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy
import torch
import tosa_reference_model
import tosa_serializer
from hypothesis import strategies as st
from numpy.typing import NDArray

from harness.numerics.formats.microscaling import (
    E2M1,
    E2M3,
    E3M2,
    E4M3,
    E5M2,
    Element,
    unpack_nibbles,
)

Array = NDArray[Any]
Encoder = Callable[[Array], tuple[Array, Array]]

COUNT = 24
"""Blocks that one example holds."""

_TORCHAO = {
    E2M1: torch.float4_e2m1fn_x2,
    E2M3: "fp6_e2m3",
    E3M2: "fp6_e3m2",
    E4M3: torch.float8_e4m3fn,
    E5M2: torch.float8_e5m2,
}
_TOSA = {E2M1: "FP4E2M1", E2M3: "FP6E2M3", E3M2: "FP6E3M2", E4M3: "FP8E4M3", E5M2: "FP8E5M2"}


def torchao(blocks: Array, element: Element, mode: str) -> tuple[Array, Array]:
    """``to_mx`` in a ``ScaleCalculationMode``; E2M1 is packed, the others are one code a byte."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torchao warns when it is imported
        from torchao.prototype.mx_formats.config import ScaleCalculationMode
        from torchao.prototype.mx_formats.mx_tensor import to_mx
    scales, codes = to_mx(
        torch.from_numpy(blocks), _TORCHAO[element], 32, scaling_mode=ScaleCalculationMode[mode]
    )
    codes = unpack_nibbles(codes) if element is E2M1 else codes.view(torch.uint8)
    return codes.numpy(), scales.view(torch.uint8).flatten().numpy()


def mlx(blocks: Array, element: Element) -> tuple[Array, Array]:
    """``mx.quantize`` on the CPU, in the mode of the element."""
    mode = {E4M3: "mxfp8", E2M1: "mxfp4"}[element]
    with mx.stream(mx.cpu):
        words, scales = (numpy.array(part) for part in mx.quantize(mx.array(blocks), mode=mode))
    codes = words.view(numpy.uint8)
    if element is E2M1:
        codes = unpack_nibbles(torch.from_numpy(codes)).numpy()
    return codes, scales.flatten()


def tosa(blocks: Array, element: Element, source: str = "FP32") -> tuple[Array, Array]:
    """``CAST_TO_BLOCK_SCALED`` on the reference model.

    Its Python binding returns no tensors of these types, so CAST_FROM_BLOCK_SCALED takes them
    apart: the codes under a scale of one, and the scales with codes of one. Both are exact in
    float32, and each number has one code.
    """
    given = blocks
    if source == "BF16":
        given = torch.from_numpy(blocks).bfloat16().view(torch.uint16).numpy()
    results, status = tosa_reference_model.run(
        _program(_TOSA[element], len(blocks), source), [given], verbosity="NONE"
    )
    assert status == tosa_reference_model.GraphStatus.TOSA_VALID, status
    values, powers = results[0], results[1][:, 0]
    poisoned = numpy.isnan(powers)
    table = element.table.numpy()
    positive = table[: len(table) // 2]
    magnitudes = numpy.where(numpy.isnan(values), 0, numpy.abs(values)).astype(numpy.float64)
    codes = numpy.searchsorted(positive[~numpy.isnan(positive)], magnitudes)
    codes += numpy.signbit(values) << (element.bits - 1)
    assert numpy.array_equal(table[codes], values, equal_nan=True) or numpy.isnan(values).any()
    exponents = numpy.frexp(numpy.where(poisoned, 1, powers).astype(numpy.float64))[1] - 1
    scales = numpy.where(poisoned, 0xFF, exponents + 127)
    return codes.astype(numpy.uint8), scales.astype(numpy.uint8)


@functools.cache
def _program(payload: str, count: int, source: str) -> bytes:
    ts = tosa_serializer
    graph = ts.TosaSerializer("")
    codes_type, scale_type = getattr(ts.DType, payload), ts.DType.FP8UE8M0
    graph.addInputTensor(ts.TosaSerializerTensor("x", [count, 32], getattr(ts.DType, source)))
    codes = graph.addIntermediate([count, 32], codes_type)
    scales = graph.addIntermediate([count, 1], scale_type)
    one_codes = graph.addConst([count, 32], codes_type, numpy.ones((count, 32)), "codes_of_one")
    one_scales = graph.addConst([count, 1], scale_type, numpy.ones((count, 1)), "scales_of_one")
    results = [graph.addOutput([count, 32], ts.DType.FP32).name for _ in range(2)]
    steps = (
        ("TO", ["x"], [codes.name, scales.name]),
        ("FROM", [codes.name, one_scales.name], results[:1]),
        ("FROM", [one_codes.name, scales.name], results[1:]),
    )
    for direction, inputs, outputs in steps:
        attribute = ts.TosaSerializerAttribute()
        getattr(attribute, f"Cast{direction.title()}BlockScaledAttribute")(32)
        operator = getattr(ts.Op, f"CAST_{direction}_BLOCK_SCALED")
        graph.addOperator(operator, inputs, outputs, attribute)
    return bytes(graph.serialize())


SPECIAL = numpy.float32([0.0, -0.0, 1e-45, -1e-45, 2.0**-126, 2.0**-127, numpy.inf, numpy.nan])
KINDS = ("anything", "alike", "ties", "edge", "edge", "special", "zero")


@st.composite
def blocks_of(draw: st.DrawFn, element: Element) -> Array:
    """Blocks over bit patterns, float32 (COUNT, 32).

    A block is one of: any bits at all; exponents near each other; numbers of the element, halfway
    between them, and next to both; a greatest magnitude at and next to where scales change;
    special numbers among others; zeros.
    """
    raw = numpy.frombuffer(
        draw(st.binary(min_size=COUNT * 128, max_size=COUNT * 128)), numpy.uint32
    ).reshape(COUNT, 32)
    chosen = draw(st.lists(st.sampled_from(KINDS), min_size=COUNT, max_size=COUNT))
    powers = draw(st.lists(st.integers(-149, 127), min_size=COUNT, max_size=COUNT))
    with numpy.errstate(over="ignore", invalid="ignore"):
        made = [_block(element, *one) for one in zip(chosen, raw, powers, strict=True)]
        blocks = numpy.stack(made)
    blocks[numpy.isnan(blocks)] = numpy.nan  # NumPy warns of signalling ones
    return blocks


def _block(element: Element, kind: str, raw: Array, power: int) -> Array:
    if kind == "anything":
        return raw.view(numpy.float32)
    if kind == "zero":
        return numpy.zeros(32, numpy.float32)
    exponents = numpy.clip(power + 127 - (raw >> 23 & 15).astype(numpy.int64), 0, 254)
    alike = (raw & 0x807FFFFF | exponents.astype(numpy.uint32) << 23).view(numpy.float32).copy()
    if kind == "special":
        at = raw % 4 == 0
        alike[at] = SPECIAL[raw[at] >> 8 & 7]
    table = element.table.numpy()
    positive = table[: len(table) // 2]
    positive = positive[positive <= element.largest]
    if kind == "ties":
        at = raw % (len(positive) - 1)
        part = (raw >> 8 & 3) / 4  # on the number, between, halfway, between
        values = positive[at] * (1 - part) + positive[at + 1] * part
        alike = _nudged(numpy.ldexp(values, power), raw) * numpy.where(raw >> 31, -1, 1)
        alike[0] = numpy.float32(math.ldexp(element.largest, power))
    if kind == "edge":
        tops = (element.largest, positive[-1] + (positive[-1] - positive[-2]) / 2, 1.0)
        top = _nudged(numpy.ldexp(tops[raw[0] % 3], power), raw[:1])[0]
        alike = numpy.clip(alike, -numpy.abs(top), numpy.abs(top))
        alike[raw[1] % 32] = top
    return alike.astype(numpy.float32)


def _nudged(values: Any, raw: Array) -> Array:
    """float32, and by the raw bits itself or the number before or after it."""
    exact = numpy.float32(values)
    way = numpy.float32([0, 0, numpy.inf, -numpy.inf])[raw >> 12 & 3]
    return numpy.where(way == 0, exact, numpy.nextafter(exact, way)).astype(numpy.float32)
