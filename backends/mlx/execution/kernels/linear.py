"""Kernels of matrix products, convolutions, attention and normalization."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import mlx.core as mx

from backends.mlx.execution.kernels import products
from backends.mlx.execution.kernels.base import (
    Builder,
    Step,
    check_indices,
    check_memory,
    make_int_reader,
)
from backends.mlx.payload.graph import Node, Tid, Vid
from harness import ProgramError


def optional(slot: Tid | None) -> Callable[[list[Any]], Any]:
    """Make a function that reads an optional tensor slot."""
    return (lambda t: None) if slot is None else (lambda t: t[slot])


def addmm(node: Node) -> Step:
    """Compute ``beta · bias + alpha · mat1 @ mat2``. Without a bias, alpha is not applied."""
    mat1, mat2, bias, out = node.mat1, node.mat2, node.bias, node.out
    alpha, beta = node.alpha, node.beta

    def product(t: list[Any], v: list[Any]) -> None:
        t[out] = products.matmul(t[mat1], t[mat2])

    def step(t: list[Any], v: list[Any]) -> None:
        t[out] = products.addmm(t[bias], t[mat1], t[mat2], alpha, beta)

    return product if bias is None else step


def rms_norm(node: Node) -> Step:
    """Normalize over the last axis, accumulated in float32."""
    x, out, eps, weight = node.x, node.out, node.eps, optional(node.weight)

    def step(t: list[Any], v: list[Any]) -> None:
        t[out] = mx.fast.rms_norm(t[x], weight(t), eps)

    return step


def layer_norm(node: Node) -> Step:
    """Normalize over the last axis, accumulated in float32."""
    x, out, eps = node.x, node.out, node.eps
    weight, bias = optional(node.weight), optional(node.bias)

    def step(t: list[Any], v: list[Any]) -> None:
        t[out] = mx.fast.layer_norm(t[x], weight(t), bias(t), eps)

    return step


def rope(node: Node) -> Step:
    """Rotary embedding; the offset is a value slot or a tensor. Frequencies replace the base."""
    x, out, dims, traditional, scale = node.x, node.out, node.dims, node.traditional, node.scale
    base = None if node.freqs is not None else node.base
    freqs, offset = optional(node.freqs), node.offset
    position = make_int_reader(offset) if isinstance(offset, Vid) else None

    def step(t: list[Any], v: list[Any]) -> None:
        t[out] = mx.fast.rope(
            t[x],
            dims,
            traditional=traditional,
            base=base,
            scale=scale,
            offset=position(v) if position else t[offset],
            freqs=freqs(t),
        )

    return step


def sdpa(node: Node) -> Step:
    """Attention. A mask that is not bool is cast to the dtype of q (``exec_sdpa``)."""
    q, k, v_slot, out, scale = node.q, node.k, node.v, node.out, node.scale
    mask_slot, causal = node.mask, node.causal
    if causal and mask_slot is not None:
        raise ProgramError("MLX attention takes a mask or is causal, not both")

    def step(t: list[Any], v: list[Any]) -> None:
        query = t[q]
        mask: mx.array | str | None = "causal" if causal else None
        if mask_slot is not None:
            given = t[mask_slot]
            mask = given if given.dtype == mx.bool_ else given.astype(query.dtype)
        keys = t[k]
        if query.ndim == keys.ndim == 4:
            scores = math.prod(query.shape[:-1]) * keys.shape[2]
            check_memory("the scores of an attention", scores * query.dtype.size)
        t[out] = products.attention(query, keys, t[v_slot], scale, mask)

    return step


_SPATIAL = {1: ("",), 2: ("_h", "_w"), 3: ("_d", "_h", "_w")}


def conv(dimensions: int, transposed: bool, node: Node) -> Step:
    """Convolution over channels-last input and weights, as MLX lays them out."""
    x, w, out, groups = node.x, node.w, node.out, node.groups

    def per_axis(name: str) -> Any:
        sizes = tuple(getattr(node, name + axis) for axis in _SPATIAL[dimensions])
        return sizes if dimensions > 1 else sizes[0]

    function = getattr(mx, f"conv{'_transpose' if transposed else ''}{dimensions}d")
    options = [per_axis("stride"), per_axis("padding"), per_axis("dilation")]
    if transposed:
        options.append(per_axis("output_padding"))

    def step(t: list[Any], v: list[Any]) -> None:
        source, weight = t[x], t[w]
        if not weight.size:  # BLAS ends the process, with exit code 0, when there are no channels
            raise ProgramError(f"the weights have shape {weight.shape}")
        if not transposed and source.ndim == weight.ndim == dimensions + 2:
            _check_unfolded(node, source, weight)
        found = None
        if not transposed:
            stride, padding, dilation = ((size,) if dimensions == 1 else size for size in options)
            found = products.convolution(source, weight, stride, padding, dilation, groups)
        t[out] = function(source, weight, *options, groups) if found is None else found

    return step


def _check_unfolded(node: Node, source: mx.array, weight: mx.array) -> None:
    """Reject a kernel larger than its input, and an unfolded input larger than memory."""
    elements = source.shape[0] * math.prod(weight.shape[1:])
    for place, axis in enumerate(_SPATIAL[source.ndim - 2], 1):
        kernel = getattr(node, f"dilation{axis}") * (weight.shape[place] - 1) + 1
        padded = source.shape[place] + 2 * getattr(node, f"padding{axis}")
        # MLX rounds a negative (difference / stride) up and reads beyond x.
        if padded < kernel:
            raise ProgramError(
                f"a kernel that spans {kernel} exceeds the padded input size of {padded}"
            )
        elements *= (padded - kernel) // getattr(node, f"stride{axis}") + 1
    check_memory("the unfolded input of a convolution", elements * source.dtype.size)


def gathering(node: Node, left: Tid, right: Tid) -> Callable[[list[Any], list[Any]], Any]:
    """Make a function that reads and checks the index operands, and whether they are sorted."""
    lhs, rhs = node.lhs_indices, node.rhs_indices
    flag = getattr(node, "sorted_indices_flag", None)  # not in schemas before 1.5.0
    is_sorted = (lambda v: node.sorted_indices) if flag is None else make_int_reader(flag)

    def read(t: list[Any], v: list[Any]) -> tuple[Any, Any, bool]:
        for slot, operand in ((lhs, left), (rhs, right)):
            if slot is not None:
                matrices = 1
                for size in t[operand].shape[:-2]:
                    matrices *= size
                check_indices(t[slot], matrices, negative=False)
        return optional(lhs)(t), optional(rhs)(t), bool(is_sorted(v))

    return read


def gather_mm(node: Node) -> Step:
    """Multiply matrices selected by index from two stacks."""
    a, b, out, read = node.a, node.b, node.out, gathering(node, node.a, node.b)

    def step(t: list[Any], v: list[Any]) -> None:
        lhs, rhs, in_order = read(t, v)
        left, right = t[a], t[b]
        dtype = left.dtype
        # MLX's CPU kernel supports float32 only; the GPU's also sums in it (mlx/backend/metal).
        if dtype == right.dtype and dtype in (mx.float16, mx.bfloat16):
            left, right = left.astype(mx.float32), right.astype(mx.float32)
            t[out] = mx.gather_mm(left, right, lhs, rhs, sorted_indices=in_order).astype(dtype)
        else:
            t[out] = mx.gather_mm(left, right, lhs, rhs, sorted_indices=in_order)

    return step


BUILDERS: dict[str, Builder] = {
    "AddmmNode": addmm,
    "GatherMmNode": gather_mm,
    "LayerNormNode": layer_norm,
    "RMSNormNode": rms_norm,
    "RopeNode": rope,
    "SdpaNode": sdpa,
    **{
        f"Conv{'Transpose' if transposed else ''}{n}DNode": functools.partial(conv, n, transposed)
        for n in (1, 2, 3)
        for transposed in (False, True)
    },
}
