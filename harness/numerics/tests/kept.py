"""Bounds of a fixed set of calls, kept in a file: what makes references faster must not widen them.

    python -m harness.numerics.tests.kept

writes the file anew, for a change that means to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from harness.model.precision import Precision
from harness.numerics.oracle import refer

F = torch.nn.functional
FILE = Path(__file__).with_name("kept_bounds.json")

HALF = Precision(
    0.5, argument_roundings=2.0**-16, float32_sums=frozenset({"mm", "addmm", "linear", "bmm"})
)
"""Like a device that computes in float32 and rounds once."""


@dataclass(frozen=True)
class Kept:
    """A call whose bound is kept.

    Attributes:
        function: what is called.
        shapes: of its inputs, which are normally distributed.
        dtype: of its inputs.
        precision: of the target.
    """

    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    dtype: torch.dtype = torch.float32
    precision: Precision = Precision()  # noqa: RUF009  (frozen)


class _Module(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def _chain(x: torch.Tensor) -> torch.Tensor:
    return ((x * 1.1 + 0.3).sin() / 3.0 - x).exp().sqrt()


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def _layer(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    normal = F.rms_norm(x, x.shape[-1:], eps=1e-5)
    return x + F.silu(normal @ up) @ down


def _ties(x: torch.Tensor) -> torch.Tensor:
    return x.round() * x + x.softmax(-1).amax(-1, keepdim=True)


def _both(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return x[..., :half].exp() - x[..., half:].exp()


CALLS = {
    "add": Kept(torch.add, ((7, 9), (7, 9))),
    "chain": Kept(_chain, ((9, 11),)),
    "softmax": Kept(lambda x: x.softmax(-1), ((5, 40),)),
    "linear": Kept(F.linear, ((6, 32), (24, 32), (24,))),
    "convolution": Kept(F.conv2d, ((2, 4, 9, 9), (6, 4, 3, 3), (6,))),
    "transposed": Kept(F.conv_transpose1d, ((2, 4, 9), (4, 6, 3))),
    "grouped": Kept(lambda x, w: F.conv1d(x, w, groups=2), ((2, 4, 20), (6, 2, 3))),
    "pool": Kept(lambda x: F.avg_pool2d(x, 2), ((2, 3, 8, 8),)),
    "attention": Kept(_attend, ((1, 2, 12, 8),) * 3),
    "layer": Kept(_layer, ((8, 16), (16, 48), (48, 16))),
    "layer bf16": Kept(_layer, ((8, 16), (16, 48), (48, 16)), torch.bfloat16, HALF),
    "layer fp16": Kept(_layer, ((8, 16), (16, 48), (48, 16)), torch.float16),
    "cumsum": Kept(lambda x: x.cumsum(-1), ((4, 50),)),
    "norm": Kept(lambda x: F.layer_norm(x, (20,)), ((6, 20),)),
    "gelu": Kept(F.gelu, ((6, 20),)),
    "ties": Kept(_ties, ((6, 20),)),
    "fft": Kept(lambda x: torch.fft.rfft(x), ((3, 32),)),
    "upsample": Kept(lambda x: F.interpolate(x, scale_factor=1.7, mode="bicubic"), ((1, 2, 8, 8),)),
    "large add": Kept(torch.add, ((300, 700), (300, 700))),
    "large chain": Kept(_chain, ((300, 700),)),
    "large halves": Kept(_both, ((300, 1400),)),
    "large softmax": Kept(lambda x: x.softmax(-1), ((300, 700),)),
    "large linear": Kept(F.linear, ((300, 256), (700, 256), (700,))),
    "large linear bf16": Kept(F.linear, ((300, 256), (700, 256)), torch.bfloat16, HALF),
    "large convolution": Kept(F.conv1d, ((3, 16, 1000), (80, 16, 3), (80,))),
    "large transposed view": Kept(lambda x, w: (x @ w).T.exp(), ((400, 20), (20, 500))),
    "large layer": Kept(_layer, ((128, 256), (256, 1024), (1024, 256))),
    "large layer bf16": Kept(_layer, ((128, 256), (256, 1024), (1024, 256)), torch.bfloat16, HALF),
    "large attention": Kept(_attend, ((1, 8, 900, 32),) * 3),
    "large attention bf16": Kept(_attend, ((1, 8, 900, 32),) * 3, torch.bfloat16, HALF),
    "large sum": Kept(lambda x: x.sum(-1) + (x * x).mean(-1), ((500, 700),)),
    "very large add": Kept(lambda x: x * 3.3 + x, ((1200, 1000),)),
}


def measure(kept: Kept) -> dict[str, float]:
    """Mean, root mean square and largest of a bound, and what the call's values are like."""
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(shape, generator=generator).to(kept.dtype) for shape in kept.shapes]
    found = refer(_Module(kept.function), [tuple(inputs)], kept.precision, 0)
    (bound,) = found.bound[0]
    assert bound is not None
    return {
        "mean": float(bound.mean()),
        "rms": float(bound.square().mean().sqrt()),
        "least": float(bound.min()),
        "largest": float(bound.max()),
    }


def all_bounds() -> Iterator[tuple[str, dict[str, float]]]:
    """Measure all."""
    for name, kept in CALLS.items():
        yield name, measure(kept)


if __name__ == "__main__":
    FILE.write_text(json.dumps(dict(all_bounds()), indent=1) + "\n")
