"""Functions of two tensors with broadcasting.

Formulas: docstrings in coremltools ``mil/ops/defs/iOS15/elementwise_binary.py``. Different dtypes
are promoted as by ``types.promote_types``. Values: torch's kernels in that dtype.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from backends.coreml.kernels.base import Scalar, check_broadcast, register_kernel, to_tensor

_Pair = tuple[torch.Tensor, torch.Tensor]


def _as_operand(value: torch.Tensor | Scalar, other: torch.Tensor | Scalar) -> torch.Tensor:
    """Return a tensor; a number takes the dtype of the other operand where that can hold it."""
    if isinstance(value, torch.Tensor) or not isinstance(other, torch.Tensor):
        return to_tensor(value)
    kept = to_tensor(value)
    fits = torch.promote_types(kept.dtype, other.dtype) == other.dtype
    return to_tensor(value, other.dtype) if fits or other.is_floating_point() else kept


def promote_pair(x: torch.Tensor | Scalar, y: torch.Tensor | Scalar) -> _Pair:
    """Return two operands as tensors of one dtype.

    Raises:
        UnsupportedProgram: their broadcast result would be too large.
    """
    a, b = _as_operand(x, y), _as_operand(y, x)
    check_broadcast(a, b)
    if a.dtype == b.dtype:
        return a, b
    dtype = torch.promote_types(a.dtype, b.dtype)
    return a.to(dtype), b.to(dtype)


def _floor_divide(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.div(a, b, rounding_mode="floor")


def _divide(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if not a.is_floating_point():
        # The result is an integer. No document says how it is rounded; coremltools rounds constants
        # toward zero, since it saves the quotient in an integer type (types/type_tensor.py).
        return torch.div(a, b, rounding_mode="trunc")
    return torch.div(a, b)


_BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": torch.add,
    "equal": torch.eq,
    "floor_div": _floor_divide,
    "greater": torch.gt,
    "greater_equal": torch.ge,
    "less": torch.lt,
    "less_equal": torch.le,
    "logical_and": torch.logical_and,
    "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "mod": torch.remainder,  # the sign of the divisor, as operator.mod
    "mul": torch.mul,
    "not_equal": torch.ne,
    "pow": torch.pow,
    "real_div": _divide,
    "sub": torch.sub,
}


def _register(name: str, function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
    @register_kernel(name)
    def kernel(x: torch.Tensor | Scalar, y: torch.Tensor | Scalar) -> torch.Tensor:
        return function(*promote_pair(x, y))


for _name, _function in _BINARY.items():
    _register(_name, _function)
