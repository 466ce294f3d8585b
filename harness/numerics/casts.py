"""Casts that do nothing: ``x.float()`` of a float32 tensor is that tensor, and a write to one is a
write to the other. In float64 it would be a copy.

Eager says which casts of a program are such, and a run in float64 does likewise. Only programs that
write to what was cast, or to what it was cast from, need it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_METHODS = ("to", "type", "type_as", "double", "float", "half", "bfloat16")
_OVERLOADS: Any = torch.ops.aten.to
_CASTS = frozenset(
    [getattr(torch.Tensor, name) for name in _METHODS]
    + [getattr(_OVERLOADS, name) for name in _OVERLOADS.overloads()]
)


class Casts(TorchFunctionMode):
    """Notes which casts of a run hand out the tensor that they were given.

    Attributes:
        kept: of each cast, in their order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[bool] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in _CASTS:
            self.kept.append(bool(args) and result is args[0])
        return result


class CastsAlike(TorchFunctionMode):
    """Has the casts of a run hand out what they were given where those of another did.

    Args:
        kept: what :class:`Casts` noted.
    """

    def __init__(self, kept: list[bool]) -> None:
        super().__init__()
        self._kept = iter(kept)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in _CASTS and next(self._kept, False):
            return args[0]
        return func(*args, **(kwargs or {}))
