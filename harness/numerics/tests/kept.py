"""Bounds of a fixed set of calls, stored in a file: faster references must not widen them.

    python -m harness.numerics.tests.kept

rewrites the file, for an intended change.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from harness.model.precision import Precision
from harness.numerics.oracle import compute_reference

F = torch.nn.functional
FILE = Path(__file__).with_name("kept_bounds.json")

HALF = Precision(
    0.5, argument_roundings=2.0**-16, float32_sums=frozenset({"mm", "addmm", "linear", "bmm"})
)
"""A device that computes in float32 and rounds once."""


@dataclass(frozen=True)
class StoredCall:
    """A call whose bound is stored.

    Attributes:
        function: the function to call.
        shapes: shapes of its inputs, which are normally distributed.
        dtype: dtype of its inputs.
        precision: precision of the target.
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
    "add": StoredCall(torch.add, ((7, 9), (7, 9))),
    "chain": StoredCall(_chain, ((9, 11),)),
    "softmax": StoredCall(lambda x: x.softmax(-1), ((5, 40),)),
    "linear": StoredCall(F.linear, ((6, 32), (24, 32), (24,))),
    "convolution": StoredCall(F.conv2d, ((2, 4, 9, 9), (6, 4, 3, 3), (6,))),
    "transposed": StoredCall(F.conv_transpose1d, ((2, 4, 9), (4, 6, 3))),
    "grouped": StoredCall(lambda x, w: F.conv1d(x, w, groups=2), ((2, 4, 20), (6, 2, 3))),
    "pool": StoredCall(lambda x: F.avg_pool2d(x, 2), ((2, 3, 8, 8),)),
    "attention": StoredCall(_attend, ((1, 2, 12, 8),) * 3),
    "layer": StoredCall(_layer, ((8, 16), (16, 48), (48, 16))),
    "layer bf16": StoredCall(_layer, ((8, 16), (16, 48), (48, 16)), torch.bfloat16, HALF),
    "layer fp16": StoredCall(_layer, ((8, 16), (16, 48), (48, 16)), torch.float16),
    "cumsum": StoredCall(lambda x: x.cumsum(-1), ((4, 50),)),
    "norm": StoredCall(lambda x: F.layer_norm(x, (20,)), ((6, 20),)),
    "gelu": StoredCall(F.gelu, ((6, 20),)),
    "ties": StoredCall(_ties, ((6, 20),)),
    "fft": StoredCall(lambda x: torch.fft.rfft(x), ((3, 32),)),
    "upsample": StoredCall(
        lambda x: F.interpolate(x, scale_factor=1.7, mode="bicubic"), ((1, 2, 8, 8),)
    ),
    "large add": StoredCall(torch.add, ((300, 700), (300, 700))),
    "large chain": StoredCall(_chain, ((300, 700),)),
    "large halves": StoredCall(_both, ((300, 1400),)),
    "large softmax": StoredCall(lambda x: x.softmax(-1), ((300, 700),)),
    "large linear": StoredCall(F.linear, ((300, 256), (700, 256), (700,))),
    "large linear bf16": StoredCall(F.linear, ((300, 256), (700, 256)), torch.bfloat16, HALF),
    "large convolution": StoredCall(F.conv1d, ((3, 16, 1000), (80, 16, 3), (80,))),
    "large transposed view": StoredCall(lambda x, w: (x @ w).T.exp(), ((400, 20), (20, 500))),
    "large layer": StoredCall(_layer, ((128, 256), (256, 1024), (1024, 256))),
    "large layer bf16": StoredCall(
        _layer, ((128, 256), (256, 1024), (1024, 256)), torch.bfloat16, HALF
    ),
    "large attention": StoredCall(_attend, ((1, 8, 900, 32),) * 3),
    "large attention bf16": StoredCall(_attend, ((1, 8, 900, 32),) * 3, torch.bfloat16, HALF),
    "large sum": StoredCall(lambda x: x.sum(-1) + (x * x).mean(-1), ((500, 700),)),
    "very large add": StoredCall(lambda x: x * 3.3 + x, ((1200, 1000),)),
}


def measure(call: StoredCall) -> dict[str, float]:
    """Return mean, root mean square, least and largest element of a call's bound."""
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(shape, generator=generator).to(call.dtype) for shape in call.shapes]
    found = compute_reference(_Module(call.function), [tuple(inputs)], call.precision, 0)
    (bound,) = found.bound[0]
    assert bound is not None
    return {
        "mean": float(bound.mean()),
        "rms": float(bound.square().mean().sqrt()),
        "least": float(bound.min()),
        "largest": float(bound.max()),
    }


def measure_all() -> Iterator[tuple[str, dict[str, float]]]:
    """Measure all calls."""
    for name, call in CALLS.items():
        yield name, measure(call)


if __name__ == "__main__":
    FILE.write_text(json.dumps(dict(measure_all()), indent=1) + "\n")
