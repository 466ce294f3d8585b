"""Casts that do nothing: ``x.float()`` of a float32 tensor is that tensor, and a write to one is a
write to the other. In float64 it would be a copy.

Eager says which casts of a program are such, and a run in float64 does likewise. Only programs that
write to what was cast, or to what it was cast from, need it.

Casts are told apart by the instruction that makes them: a module may well ask for its dtype, and
cast in one run what it leaves alone in the other.
"""

from __future__ import annotations

import inspect
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType, FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from harness.private.torch import OpOverload

_METHODS = ("to", "type", "type_as", "double", "float", "half", "bfloat16")
_OVERLOADS: Any = torch.ops.aten.to
_CASTS = frozenset(
    [getattr(torch.Tensor, name) for name in _METHODS]
    + [getattr(_OVERLOADS, name) for name in _OVERLOADS.overloads()]
)
_OPERATORS = inspect.getfile(OpOverload)

Place = tuple[CodeType, int]
"""The function that casts, and at which of its instructions."""
Kept = Mapping[Place, Sequence[bool]]
"""Which casts hand out what they are given: of each place one after the other."""


def _caller() -> Place:
    """Who casts, beyond this mode, others, and the one place from which torch calls overloads."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and (
        frame.f_code.co_name == "__torch_function__" or frame.f_code.co_filename == _OPERATORS
    ):
        frame = frame.f_back
    assert frame is not None
    return frame.f_code, frame.f_lasti


class Casts(TorchFunctionMode):
    """Notes which casts of a run hand out the tensor that they were given.

    Attributes:
        kept: those.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kept: defaultdict[Place, list[bool]] = defaultdict(list)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in _CASTS:
            self.kept[_caller()].append(bool(args) and result is args[0])
        return result


class CastsAlike(TorchFunctionMode):
    """Has the casts of a run hand out what they were given where those of another did.

    Args:
        kept: what :class:`Casts` noted.
    """

    def __init__(self, kept: Kept) -> None:
        super().__init__()
        self._kept: dict[Place, Iterator[bool]] = {
            place: iter(each) for place, each in kept.items()
        }

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in _CASTS and next(self._kept.get(_caller(), iter(())), False):
            return args[0]
        return func(*args, **(kwargs or {}))
