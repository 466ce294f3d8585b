"""Tensors that are plain attributes of a module: neither parameters nor buffers.

``torch.export`` makes constants of them, which passes look for in another place than buffers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F

from harness import Case
from suites.build import Input, nn_case, randn

_TARGETS = "portable:fp32|xnnpack:fp32|tosa:fp|tosa:int|mlx:fp32|metal:fp32"
# Convolutions of images and this size of heads have limitations of their own on Metal.
_NOT_METAL = "portable:fp32|xnnpack:fp32|tosa:fp|tosa:int|mlx:fp32"
_PLAIN = "xnnpack:fp32"


class _Attribute(torch.nn.Module):
    """A function of an input and of tensors in a list."""

    def __init__(self, function: Callable[..., Any], *shapes: tuple[int, ...]) -> None:
        super().__init__()
        self.function = function
        self.tensors = [torch.randn(shape) for shape in shapes]

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x, *self.tensors)


def _attribute(name: str, function: Callable[..., Any], x: Input, *shapes: tuple[int, ...]) -> Case:
    case = nn_case(f"attribute/{name}", lambda: _Attribute(function, *shapes), x)
    targets = _NOT_METAL if name in ("conv2d_bias", "conv_transpose2d", "attention") else _TARGETS
    return replace(case, targets=targets, plain_targets=_PLAIN)


_IMAGE = randn(1, 3, 5, 6)

CASES: list[Case] = [
    _attribute("conv1d", F.conv1d, randn(1, 3, 8), (4, 3, 3)),
    _attribute("conv1d_bias", F.conv1d, randn(1, 3, 8), (4, 3, 3), (4,)),
    _attribute("conv2d_bias", F.conv2d, _IMAGE, (4, 3, 3, 3), (4,)),
    _attribute("conv_transpose2d", F.conv_transpose2d, _IMAGE, (3, 4, 2, 2)),
    _attribute("linear_bias", F.linear, randn(2, 6), (4, 6), (4,)),
    _attribute("mm", torch.mm, randn(2, 6), (6, 4)),
    _attribute("addmm", lambda x, w, b: torch.addmm(b, x, w), randn(2, 6), (6, 4), (4,)),
    _attribute("prelu", F.prelu, _IMAGE, (3,)),
    _attribute("add_and_mul", lambda x, y, z: (x + y) * z, _IMAGE, (3, 1, 1), (6,)),
    _attribute("cat", lambda x, y: torch.cat([x, y], 1), _IMAGE, (1, 2, 5, 6)),
    _attribute("batch_norm", lambda x, m, w, b: F.batch_norm(x, m, m * m + 1, w, b), _IMAGE,
               (3,), (3,), (3,)),
    _attribute("matmul", torch.matmul, randn(2, 4, 6), (6, 3)),
    _attribute("embedding", lambda x, w: F.embedding(x.long().clamp(0, 4), w), randn(2, 6),
               (5, 4)),
    _attribute("layer_norm", lambda x, w, b: F.layer_norm(x, (6,), w, b), randn(2, 6), (6,), (6,)),
    _attribute("group_norm", lambda x, w, b: F.group_norm(x, 1, w, b), _IMAGE, (3,), (3,)),
    _attribute("where", lambda x, y: torch.where(x > 0, x, y), _IMAGE, (6,)),
    _attribute("attention", F.scaled_dot_product_attention, randn(1, 2, 4, 8), (1, 2, 5, 8),
               (1, 2, 5, 8)),
]  # fmt: skip
