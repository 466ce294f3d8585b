"""Functions of one tensor, element by element.

Formulas and default epsilons: docstrings in coremltools ``mil/ops/defs/iOS15/elementwise_unary.py``
and ``iOS17/elementwise_unary.py``. Values: torch's kernel of the same name in the dtype of ``x``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from backends.coreml.kernels.base import (
    Scalar,
    register_kernel,
    to_dtype,
    to_number,
    to_tensor,
)

_UNARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "abs": torch.abs,
    "acos": torch.acos,
    "asin": torch.asin,
    "atan": torch.atan,
    "atanh": torch.atanh,
    "ceil": torch.ceil,
    "cos": torch.cos,
    "cosh": torch.cosh,
    "erf": torch.erf,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "floor": torch.floor,
    "logical_not": torch.logical_not,
    "round": torch.round,  # half to even: the docstring rounds 0.5 to 0
    "sign": torch.sign,
    "sin": torch.sin,
    "sinh": torch.sinh,
    "sqrt": torch.sqrt,
    "square": torch.square,
    "tan": torch.tan,
    "tanh": torch.tanh,
}


def _register(name: str, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    @register_kernel(name)
    def kernel(x: torch.Tensor | Scalar) -> torch.Tensor:
        value = to_tensor(x)
        # exp2 of an int32 is an int32, rounded toward zero like a cast.
        return function(value).to(value.dtype)


for _name, _function in _UNARY.items():
    _register(_name, _function)


@register_kernel("identity")
def identity(x: torch.Tensor | list[torch.Tensor]) -> torch.Tensor | list[torch.Tensor]:
    """Return the argument."""
    return x if isinstance(x, list) else to_tensor(x)


@register_kernel("inverse")
def inverse(x: torch.Tensor | Scalar, epsilon: torch.Tensor | Scalar = 1e-4) -> torch.Tensor:
    """Compute ``1 / (x + epsilon)``."""
    return torch.reciprocal(to_tensor(x) + to_number(epsilon))


@register_kernel("log")
def log(x: torch.Tensor | Scalar, epsilon: torch.Tensor | Scalar = 1e-45) -> torch.Tensor:
    """Compute ``log(x + epsilon)``. In float16 the default epsilon rounds to 0."""
    return torch.log(to_tensor(x) + to_number(epsilon))


@register_kernel("rsqrt")
def rsqrt(x: torch.Tensor | Scalar, epsilon: torch.Tensor | Scalar = 1e-12) -> torch.Tensor:
    """Compute ``1 / sqrt(x + epsilon)``."""
    return torch.rsqrt(to_tensor(x) + to_number(epsilon))


@register_kernel("clip")
def clip(
    x: torch.Tensor | Scalar, alpha: torch.Tensor | Scalar, beta: torch.Tensor | Scalar
) -> torch.Tensor:
    """Limit values to ``[alpha, beta]``."""
    return torch.clamp(to_tensor(x), to_number(alpha), to_number(beta))


@register_kernel("threshold")
def threshold(x: torch.Tensor | Scalar, alpha: torch.Tensor | Scalar) -> torch.Tensor:
    """Raise values below ``alpha`` to it."""
    return torch.clamp(to_tensor(x), min=to_number(alpha))


@register_kernel("cast")
def cast(x: torch.Tensor | Scalar, dtype: str) -> torch.Tensor:
    """Convert to another type; floats become integers by rounding toward zero."""
    return to_tensor(x).to(to_dtype(dtype))
