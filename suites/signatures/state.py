"""Modules that write to their buffers, called several times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F

from harness import Case
from suites.build import nn_case, randn
from suites.selection import take_turns

_Apply = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class _Running(torch.nn.Module):
    """Adds a running sum of its earlier inputs."""

    def __init__(self, start: float) -> None:
        super().__init__()
        self.seen = torch.nn.Buffer(torch.full((4,), start))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add_(x.mean(0))
        return x + self.seen


class _Counting(torch.nn.Module):
    """Scales its input by the number of calls."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.count = torch.nn.Buffer(torch.zeros(1, dtype=dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return x * self.count


class _Kept(torch.nn.Module):
    """Keeps rows of earlier calls."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = torch.nn.Buffer(torch.zeros(3, 4))
        self.rows = torch.nn.Buffer(torch.tensor([2, 0]))


class _ReadBefore(_Kept):
    """Returns what earlier calls have kept, read before a write that few delegates take."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        before = self.kept * 2
        self.kept.index_put_((self.rows,), x[:2], accumulate=True)
        return before, x + self.kept


class _Put(_Kept):
    """Adds what earlier calls have kept."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.kept.index_put_((self.rows,), x[:2])
        return x + self.kept


class _Returned(torch.nn.Module):
    """Returns the buffer that it writes."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = torch.nn.Buffer(torch.zeros(3, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.kept.copy_(x - self.kept)
        return self.kept


class _Learning(torch.nn.Module):
    """Changes a weight after each use."""

    def __init__(self, apply: _Apply, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.apply_weight = apply
        self.weight = torch.nn.Buffer(torch.zeros(shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = self.apply_weight(x, self.weight)
        self.weight.add_(x.mean())
        return result


class _Reset(torch.nn.Module):
    """Adds a state that begins anew: one buffer is stored in another."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Buffer(torch.ones(3, 4))
        self.state = torch.nn.Buffer(torch.zeros(3, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = x + self.state
        self.state.copy_(self.first)
        return result


class _DelayLine(torch.nn.Module):
    """Adds half of the last input and a quarter of the one before it."""

    def __init__(self) -> None:
        super().__init__()
        self.last = torch.nn.Buffer(torch.zeros(3, 4))
        self.older = torch.nn.Buffer(torch.zeros(3, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = x + self.last * 0.5 + self.older * 0.25
        self.older.copy_(self.last)
        self.last.copy_(x)
        return result


class _Regrouped(torch.nn.Module):
    """Stores a view of a buffer in another, and then writes the first."""

    def __init__(self) -> None:
        super().__init__()
        self.last = torch.nn.Buffer(torch.zeros(3, 4))
        self.older = torch.nn.Buffer(torch.zeros(6, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = x + self.older.flatten().view(3, 4)
        self.older.copy_(self.last.view(6, 2))
        self.last.copy_(x * 0.5)
        return result


class _Named(torch.nn.Module):
    """Has a buffer with the name of an argument."""

    def __init__(self) -> None:
        super().__init__()
        self.mask = torch.nn.Buffer(torch.zeros(3, 4))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        self.mask.mul_(0.5).add_(x)
        return self.mask * mask


class _Last(torch.nn.Module):
    """Returns twice its last input.

    Args:
        clone: return a clone of the buffer.
    """

    def __init__(self, clone: bool) -> None:
        super().__init__()
        self.clone = clone
        self.last: torch.Tensor = torch.nn.Buffer(torch.zeros(3, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.clone:
            result = self.last.clone()
            self.last.copy_(x * 2)
        else:
            result = self.last
            self.last = x * 2
        return result


class _Total(torch.nn.Module):
    """Subtracts the sum of its inputs, which is a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.total = torch.nn.Parameter(torch.zeros(3, 4), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return x - self.total


def _case(name: str, make: Callable[[], torch.nn.Module], arguments: int = 1) -> Case:
    inputs = (randn(3, 4),) * arguments
    return nn_case(f"state/{name}", make, *inputs, calls=[inputs] * 2, tags=["stateful"])


CASES: list[Case] = [
    _case("from_zero", lambda: _Running(0.0)),
    _case("from_one", lambda: _Running(1.0)),
    replace(
        _case("read_before_put", _ReadBefore),
        targets="portable:*|xnnpack:fp32|tosa:fp|mlx:*|metal:fp32",
    ),
    _case("put", _Put),
    _case("returned", _Returned),
    _case("counter", lambda: _Counting(torch.float32)),
    _case("counter_int64", lambda: _Counting(torch.int64)),
]

CASES = take_turns(CASES)

# Quantizers lose some of these writes in other ways, and so do the kernels for AOTI and CoreML.
_FLOAT = "portable:*|xnnpack:fp32|tosa:fp|mlx:*"
CASES += [
    replace(_case(name, make, arguments), targets=targets)
    for name, make, arguments, targets in (
        ("reset", _Reset, 1, _FLOAT),
        ("delay_line", _DelayLine, 1, _FLOAT),
        ("named_as_argument", _Named, 2, f"{_FLOAT}|metal:*"),
        # XNNPACK has no operator to take of these two.
        ("returned_before", partial(_Last, clone=False), 1, "portable:*|tosa:fp|mlx:*"),
        ("clone_returned", partial(_Last, clone=True), 1, "portable:*|tosa:fp|mlx:*"),
        ("parameter", _Total, 1, _FLOAT),
        ("view_stored", _Regrouped, 1, _FLOAT),
    )
]

# Lowering takes weights for constants. On XNNPACK such a cell ends its process.
_WEIGHTS: dict[str, tuple[_Apply, tuple[int, ...]]] = {
    "linear": (F.linear, (5, 4)),
    "mm": (torch.mm, (4, 5)),
    "conv2d": (lambda x, weight: F.conv2d(x[None, None], weight), (2, 1, 2, 2)),
    "prelu": (lambda x, weight: F.prelu(x.view(1, 3, 2, 2), weight), (3,)),
    "layer_norm": (lambda x, weight: F.layer_norm(x, (4,), weight), (4,)),
}

CASES += [
    replace(
        _case(f"learned_{name}", partial(_Learning, *arguments)),
        targets="portable:fp32|xnnpack:fp32|tosa:fp|mlx:fp32|metal:fp32",
        plain_targets="portable:fp32|tosa:fp|mlx:fp32",
    )
    for name, arguments in _WEIGHTS.items()
]
