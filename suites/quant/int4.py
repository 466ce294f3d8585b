"""Linear layers with 4-bit weights and activations quantized by row, on XNNPACK's int4 recipes.

``8da4w`` in ExecuTorch's export of language models. Other layers stay in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch.nn import Conv2d, Embedding, GroupNorm, LayerNorm, Linear, Module, ReLU, Sequential

from harness import Case
from suites.build import Input, full, ints, nn_case, randn, uniform, zeros
from suites.quant.only import outlier, spread

_TARGETS = "xnnpack:int4|xnnpack:int4_per_channel"
_BATCH = torch.export.Dim("batch", min=1, max=16)


class Biased(Module):
    """A layer of uneven rows and groups on positive values, whose bias cancels the mean result.

    An error that a group has in common is many times the error of rounding.
    """

    def __init__(self) -> None:
        super().__init__()
        self.layer = Linear(96, 12)
        with torch.no_grad():
            self.layer.weight.uniform_(0.5, 1.5).mul_(torch.linspace(1, 2, 12).unsqueeze(1))
            self.layer.weight[:, 32:64] *= -3
            self.layer.weight[:, 64:] *= 0.25
            self.layer.bias.copy_(-0.75 * self.layer.weight.sum(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


class Tied(Module):
    """A language model's embedding and head with one weight, and a norm and layers between them."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = Embedding(50, 64)
        self.norm = LayerNorm(64)
        self.up, self.down = Linear(64, 96, bias=False), Linear(96, 64)
        self.head = Linear(64, 50, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        return self.head(x + self.down(torch.nn.functional.silu(self.up(self.norm(x)))))


class Attention(Module):
    """Two heads; projections are quantized, products of activations are not."""

    def __init__(self) -> None:
        super().__init__()
        self.joined, self.out = Linear(64, 192), Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.joined(x).unflatten(-1, (3, 2, 32)).unbind(2)
        query, key, value = (part.transpose(1, 2) for part in parts)
        mixed = torch.nn.functional.scaled_dot_product_attention(query, key, value)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Pictures(Module):
    """A convolution and a norm in float32 before a quantized layer."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Sequential(Conv2d(3, 8, 3, stride=2), GroupNorm(2, 8), ReLU())
        self.head = Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x).flatten(1))


def _edited(edit: Callable[[torch.Tensor], object]) -> Callable[[], Linear]:
    def make() -> Linear:
        layer = Linear(64, 8)
        with torch.no_grad():
            edit(layer.weight)
        return layer

    return make


def _uneven_rows(weight: torch.Tensor) -> None:
    weight *= torch.logspace(-2, 1, len(weight)).unsqueeze(1)


def _uneven_groups(weight: torch.Tensor) -> None:
    weight[:, 32:] *= 50


def _zero_group(weight: torch.Tensor) -> None:
    weight[2, :32] = 0


def _outlier(weight: torch.Tensor) -> None:
    weight[2, 3] = 20


def _layer(name: str, x: Input, rows: int = 8, bias: bool = True) -> Case:
    columns = x.shape[-1]
    return nn_case(f"int4_linear/{name}", lambda: Linear(columns, rows, bias=bias), x)


_PLAIN = {
    "int4_linear/biased": _TARGETS,
    "int4_linear/odd_rows": "xnnpack:int4_per_channel",
    "int4_linear/uneven_groups": "xnnpack:int4",
    "int4_model/tied": "xnnpack:int4",
}

CASES: list[Case] = [
    replace(
        case,
        targets=_TARGETS,
        plain_targets=_PLAIN.get(case.name, "none:none"),
        tags=case.tags | {"weights"},
    )
    for case in (
        nn_case("int4_linear/biased", Biased, uniform(0.5, 1, 6, 96)),
        _layer("1d", randn(64)),
        _layer("3d", randn(2, 3, 64)),
        _layer("4d", randn(2, 2, 3, 64)),
        _layer("one_group", randn(3, 32)),
        _layer("one_result", randn(3, 64), rows=1),
        _layer("odd_rows", randn(5, 96), rows=13, bias=False),
        _layer("long_sum", randn(2, 1024), rows=3),
        _layer("odd_columns", randn(3, 37)),
        _layer("uneven_rows_of_values", spread(4, 64, dim=0)),
        _layer("uneven_columns_of_values", spread(4, 64)),
        _layer("outlier_value", outlier(4, 64)),
        _layer("positive_values", uniform(0, 1, 4, 64)),
        _layer("negative_values", uniform(-1, 0, 4, 64)),
        _layer("values_far_from_zero", uniform(5, 6, 4, 64)),
        _layer("small_values", uniform(-0.001, 0.001, 4, 64)),
        _layer("zero_values", zeros(3, 64)),
        _layer("equal_values", full(0.7, 3, 64)),
        nn_case("int4_linear/uneven_rows", _edited(_uneven_rows), randn(3, 64)),
        nn_case("int4_linear/uneven_groups", _edited(_uneven_groups), randn(3, 64)),
        nn_case("int4_linear/zero_group", _edited(_zero_group), randn(3, 64)),
        nn_case("int4_linear/zero_weight", _edited(torch.Tensor.zero_), randn(3, 64)),
        nn_case("int4_linear/outlier_weight", _edited(_outlier), randn(3, 64)),
        nn_case("int4_linear/relu", lambda: Sequential(Linear(64, 8), ReLU()), randn(3, 64)),
        nn_case("int4_linear/one_layer_twice", lambda: Sequential(*[Linear(64, 64)] * 2),
                randn(3, 64)),
        nn_case("int4_linear/dynamic_batch", lambda: Linear(64, 8), randn(4, 64),
                dynamic_shapes=[{0: _BATCH}], calls=[[randn(1, 64)], [randn(16, 64)]]),
        nn_case("int4_model/tied", Tied, ints(0, 50, 2, 5)),
        nn_case("int4_model/attention", Attention, randn(1, 5, 64)),
        nn_case("int4_model/pictures", Pictures, randn(2, 3, 5, 5)),
    )
]  # fmt: skip
