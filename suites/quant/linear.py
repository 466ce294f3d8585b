"""Linear layers and products of two activations on the integer recipes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import Hardtanh, Linear, ReLU, ReLU6, Sequential

from harness import Case
from suites.build import Input, full, nn_case, op, randn, uniform, zeros
from suites.quant.only import ALL, TOSA, WEIGHTS_ASIDE, in_turns, on, outlier, spread

_BATCH = torch.export.Dim("batch", min=1, max=16)


def _edited(
    columns: int, rows: int, edit: Callable[[torch.Tensor], object], bias: bool = True
) -> Callable[[], Linear]:
    def make() -> Linear:
        layer = Linear(columns, rows, bias=bias)
        with torch.no_grad():
            edit(layer.weight)
        return layer

    return make


def _uneven_rows(weight: torch.Tensor) -> None:
    weight *= torch.logspace(-2, 1, len(weight)).unsqueeze(1)


def _zero_row(weight: torch.Tensor) -> None:
    weight[1] = 0


def _outlier(weight: torch.Tensor) -> None:
    weight[2, 3] = 20


def _wide_bias() -> Linear:
    layer = Linear(16, 8)
    with torch.no_grad():
        layer.bias.copy_(torch.linspace(-40, 40, 8))
    return layer


def _layer(name: str, x: Input, bias: bool = True, rows: int = 8) -> Case:
    columns = x.shape[-1]
    return nn_case(f"int_linear/{name}", lambda: Linear(columns, rows, bias=bias), x)


class _NormedTwice(torch.nn.Module):
    """Applies a layer without bias and its batch norm to two tensors, as siamese networks do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = Linear(8, 4, bias=False)
        self.norm = torch.nn.BatchNorm1d(4)
        torch.nn.init.constant_(self.norm.bias, 3.0)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.norm(self.layer(x)), self.norm(self.layer(y))


class _TwoUsers(torch.nn.Module):
    """A layer whose result has two users: a relu and an output."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.layer(x)
        return torch.relu(hidden) + hidden


CASES: list[Case] = [
    *on(
        ALL,
        _layer("1d", randn(16)),
        _layer("2d", randn(3, 16)),
        _layer("3d", randn(2, 3, 16)),
        _layer("4d", randn(2, 2, 3, 16)),
        _layer("no_bias", randn(3, 16), bias=False),
        _layer("one_row", randn(1, 16)),
        _layer("one_column", randn(5, 1)),
        _layer("one_result", randn(3, 16), rows=1),
        _layer("odd_sizes", randn(5, 37), rows=13),
        _layer("long_sum", randn(2, 600), rows=3),
        nn_case("int_linear/uneven_rows", _edited(16, 8, _uneven_rows), randn(3, 16)),
        nn_case("int_linear/zero_row", _edited(16, 8, _zero_row), randn(3, 16)),
        nn_case("int_linear/zero_weight", _edited(16, 8, torch.Tensor.zero_), randn(3, 16)),
        nn_case("int_linear/outlier_weight", _edited(16, 8, _outlier, bias=False), randn(3, 16)),
        nn_case("int_linear/wide_bias", _wide_bias, randn(3, 16)),
        nn_case("int_linear/relu", lambda: Sequential(Linear(16, 8), ReLU()), randn(3, 16)),
        nn_case("int_linear/relu6", lambda: Sequential(Linear(16, 8), ReLU6()),
                uniform(-8, 8, 4, 16)),
        nn_case("int_linear/hardtanh", lambda: Sequential(Linear(16, 8), Hardtanh(-0.3, 0.4)),
                randn(3, 16)),
        nn_case("int_linear/two_users", _TwoUsers, randn(3, 16)),
        nn_case("int_linear/one_layer_twice", lambda: Sequential(*[Linear(12, 12)] * 2),
                randn(3, 12)),
    ),
    *on(
        WEIGHTS_ASIDE,
        # Zero points: in the middle, at either end, and of a range that does not include zero.
        _layer("symmetric_values", uniform(-1, 1, 4, 16)),
        _layer("positive_values", uniform(0, 1, 4, 16)),
        _layer("negative_values", uniform(-1, 0, 4, 16)),
        _layer("values_far_from_zero", uniform(5, 6, 4, 16)),
        _layer("large_values", uniform(-1000, 1000, 4, 16)),
        _layer("small_values", uniform(-0.001, 0.001, 4, 16)),
        _layer("uneven_rows_of_values", spread(4, 16, dim=0)),
        _layer("uneven_columns_of_values", spread(4, 16)),
        _layer("outlier_value", outlier(4, 16)),
        _layer("zero_values", zeros(3, 16)),
        _layer("equal_values", full(0.7, 3, 16)),
    ),
    *on(
        "xnnpack:int8|tosa:int",
        nn_case("int_linear/norm_used_twice", _NormedTwice, randn(3, 8), randn(3, 8)),
    ),
    *on(
        "xnnpack:int8*",
        nn_case("int_linear/dynamic_batch", lambda: Linear(16, 8), randn(4, 16),
                dynamic_shapes=[{0: _BATCH}], calls=[[randn(1, 16)], [randn(16, 16)]]),
    ),
    *on(
        TOSA,
        op("int_matmul/2d", torch.mm, randn(4, 6), randn(6, 5)),
        op("int_matmul/batched", torch.bmm, randn(2, 4, 6), randn(2, 6, 5)),
        op("int_matmul/broadcast", torch.matmul, randn(2, 3, 4, 6), randn(6, 5)),
        op("int_matmul/positive_and_negative", torch.bmm, uniform(0, 1, 1, 4, 6),
           uniform(-3, 0, 1, 6, 5)),
    ),
]  # fmt: skip

CASES = in_turns(CASES)
