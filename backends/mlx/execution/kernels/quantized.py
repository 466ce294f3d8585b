"""Kernels that multiply by quantized weights, or decode them."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from backends.mlx.execution.kernels import device, products
from backends.mlx.execution.kernels.base import Builder, Step, to_mlx_dtype
from backends.mlx.execution.kernels.linear import gathering, optional
from backends.mlx.payload.graph import Node
from harness import ProgramError, UnsupportedProgram


def _check_quantized(node: Node, weights: mx.array, scales: mx.array) -> int:
    """Reject codes and scales of different sizes: MLX compares only some of their sizes.

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
            f"weights of {weights.dtype} {weights.shape} and scales {scales.shape} do not match: "
            f"{node.bits} bits in groups of {node.group_size}"
        )
    return count


def _check_product(node: Node, x: mx.array, weights: mx.array, scales: mx.array) -> int:
    """Check the operands of a product with quantized weights; return its number of columns."""
    count = _check_quantized(node, weights, scales)
    rows: int = weights.shape[-2]
    inner, outer = (count, rows) if node.transpose else (rows, count)
    if not x.ndim or x.shape[-1] != inner:
        raise ProgramError(f"{inner} weights in a column do not fit an x of shape {x.shape}")
    return outer


def _check_kernel(node: Node) -> None:
    # mlx compiles CPU kernels for these formats only, and ends the process for any other.
    if node.mode == "affine" and (node.group_size not in (32, 64, 128) or node.bits == 1):
        raise UnsupportedProgram(
            f"{node.kind}: mlx has no kernel on this host for {node.bits} bits in groups of "
            f"{node.group_size}"
        )


def quantized_matmul(node: Node) -> Step:
    """Compute ``x @ dequantize(w)ᵀ``, or without the transposition."""
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
            # mlx's CPU kernel divides by both sizes; MLX checks before any kernel runs.
            empty = mx.quantized_matmul(rows, t[w], t[scales], biases(t), **options)
            t[out] = mx.zeros(empty.shape, empty.dtype)
            return
        t[out] = products.quantized_matmul(rows, t[w], t[scales], biases(t), **options)

    return step


def dequantize(node: Node) -> Step:
    """Decode weights to floats, by default in the dtype of the scales."""
    w, scales, out = node.w, node.scales, node.out
    biases, global_scale = optional(node.biases), optional(node.global_scale)
    group_size, bits, mode = node.group_size, node.bits, node.mode
    dtype = None if node.dtype is None else to_mlx_dtype(node.dtype)

    def step(t: list[Any], v: list[Any]) -> None:
        codes, factors = t[w], t[scales]
        _check_quantized(node, codes, factors)
        rows = codes.shape[0]
        # mlx's CPU kernel for 4-bit block floats requires a multiple of four words.
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
    """Multiply like :func:`gather_mm`, with a quantized second stack."""
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
            raise ProgramError(
                f"x and weights are {t[x].shape} and {t[w].shape}; one of them is empty"
            )
        t[out] = device.gather_qmm(
            t[x], t[w], t[scales], biases(t), lhs, rhs, sorted_indices=in_order, **options
        )

    return step


BUILDERS: dict[str, Builder] = {
    "DequantizeNode": dequantize,
    "GatherQmmNode": gather_qmm,
    "QuantizedMatmulNode": quantized_matmul,
}
