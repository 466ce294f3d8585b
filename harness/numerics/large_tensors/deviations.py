"""Compute large linear operations of a perturbed run from the deviation of their argument.

The result for ``x + δ`` is the known result for ``x`` plus the result for ``δ``. Seven digits of
the latter suffice, as it only serves to estimate an error. In float32, products take little more
than half of their time in float64, and convolutions a fifth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch

# Positions of the argument that may err, and of its factor.
_FACTORS = {"mm": (0, 1), "bmm": (0, 1), "addmm": (1, 2), "convolution": (0, 1)}


@dataclass(frozen=True)
class TensorSnapshot:
    """A tensor that is valid as long as nothing writes to it.

    Attributes:
        tensor: the tensor.
        version: its version when the snapshot was made.
    """

    tensor: torch.Tensor
    version: int

    @classmethod
    def from_tensor(cls, tensor: torch.Tensor) -> TensorSnapshot:
        """Make a snapshot of the current version."""
        return cls(tensor, tensor._version)

    @property
    def value(self) -> torch.Tensor | None:
        """The tensor; None where something wrote to it."""
        return self.tensor if self.tensor._version == self.version else None


@dataclass
class Float32Copies:
    """Float32 copies of tensors.

    Attributes:
        copies: by address, shape and strides; the originals stay alive, so that no other tensor
            takes their address.
    """

    copies: dict[Any, tuple[TensorSnapshot, torch.Tensor]] = field(default_factory=dict)

    def get(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the copy of a tensor."""
        key = (tensor.data_ptr(), tensor.shape, tensor.stride())
        snapshot, copy = self.copies.get(key, (None, None))
        if snapshot is None or snapshot.value is None or copy is None:
            copy = tensor.float()
            self.copies[key] = TensorSnapshot.from_tensor(tensor), copy
        return copy


@dataclass(frozen=True)
class LinearCall:
    """A call of an operation that is linear in an argument.

    Attributes:
        func: the overload that is called.
        name: its base name.
        args: its arguments.
    """

    func: Any
    name: str
    args: tuple[Any, ...]

    @classmethod
    def from_call(
        cls, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> LinearCall | None:
        """Make a linear call; None where the operation is not supported."""
        if name not in _FACTORS or kwargs:
            return None
        call = cls(func, name, args)
        return None if call.argument.is_complex() or call.factor.is_complex() else call

    @property
    def argument(self) -> torch.Tensor:
        """The argument that the operation is linear in."""
        return self.args[_FACTORS[self.name][0]]  # type: ignore[no-any-return]

    @property
    def factor(self) -> torch.Tensor:
        """The factor of the argument."""
        return self.args[_FACTORS[self.name][1]]  # type: ignore[no-any-return]

    @property
    def other_args(self) -> tuple[Any, ...]:
        """All arguments but that one."""
        place = _FACTORS[self.name][0]
        return (*self.args[:place], *self.args[place + 1 :])

    def add_deviation(
        self, exact: torch.Tensor, result: torch.Tensor, factor: torch.Tensor
    ) -> torch.Tensor | None:
        """Return the result of the call, float64; None where the deviation overflows float32.

        Args:
            exact: the argument in the unperturbed run, of the same shape.
            result: the result in the unperturbed run.
            factor: the factor of the argument in float32.
        """
        off = self.argument - exact
        # Scaled to 1 in each row or image, so that each one has float32's full range.
        over = list(range(1, off.dim())) if self.name == "convolution" else [-1]
        scale = torch.linalg.vector_norm(off, math.inf, over, keepdim=True)
        scale.masked_fill_(scale == 0, 1.0)
        narrow = off.div_(scale).float()
        if self.name == "convolution":
            image = self.func(narrow, factor, None, *self.args[3:])
        else:
            image = (torch.bmm if self.name == "bmm" else torch.mm)(narrow, factor)
        if not math.isfinite(float(image.sum())):
            return None
        deviation: torch.Tensor = image * scale
        return deviation.add_(result)
