"""One case or two of each group of operators: a plain run's share of CoreML."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from harness import Case
from suites.build import bools, distinct, ints, nn_case, op, randn, uniform
from suites.coreml.only import on_coreml

Tensor = torch.Tensor


class Block(nn.Module):
    """A transformer block with causal attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.qkv(self.before(x)).chunk(3, -1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        result: Tensor = x + self.down(F.silu(self.up(self.after(x))))
        return result


def _make_network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1),
        nn.BatchNorm2d(8),
        nn.ReLU6(),
        nn.Conv2d(8, 8, 3, 1, 1, groups=8),
        nn.Hardswish(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 10),
    ).eval()


def _make_rows() -> torch.Tensor:
    return torch.arange(3, dtype=torch.float32)[:, None] @ torch.linspace(0, 1, 5)[None]


def _make_prelu() -> nn.Module:
    module = nn.PReLU(3)
    nn.init.uniform_(module.weight, 0.1, 0.9)
    return module


CASES: list[Case] = on_coreml(
    nn_case("linear/vector_bias", lambda: nn.Linear(32, 24), randn(5, 32)),
    op("bmm/transposed_right", lambda x, y: x @ y.mT, randn(2, 5, 6), randn(2, 7, 6)),
    nn_case("convolution/strided_grouped",
            lambda: nn.Conv2d(4, 8, 3, 2, 1, groups=2), randn(1, 4, 9, 8)),
    nn_case("convolution/transposed_strided",
            lambda: nn.ConvTranspose2d(4, 6, 3, 2, 1), randn(1, 4, 5, 6)),
    nn_case("convolution/1d_dilated",
            lambda: nn.Conv1d(4, 6, 3, dilation=2, padding="same"), randn(2, 4, 11)),
    op("scaled_dot_product_attention/causal_heads",
       lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
       randn(1, 2, 6, 8), randn(1, 2, 6, 8), randn(1, 2, 6, 8)),
    op("scaled_dot_product_attention/bool_input", F.scaled_dot_product_attention,
       randn(1, 2, 5, 8), randn(1, 2, 6, 8), randn(1, 2, 6, 8), bools(5, 6)),
    nn_case("embedding/tokens", lambda: nn.Embedding(20, 8), ints(0, 20, 3, 5)),
    nn_case("native_layer_norm/affine", lambda: nn.LayerNorm(24), uniform(3.0, 9.0, 4, 24)),
    nn_case("native_group_norm/no_affine", lambda: nn.GroupNorm(2, 6, affine=False),
            randn(2, 6, 4, 5)),
    op("rms_norm/one_large_element", lambda x: F.rms_norm(x * 0.01, (16,), None, 1e-3),
       uniform(-1.0, 1.0, 4, 16)),
    op("max_pool2d/padded", lambda x: F.max_pool2d(x, 3, 2, 1), randn(1, 3, 9, 8)),
    op("avg_pool2d/without_padding_in_count",
       lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), randn(1, 3, 9, 8)),
    nn_case("avg_pool2d/window_beyond_input", lambda: nn.AvgPool2d(8, ceil_mode=True),
            randn(1, 4, 2, 3)),
    nn_case("prelu/rows_by_column", _make_prelu, randn(4, 3)),
    op("view_copy/six_dimensions",
       lambda x: x.reshape(2, 3, 2, 3, 1, 2).permute(0, 2, 4, 1, 3, 5).sum(-1), randn(6, 12)),
    op("amax/argmax_and_values", lambda x: (x.amax(1), x.argmax(1)), distinct(4, 9)),
    op("topk/values_and_indices", lambda x: tuple(x.topk(3, -1)), distinct(4, 9)),
    op("gather/rows", lambda x, i: x.gather(1, i), randn(4, 6), ints(0, 6, 4, 3)),
    op("slice_copy/steps_and_cat",
       lambda x: torch.cat([x[:, 1::2], x[:, :-2], x.flip(1)], 1), randn(3, 8)),
    op("upsample_bilinear2d/corners",
       lambda x: F.interpolate(x, (7, 9), mode="bilinear", align_corners=True), randn(1, 2, 4, 5)),
    op("cumsum/int64_signs", lambda x: x.cumsum(0), ints(-9, 9, 6, 4)),
    op("floor_divide/int64_signs", lambda x, y: x // (y.abs() + 1), ints(-30, 30, 24),
       ints(-7, 7, 24)),
    op("remainder/signs", torch.remainder, randn(6, 7), uniform(-2.0, -0.5, 6, 7)),
    op("matmul/constant_arange", lambda x: x + _make_rows(), randn(3, 5)),
    op("where/mixed", lambda c, x: torch.where(c, x, x.exp()), bools(4, 6), randn(4, 6)),
    Case("model/transformer_block", lambda: (Block(32, 4), (torch.randn(1, 7, 32),))),
    Case("model/mobile_network", lambda: (_make_network(), (torch.randn(2, 3, 16, 16),))),
)  # fmt: skip
