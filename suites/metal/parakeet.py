"""The Parakeet encoder: its relative positions, its attention, and the model from transformers.

Attention adds a matrix of relative positions to its scores: products of queries with one row per
distance, shifted so that each row begins at its own distance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch.export import Dim
from torch.nn import Linear

from harness import Case, Inputs
from suites.build import nn_case, op, randn
from suites.metal.only import on_metal
from suites.models.build import Field

MELS = 16


def shift(scores: torch.Tensor) -> torch.Tensor:
    """Shift scores (B, H, L, 2L - 1) by distance to scores by position, each row one more."""
    batch, heads, queries, positions = scores.shape
    padded = F.pad(scores, (1, 0)).view(batch, heads, -1, queries)
    return padded[:, :, 1:].view(batch, heads, queries, positions)


class RelativeAttention(torch.nn.Module):
    """Self-attention over (B, L, H * D) with relative positions (1, 2L - 1, H * D)."""

    def __init__(self, heads: int, size: int, fused: bool = True) -> None:
        super().__init__()
        self.heads, self.size, self.fused = heads, size, fused
        width = heads * size
        self.queries, self.keys, self.values, self.result = (Linear(width, width) for _ in range(4))
        self.relative = Linear(width, width, bias=False)
        self.content = torch.nn.Parameter(torch.randn(heads, 1, size))
        self.position = torch.nn.Parameter(torch.randn(heads, 1, size))

    def forward(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v, p = (
            layer(of).view(of.shape[0], -1, self.heads, self.size).transpose(1, 2)
            for layer, of in ((self.queries, x), (self.keys, x), (self.values, x),
                              (self.relative, positions))
        )  # fmt: skip
        scale: float = self.size**-0.5
        bias = shift((q + self.position) @ p.transpose(-1, -2))[..., :length] * scale
        if self.fused:
            found = F.scaled_dot_product_attention(q + self.content, k, v, attn_mask=bias)
        else:
            scores = (q + self.content) @ k.transpose(-1, -2) * scale + bias
            found = torch.softmax(scores, -1) @ v
        result: torch.Tensor = self.result(found.transpose(1, 2).reshape(batch, length, -1))
        return result


def _attention(name: str, *shape: int, fused: bool = True, heads: int = 2) -> Case:
    _, length, width = shape
    return nn_case(
        f"relative_attention/{name}",
        partial(RelativeAttention, heads, width // heads, fused),
        randn(*shape),
        randn(1, 2 * length - 1, width),
    )


def encoder(layers: int, bias: bool = True, size: int = 64, attention: str = "sdpa",
            frames: int = 64) -> tuple[torch.nn.Module, Inputs]:  # fmt: skip
    """Make a Parakeet encoder: subsampling by 8, then conformer layers with two heads."""
    from transformers import ParakeetEncoder, ParakeetEncoderConfig

    config = ParakeetEncoderConfig(
        hidden_size=2 * size,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=4 * size,
        num_mel_bins=MELS,
        subsampling_conv_channels=8,
        max_position_embeddings=64,
        attention_bias=bias,
        convolution_bias=bias,
        attn_implementation=attention,
    )
    return Field(ParakeetEncoder(config), "last_hidden_state"), (torch.randn(1, frames, MELS),)


class Layers(torch.nn.Module):
    """The conformer layers without the subsampling."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.positions, self.layers = model.encode_positions, model.layers

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        positions = self.positions(x)
        for layer in self.layers:
            x = layer(x, position_embeddings=positions)
        return x


def conformer(batch: int, bias: bool = True) -> tuple[torch.nn.Module, Inputs]:
    """Make two layers of the encoder, with inputs as after its subsampling."""
    module, _ = encoder(2, bias)
    return Layers(module.model), (torch.randn(batch, 9, 128),)


_MODEL = frozenset({"model", "fp32"})
_FRAMES = {1: Dim("eighths", min=4, max=16) * 8}


def _model(name: str, build: Callable[[], tuple[torch.nn.Module, Inputs]]) -> Case:
    return Case(f"parakeet/{name}", build, tags=_MODEL, plain_targets="")


CASES: list[Case] = on_metal(
    op("relative_shift/of_input", shift, randn(1, 2, 5, 9)),
    op("relative_shift/of_product", lambda q, p: shift(q @ p)[..., :5], randn(1, 2, 5, 8),
       randn(1, 2, 8, 9)),
    op("relative_shift/batch_2", shift, randn(2, 2, 6, 11)),
    op("relative_shift/into_softmax", lambda s: torch.softmax(shift(s)[..., :5], -1),
       randn(1, 2, 5, 9)),
    _attention("fused", 1, 5, 128),
    _attention("fused_batch_2", 2, 5, 128),
    _attention("one_frame", 1, 1, 128),
    _attention("products", 1, 5, 24, fused=False),
    replace(_attention("products_batch_2", 2, 5, 24, fused=False), plain_targets=""),
    _attention("head_dim_12", 1, 5, 24),
    _model("layers", partial(conformer, 1)),
    _model("layers_batch_2", partial(conformer, 2)),
    _model("layers_no_bias", partial(conformer, 1, False)),
    _model("encoder", partial(encoder, 2)),
    _model("encoder_eager_attention", partial(encoder, 1, attention="eager")),
    replace(
        _model("encoder_dynamic", partial(encoder, 1)), dynamic_shapes=(_FRAMES,),
        calls=lambda: [(torch.randn(1, frames, MELS),) for frames in (32, 128)],
        tags=_MODEL | {"dynamic"},
    ),
)  # fmt: skip
