"""What a large linear operation makes of how far its argument is from the run without noise.

Such an operation of ``x + δ`` is that of x, which is known, and that of δ, of which seven digits
are plenty: how far a run is off is all that it is made for. In float32, products take little more
than half of the time that they take in float64, and convolutions a fifth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch

# Positions of the argument that may err, and of what it is multiplied by.
_FACTORS = {"mm": (0, 1), "bmm": (0, 1), "addmm": (1, 2), "convolution": (0, 1)}


@dataclass(frozen=True)
class Kept:
    """A tensor, as long as nothing writes to it.

    Attributes:
        tensor: what is kept.
        version: of it when it was.
    """

    tensor: torch.Tensor
    version: int

    @staticmethod
    def of(tensor: torch.Tensor) -> Kept:
        """As it is now."""
        return Kept(tensor, tensor._version)

    @property
    def value(self) -> torch.Tensor | None:
        """The tensor as it was; None where it is not."""
        return self.tensor if self.tensor._version == self.version else None


@dataclass
class Narrow:
    """Float32 copies of tensors.

    Attributes:
        known: by place in memory.
    """

    known: dict[Any, tuple[Kept, torch.Tensor]] = field(default_factory=dict)

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """The copy of a tensor, which stays alive, so that no other takes its place."""
        place = (tensor.data_ptr(), tensor.shape, tensor.stride())
        kept, copy = self.known.get(place, (None, None))
        if kept is None or kept.value is None or copy is None:
            copy = tensor.float()
            self.known[place] = Kept.of(tensor), copy
        return copy


@dataclass(frozen=True)
class Linear:
    """A call of an operation that is linear in an argument.

    Attributes:
        func: the overload that is called.
        name: its base name.
        args: its arguments.
    """

    func: Any
    name: str
    args: tuple[Any, ...]

    @staticmethod
    def of(func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Linear | None:
        """A call; None where it is of another kind."""
        if name not in _FACTORS or kwargs:
            return None
        found = Linear(func, name, args)
        return None if found.erring.is_complex() or found.factor.is_complex() else found

    @property
    def erring(self) -> torch.Tensor:
        """The argument."""
        return self.args[_FACTORS[self.name][0]]  # type: ignore[no-any-return]

    @property
    def factor(self) -> torch.Tensor:
        """What it is multiplied by."""
        return self.args[_FACTORS[self.name][1]]  # type: ignore[no-any-return]

    @property
    def others(self) -> tuple[Any, ...]:
        """All arguments but that one."""
        place = _FACTORS[self.name][0]
        return (*self.args[:place], *self.args[place + 1 :])

    def beside(
        self, given: torch.Tensor, result: torch.Tensor, factor: torch.Tensor
    ) -> torch.Tensor | None:
        """What the call returns, float64; None where float32 does not hold how far that is off.

        Args:
            given: the argument in the run without noise, of the same shape.
            result: what came of it there.
            factor: what it is multiplied by, float32.
        """
        off = self.erring - given
        # What is summed up is scaled to 1 in each row, or image: each has float32's range.
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
        found: torch.Tensor = image * scale
        return found.add_(result)
