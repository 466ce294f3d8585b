"""Activations.

Formulas: docstrings in coremltools ``mil/ops/defs/iOS15/activation.py``. Values: torch's kernel
where it has one with this formula (``elu``, ``gelu``, ``leaky_relu``, ``prelu``, ``sigmoid``,
``silu``, ``softmax``, ``softplus``, ``softsign``), otherwise the formula in the dtype of ``x``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional

from backends.coreml.kernels.base import (
    Scalar,
    normalize_axis,
    register_kernel,
    to_number,
    to_tensor,
)
from harness import ProgramError

_Number = torch.Tensor | Scalar

_PLAIN: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.relu,
    "relu6": functional.relu6,
    "sigmoid": torch.sigmoid,
    "silu": functional.silu,
    # torch returns x above 20, where log(1 + e^x) rounds to x in float32 and float16.
    "softplus": functional.softplus,
    "softsign": functional.softsign,
}


def _register(name: str, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    @register_kernel(name)
    def kernel(x: torch.Tensor | Scalar) -> torch.Tensor:
        return function(to_tensor(x))


for _name, _function in _PLAIN.items():
    _register(_name, _function)


@register_kernel("clamped_relu")
def clamped_relu(x: _Number, alpha: _Number, beta: _Number) -> torch.Tensor:
    """Compute ``min(beta, x)`` where ``x >= 0``, else ``min(beta, alpha * x)``."""
    value = to_tensor(x)
    scaled = torch.where(value >= 0, value, value * to_number(alpha))
    return torch.clamp(scaled, max=to_number(beta))


@register_kernel("elu")
def elu(x: _Number, alpha: _Number) -> torch.Tensor:
    """Compute ``x`` where ``x > 0``, else ``alpha * (e^x - 1)``."""
    return functional.elu(to_tensor(x), float(to_number(alpha)))


@register_kernel("gelu")
def gelu(x: _Number, mode: str = "EXACT") -> torch.Tensor:
    """Compute one of the three formulas of GELU, those of torch in float64, rounded once.

    torch computes GELU of a strided float32 tensor with oneDNN, whose erf has an absolute error.
    """
    value = to_tensor(x)
    if mode == "EXACT":
        return functional.gelu(value.double()).to(value.dtype)
    if mode == "TANH_APPROXIMATION":
        return functional.gelu(value.double(), approximate="tanh").to(value.dtype)
    if mode == "SIGMOID_APPROXIMATION":
        return value * torch.sigmoid(1.702 * value)
    raise ProgramError(f"unknown mode {mode!r}")


@register_kernel("leaky_relu")
def leaky_relu(x: _Number, alpha: _Number) -> torch.Tensor:
    """Compute ``x`` where ``x >= 0``, else ``alpha * x``."""
    return functional.leaky_relu(to_tensor(x), float(to_number(alpha)))


@register_kernel("linear_activation")
def linear_activation(x: _Number, alpha: _Number, beta: _Number) -> torch.Tensor:
    """Compute ``alpha * x + beta``."""
    return to_tensor(x) * to_number(alpha) + to_number(beta)


@register_kernel("prelu")
def prelu(x: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
    """Compute ``x`` where ``x > 0``, else ``alpha[c] * x``; channels are axis 1."""
    return functional.prelu(x, to_tensor(alpha, x.dtype).reshape(-1))


@register_kernel("scaled_tanh")
def scaled_tanh(x: _Number, alpha: _Number, beta: _Number) -> torch.Tensor:
    """Compute ``alpha * tanh(beta * x)``."""
    return to_number(alpha) * torch.tanh(to_tensor(x) * to_number(beta))


@register_kernel("sigmoid_hard")
def sigmoid_hard(x: _Number, alpha: _Number, beta: _Number) -> torch.Tensor:
    """Compute ``min(max(alpha * x + beta, 0), 1)``."""
    return torch.clamp(linear_activation(x, alpha, beta), 0, 1)


@register_kernel("softmax")
def softmax(x: _Number, axis: _Number = -1) -> torch.Tensor:
    """Compute the softmax along an axis."""
    value = to_tensor(x)
    return torch.softmax(value, normalize_axis(axis, max(value.dim(), 1)))


@register_kernel("softplus_parametric")
def softplus_parametric(x: torch.Tensor, alpha: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
    """Compute ``alpha[c] * log(1 + e^(beta[c] * x))``; channels are axis 1."""
    shape = [-1 if axis == 1 else 1 for axis in range(x.dim())]
    first, second = (to_tensor(value, x.dtype).reshape(shape) for value in (alpha, beta))
    return first * functional.softplus(x * second)


@register_kernel("thresholded_relu")
def thresholded_relu(x: _Number, alpha: _Number) -> torch.Tensor:
    """Return ``x`` where ``x >= alpha``, else 0."""
    value = to_tensor(x)
    return torch.where(value >= to_number(alpha), value, torch.zeros_like(value))
