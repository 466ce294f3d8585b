"""Products with quantized weights, and the weights themselves."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from backends.mlx.execution.kernels import device, products
from backends.mlx.execution.kernels.base import Builder, Step, dtype_of
from backends.mlx.execution.kernels.linear import gathering, optional
from backends.mlx.payload.graph import Node
from harness import ProgramError, UnsupportedProgram


def _check_quantized(node: Node, weights: mx.array, scales: mx.array) -> int:
    """Refuse codes and scales that do not go together: MLX compares only some of their sizes.

    Returns:
        How many weights there are along the last axis.
    """
    bits: int = weights.shape[-1] * 32 if weights.ndim > 1 else 0
    count = scales.shape[-1] * node.group_size if scales.ndim > 1 else 0
    if (
        weights.dtype != mx.uint32
        or weights.shape[:-1] != scales.shape[:-1]
        or bits != count * node.bits
        or not bits
    ):
        raise ProgramError(
            f"weights of {weights.dtype} {weights.shape} and scales {scales.shape} do not go "
            f"together with {node.bits} bits in groups of {node.group_size}"
        )
    return count


def _check_product(node: Node, x: mx.array, weights: mx.array, scales: mx.array) -> int:
    """The columns of a product with quantized weights whose operands fit each other."""
    count = _check_quantized(node, weights, scales)
    rows: int = weights.shape[-2]
    inner, outer = (count, rows) if node.transpose else (rows, count)
    if not x.ndim or x.shape[-1] != inner:
        raise ProgramError(f"{inner} weights a column for an x of shape {x.shape}")
    return outer


def _check_kernel(node: Node) -> None:
    # What the CPU kernels of mlx are compiled for; they end the process on anything else.
    if node.mode == "affine" and (node.group_size not in (32, 64, 128) or node.bits == 1):
        raise UnsupportedProgram(
            f"{node.kind}: mlx has no kernel on this host for {node.bits} bits in groups of "
            f"{node.group_size}"
        )


def quantized_matmul(node: Node) -> Step:
    """``x @ dequantize(w)ᵀ``, or without the transposition."""
    _check_kernel(node)
    x, w, scales, out, biases = node.x, node.w, node.scales, node.out, optional(node.biases)
    options = {
        "transpose": node.transpose,
        "group_size": node.group_size,
        "bits": node.bits,
        "mode": node.mode,
    }

    def step(t: list[Any], v: list[Any]) -> None:
        rows = t[x]
        columns = _check_product(node, rows, t[w], t[scales])
        if not rows.size or not columns:
            # mlx's CPU kernel divides by both; its checks come before any kernel runs.
            empty = mx.quantized_matmul(rows, t[w], t[scales], biases(t), **options)
            t[out] = mx.zeros(empty.shape, empty.dtype)
            return
        t[out] = products.quantized_matmul(rows, t[w], t[scales], biases(t), **options)

    return step


def dequantize(node: Node) -> Step:
    """Weights as floats, in the dtype of the scales unless one is given."""
    w, scales, out = node.w, node.scales, node.out
    biases, global_scale = optional(node.biases), optional(node.global_scale)
    group_size, bits, mode = node.group_size, node.bits, node.mode
    dtype = None if node.dtype is None else dtype_of(node.dtype)

    def step(t: list[Any], v: list[Any]) -> None:
        codes, factors = t[w], t[scales]
        _check_quantized(node, codes, factors)
        rows = codes.shape[0]
        # mlx's CPU kernel for block floats of 4 bits takes whole quadruples of words only.
        missing = -rows % 4 if mode in ("mxfp4", "nvfp4") and codes.size % 4 else 0
        if missing:
            codes, factors = _with_rows(codes, missing), _with_rows(factors, missing)
        result = mx.dequantize(
            codes,
            factors,
            biases(t),
            group_size=group_size,
            bits=bits,
            mode=mode,
            global_scale=global_scale(t),
            dtype=dtype,
        )
        t[out] = result[:rows] if missing else result

    return step


def _with_rows(array: mx.array, count: int) -> mx.array:
    return mx.concatenate([array, mx.zeros((count, *array.shape[1:]), array.dtype)])


def gather_qmm(node: Node) -> Step:
    """As :func:`gather_mm`, the second stack quantized."""
    _check_kernel(node)
    x, w, scales, out, biases = node.x, node.w, node.scales, node.out, optional(node.biases)
    read = gathering(node, node.x, node.w)
    options = {
        "transpose": node.transpose,
        "group_size": node.group_size,
        "bits": node.bits,
        "mode": node.mode,
    }

    def step(t: list[Any], v: list[Any]) -> None:
        lhs, rhs, in_order = read(t, v)
        if not _check_product(node, t[x], t[w], t[scales]) or not t[x].size:
            raise ProgramError(f"x and weights are {t[x].shape} and {t[w].shape}, one is empty")
        t[out] = device.gather_qmm(
            t[x], t[w], t[scales], biases(t), lhs, rhs, sorted_indices=in_order, **options
        )

    return step


BUILDERS: dict[str, Builder] = {
    "DequantizeNode": dequantize,
    "GatherQmmNode": gather_qmm,
    "QuantizedMatmulNode": quantized_matmul,
}
