"""Modules that write to their buffers, called several times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F

from harness import Case
from suites.build import nn_case, randn

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


def _case(name: str, make: Callable[[], torch.nn.Module]) -> Case:
    x = randn(3, 4)
    return nn_case(f"state/{name}", make, x, calls=[(x,)] * 2, tags=["stateful"])


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
