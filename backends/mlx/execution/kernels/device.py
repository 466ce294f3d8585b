"""Compute some functions as MLX's Metal kernels do, where its CPU backend is less accurate.

The emulation stands for the device: an error of this host's CPU backend must not fail a payload.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy
import torch


def erf(x: mx.array) -> mx.array:
    """The error function, rounded once.

    The CPU uses formula 7.1.26 of Abramowitz and Stegun (mlx/backend/cpu/simd/math.h), with an
    absolute error of up to 5e-7. The device's kernel is accurate to one ULP
    (mlx/backend/metal/kernels/erf.h). Integers and booleans give float32 (``at_least_float`` in
    mlx/ops.cpp).
    """
    dtype = x.dtype if mx.issubdtype(x.dtype, mx.inexact) else mx.float32
    # float32 represents every 16-bit value, and numpy has no bfloat16.
    values = torch.from_numpy(numpy.array(x.astype(mx.float32)))
    exact = torch.erf(values.double()).float()
    return mx.array(exact.numpy()).astype(dtype)


def quantized_matmul(
    x: mx.array, w: mx.array, scales: mx.array, biases: mx.array | None, **options: Any
) -> mx.array:
    """Compute ``mx.quantized_matmul``, summed in float32 and rounded once."""
    return _sum_in_float32(mx.quantized_matmul, x, w, scales, biases, (), options)


def gather_qmm(
    x: mx.array,
    w: mx.array,
    scales: mx.array,
    biases: mx.array | None,
    *indices: mx.array | None,
    **options: Any,
) -> mx.array:
    """Compute ``mx.gather_qmm``, summed in float32 and rounded once."""
    return _sum_in_float32(mx.gather_qmm, x, w, scales, biases, indices, options)


def _sum_in_float32(
    product: Any,
    x: mx.array,
    w: mx.array,
    scales: mx.array,
    biases: mx.array | None,
    indices: tuple[mx.array | None, ...],
    options: dict[str, Any],
) -> mx.array:
    """Compute a product with quantized weights as the device's kernels do.

    On x86 the CPU sums in the dtype of ``x`` (``_qmm_t`` and ``fp_qmm_t`` in
    mlx/backend/cpu/quantized.cpp); the device's kernels sum 16-bit products in float32
    (mlx/backend/metal/kernels/quantized.h, fp_quantized.h).
    """

    def widen(array: Any) -> Any:
        is_half = array is not None and array.dtype in (mx.bfloat16, mx.float16)
        return array.astype(mx.float32) if is_half else array

    operands = (widen(x), w, widen(scales), widen(biases))
    result: mx.array = product(*operands, *indices, **options)
    return result.astype(x.dtype)
