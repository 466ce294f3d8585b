"""Dynamic shapes: sizes that are only known at run time, in calls and in kernel launches."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch.export import Dim
from torch.nn import Conv1d, Conv2d, LayerNorm, Linear, Sequential, SiLU

from harness import Case
from harness.model.registry import NIGHTLY
from suites.build import Input, distinct, nn_case, op, randn
from suites.metal.convolution import Conformer
from suites.metal.only import on_metal
from suites.metal.reductions import LIMITS

_ROWS = Dim("rows", min=1, max=9)
_LENGTH = Dim("length", min=2, max=70)
_KEYS = Dim("keys", min=2, max=40)
_EVEN = Dim("pairs", min=2, max=12) * 2


def _sdpa(name: str, *, causal: bool = False, turned: bool = False) -> Case:
    def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        if turned:
            q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def inputs(length: int) -> tuple[Input, ...]:
        return (randn(*((1, length, 2, 64) if turned else (1, 2, length, 64))),) * 3

    return op(
        f"scaled_dot_product_attention/{name}",
        run,
        *inputs(7),
        dynamic_shapes=({1 if turned else 2: _LENGTH},) * 3,
        calls=[inputs(length) for length in (2, 33, 70)],
    )


class _Largest(torch.nn.Module):
    """Adds the largest element of each column to a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("sums", torch.zeros(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.sums.add_(x.amax(0))
        return self.sums * 2


def _numbers(name: str, function: Callable[[torch.Tensor, Any], torch.Tensor]) -> Case:
    """Make a case of numbers that are computed from a size, in a generated kernel."""

    def run(x: torch.Tensor) -> torch.Tensor:
        return function(x, x.shape[0])

    return op(f"size_number/{name}", run, randn(7, 3), dynamic_shapes=({0: _LENGTH},),
              calls=[(randn(n, 3),) for n in (2, 33)])  # fmt: skip


def _lengths(*shape: int) -> list[tuple[Input, ...]]:
    """Inputs of several sizes in place of -1."""
    return [(randn(*(n if size == -1 else size for size in shape)),) for n in (2, 33, 70)]


CASES: list[Case] = on_metal(
    nn_case("linear/metal_dynamic_rows", partial(Linear, 16, 24), randn(4, 16),
            dynamic_shapes=({0: _ROWS},), calls=[(randn(n, 16),) for n in (1, 2, 9)]),
    op("floor_divide/metal_dynamic_by_rows", lambda x: x * 2 + 1 // x.shape[0], randn(4, 3),
       dynamic_shapes=({0: _ROWS},)),
    nn_case("linear/metal_dynamic_rows_no_bias", partial(Linear, 16, 24, bias=False), randn(4, 16),
            dynamic_shapes=({0: _ROWS},), calls=[(randn(n, 16),) for n in (1, 9)]),
    nn_case("linear/metal_dynamic_sequence", partial(Linear, 16, 24), randn(1, 7, 16),
            dynamic_shapes=({1: _LENGTH},), calls=_lengths(1, -1, 16)),
    nn_case("linear/metal_dynamic_feed_forward",
            lambda: Sequential(LayerNorm(16), Linear(16, 32), SiLU(), Linear(32, 16)),
            randn(1, 7, 16), dynamic_shapes=({1: _LENGTH},), calls=_lengths(1, -1, 16)),
    op("bmm/dynamic_scores", lambda q, k: q @ k.transpose(-1, -2), randn(2, 7, 8), randn(2, 7, 8),
       dynamic_shapes=({1: _LENGTH}, {1: _LENGTH}),
       calls=[(randn(2, n, 8), randn(2, n, 8)) for n in (2, 33)]),
    nn_case("amax/metal_dynamic_into_buffer", _Largest, randn(7, 6),
            dynamic_shapes=({0: _LENGTH},), calls=_lengths(-1, 6)),
    op("_softmax/metal_dynamic_reduced", lambda x: torch.softmax(x, -1), randn(3, 7),
       dynamic_shapes=({1: Dim("long", min=2, max=3000)},),
       calls=[(randn(3, n),) for n in (2, 1024, 1025, 3000)]),
    op("argmin/metal_dynamic_reduced", lambda x: x.argmin(-1), distinct(3, 7, offset=2000),
       dynamic_shapes=({1: Dim("long", min=2, max=3000)},),
       calls=[(distinct(3, n, offset=2000),) for n in (2, 1025, 3000)], tags=[NIGHTLY]),
    op("var/metal_dynamic_reduced", lambda x: x.var(-1), randn(3, 7),
       dynamic_shapes=({1: Dim("long", min=2, max=3000)},),
       calls=[(randn(3, n),) for n in (2, 1025, 3000)], tags=[NIGHTLY]),
    op("any/metal_dynamic_reduced", lambda x: (x > LIMITS).any(-1), randn(3, 7),
       dynamic_shapes=({1: Dim("long", min=2, max=3000)},),
       calls=[(randn(3, n),) for n in (2, 1025, 3000)]),
    _numbers("quotient", lambda x, n: x * (n / 3) + n // 4),
    _numbers("remainder", lambda x, n: x * (n % 4) + n**2),
    _numbers("rounded", lambda x, n: x * round(n / 3) + math.floor(n / 4)),
    _numbers("rounded_up", lambda x, n: x + math.ceil(n / 5)),
    op("_softmax/metal_dynamic_rows", lambda x: torch.softmax(x, -1), randn(7, 5),
       dynamic_shapes=({0: _LENGTH},), calls=_lengths(-1, 5)),
    op("native_layer_norm/metal_dynamic", lambda x: F.layer_norm(x, (24,)), randn(7, 24),
       dynamic_shapes=({0: _LENGTH},), calls=_lengths(-1, 24)),
    _sdpa("dynamic_lengths"),
    _sdpa("dynamic_lengths_causal", causal=True),
    _sdpa("dynamic_lengths_heads_last", turned=True),
    op("scaled_dot_product_attention/dynamic_keys", F.scaled_dot_product_attention,
       randn(1, 2, 5, 64), randn(1, 2, 7, 64), randn(1, 2, 7, 64),
       dynamic_shapes=(None, {2: _KEYS}, {2: _KEYS}),
       calls=[(randn(1, 2, 5, 64), *[randn(1, 2, n, 64)] * 2) for n in (2, 40)]),
    op("scaled_dot_product_attention/dynamic_mask", F.scaled_dot_product_attention,
       randn(1, 2, 5, 64), randn(1, 2, 7, 64), randn(1, 2, 7, 64), randn(5, 7),
       dynamic_shapes=(None, {2: _KEYS}, {2: _KEYS}, {1: _KEYS}),
       calls=[(randn(1, 2, 5, 64), *[randn(1, 2, n, 64)] * 2, randn(5, n)) for n in (2, 40)]),
    nn_case("convolution/metal_dynamic_length", partial(Conv1d, 6, 4, 3, padding=1), randn(1, 6, 7),
            dynamic_shapes=({2: _LENGTH},), calls=_lengths(1, 6, -1)),
    nn_case("convolution/metal_dynamic_depthwise", partial(Conv1d, 6, 6, 3, padding=1, groups=6),
            randn(1, 6, 7), dynamic_shapes=({2: _LENGTH},), calls=_lengths(1, 6, -1)),
    nn_case("convolution/metal_dynamic_stride", partial(Conv2d, 1, 4, 3, 2, 1),
            randn(1, 1, 8, 6), dynamic_shapes=({2: _EVEN},),
            calls=[(randn(1, 1, n, 6),) for n in (4, 24)]),
    nn_case("convolution/metal_dynamic_conformer", partial(Conformer, 8), randn(1, 9, 8),
            dynamic_shapes=({1: _LENGTH},), calls=_lengths(1, -1, 8)),
    op("topk/metal_dynamic", lambda x: tuple(torch.topk(x, 2, -1)), distinct(3, 7),
       dynamic_shapes=({1: _LENGTH},), calls=[(distinct(3, n),) for n in (2, 33)]),
    op("cat/metal_dynamic_of_products", lambda a, b: torch.cat([a @ b, a], 1), randn(7, 6),
       randn(6, 6), dynamic_shapes=({0: _LENGTH}, None),
       calls=[(randn(n, 6), randn(6, 6)) for n in (2, 33)]),
    op("mm/metal_dynamic_halves", lambda a, b: (a @ b)[:, :3] * (a @ b)[:, 3:], randn(7, 5),
       randn(5, 6), dynamic_shapes=({0: _LENGTH}, None),
       calls=[(randn(n, 5), randn(5, 6)) for n in (2, 33)]),
)  # fmt: skip
