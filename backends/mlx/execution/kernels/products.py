"""Compute large float32 products with torch: mlx's CPU wheel is about twenty times slower.

On hosts other than macOS the wheel uses the reference BLAS for all float32 products, convolutions
and attention. The device has kernels of its own, which sum in float32 in yet another order. So
torch computes large float32 products here; mlx computes all others, including malformed ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy
import torch

from backends.mlx.execution.kernels import device

# A product with at least this many multiplications is large: 20 ms in the reference BLAS.
_LARGE = 2**25
# Number of weights that are decoded at once.
_DECODED = 2**20
# Below this number of rows, a device multiplies by codes instead of decoding them first.
_ROWS = 32

_nn = torch.nn.functional


def matmul(left: mx.array, right: mx.array) -> mx.array:
    """Compute ``mx.matmul``."""
    if not _is_product(left, right):
        return mx.matmul(left, right)
    return _array(_tensor(left) @ _tensor(right))


def addmm(bias: mx.array, left: mx.array, right: mx.array, alpha: float, beta: float) -> mx.array:
    """Compute ``mx.addmm``: ``beta * bias + alpha * left @ right``."""
    if bias.dtype != mx.float32 or not _is_product(left, right):
        return mx.addmm(bias, left, right, alpha, beta)
    product = _array((_tensor(left) @ _tensor(right)).mul_(alpha))
    bias = mx.broadcast_to(bias, product.shape)  # never the product to the bias
    if beta == 0:  # a BLAS does not read the bias then: not its NaN either
        return product
    return mx.add(product, bias if beta == 1 else bias * beta)


def quantized_matmul(
    x: mx.array, w: mx.array, scales: mx.array, biases: mx.array | None, **options: Any
) -> mx.array:
    """Compute ``mx.quantized_matmul``; for many rows, decode the weights first."""
    outputs = w.shape[0]
    is_plain = options["transpose"] and w.ndim == 2 and x.ndim >= 2 and outputs % 4 == 0
    is_exact = options["mode"] != "affine" or scales.dtype == mx.float32
    is_long = is_plain and x.shape[-2] >= _ROWS and x.size * outputs >= _LARGE
    if not (is_long and is_exact and _is_ours(x)):
        return device.quantized_matmul(x, w, scales, biases, **options)
    decoding = {name: value for name, value in options.items() if name != "transpose"}
    rows, result = _tensor(x), torch.empty(*x.shape[:-1], outputs, dtype=torch.float32)
    step = max(4, _DECODED // x.shape[-1] // 4 * 4)
    for start in range(0, outputs, step):
        part = slice(start, start + step)
        offset = None if biases is None else biases[part]
        weight = mx.dequantize(w[part], scales[part], offset, **decoding, dtype=mx.float32)
        result[..., part] = rows @ _tensor(weight).mT
    return _array(result)


def convolution(
    source: mx.array,
    weight: mx.array,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> mx.array | None:
    """Compute ``mx.conv1d``, ``mx.conv2d`` or ``mx.conv3d``, channels last.

    Returns None where the caller must use MLX's function.
    """
    dimensions = len(stride)
    fits = source.ndim == weight.ndim == dimensions + 2 and dimensions in (1, 2, 3)
    if not fits or not _is_ours(source, weight) or groups < 1:
        return None
    if groups > 1 and dimensions == 3:  # conv_general in mlx/ops.cpp refuses them
        return None
    if weight.shape[-1] * groups != source.shape[-1] or weight.shape[0] % groups:
        return None
    if source.size // source.shape[-1] * weight.size < _LARGE:
        return None
    function = (_nn.conv1d, _nn.conv2d, _nn.conv3d)[dimensions - 1]
    x, w = (_tensor(item).movedim(-1, 1) for item in (source, weight))
    found = function(x, w, None, list(stride), list(padding), list(dilation), groups)
    return _array(found.movedim(1, -1))


def attention(
    query: mx.array, key: mx.array, value: mx.array, scale: float, mask: mx.array | str | None
) -> mx.array:
    """Compute ``mx.fast.scaled_dot_product_attention``, in blocks unless the mask is an array.

    Scores that may overflow are left to mlx. Its softmax gives NaN where all scores of a row are
    minus infinity (mlx/backend/cpu/softmax.cpp), torch's gives 0; and mlx scales the query, torch
    the scores.
    """
    is_plain = mask is None or (mask == "causal" and query.shape[2:3] == key.shape[2:3])
    if (
        not is_plain
        or not _is_attention(query, key, value)
        or not _is_finite(query, key, value, scale)
    ):
        return mx.fast.scaled_dot_product_attention(query, key, value, scale=scale, mask=mask)
    found = _nn.scaled_dot_product_attention(
        _tensor(query),
        _tensor(key),
        _tensor(value),
        is_causal=mask is not None,
        scale=scale,
        enable_gqa=query.shape[1] != key.shape[1],
    )
    return _array(found)


def _is_product(left: mx.array, right: mx.array) -> bool:
    if min(left.ndim, right.ndim) < 2 or left.shape[-1] != right.shape[-2]:
        return False
    try:
        batch = numpy.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        return False
    multiplications = math.prod(batch) * math.prod(left.shape[-2:]) * right.shape[-1]
    return multiplications >= _LARGE and _is_ours(left, right)


def _is_attention(query: mx.array, key: mx.array, value: mx.array) -> bool:
    if not query.ndim == key.ndim == value.ndim == 4 or key.shape[:3] != value.shape[:3]:
        return False
    if query.shape[0] != key.shape[0] or query.shape[3] != key.shape[3] or not key.size:
        return False
    if query.shape[1] % key.shape[1]:
        return False
    return query.size * key.shape[2] >= _LARGE and _is_ours(query, key, value)


def _is_finite(query: mx.array, key: mx.array, value: mx.array, scale: float) -> bool:
    """Return whether values are finite and no product of a row with a key can overflow."""
    if not bool(mx.all(mx.isfinite(value))):
        return False
    longest = [float(_tensor(rows).double().norm(dim=-1).max()) for rows in (query, key)]
    # False for NaN. Cauchy-Schwarz bounds the scores; half of the range is for rounding.
    return math.prod(longest) * max(1.0, abs(scale)) < torch.finfo(torch.float32).max / 2


def _is_ours(*arrays: mx.array) -> bool:
    is_float32 = all(array.dtype == mx.float32 for array in arrays)
    return is_float32 and not mx.metal.is_available()


def _tensor(array: mx.array) -> torch.Tensor:
    """Evaluate an array and return its memory as a tensor; a copy if a stride is negative."""
    values = numpy.asarray(array)
    return torch.from_numpy(values.copy() if min(values.strides, default=0) < 0 else values)


def _array(tensor: torch.Tensor) -> mx.array:
    return mx.array(tensor.numpy())
