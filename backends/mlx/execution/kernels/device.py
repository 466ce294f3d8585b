"""Functions that mlx's CPU backend computes worse than the Metal kernels that ship, as these do.

The emulation stands for the device: what is wrong on this host alone would accuse the wrong party.
"""

from __future__ import annotations

import mlx.core as mx
import numpy
import torch


def erf(x: mx.array) -> mx.array:
    """The error function, rounded once.

    The CPU takes formula 7.1.26 of Abramowitz and Stegun (mlx/backend/cpu/simd/math.h), off
    by up to 5e-7 whatever the value; the device's kernel is accurate to an ULP
    (mlx/backend/metal/kernels/erf.h).
    """
    # float32 holds every 16-bit value, and numpy knows no bfloat16.
    values = torch.from_numpy(numpy.array(x.astype(mx.float32)))
    exact = torch.erf(values.double()).float()
    return mx.array(exact.numpy()).astype(x.dtype)
