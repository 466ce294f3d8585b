"""Chains of element-wise operations, some of which the lowering makes in-place.

``MLXReinplacePass`` rewrites an operation whose first operand is not read later. Errors show when
an overwritten operand is read, so the cases read operands again: by another operand of the same
step, by a view, as an output, in a residual, in the next call.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch.export import Dim

from harness import Case
from suites.build import ints, op, positive, randn
from suites.mlx.only import on_mlx
from suites.selection import take_one_of

_ROWS = Dim("rows", min=2, max=9)
_X = randn(3, 4)
_DYNAMIC: dict[str, Any] = {
    "dynamic_shapes": ({0: _ROWS}, {0: _ROWS}),
    "calls": [(randn(rows, 4), randn(rows, 4)) for rows in (2, 9)],
}


def _both_operands(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    t, w = x.exp(), z.exp()
    a = t + y
    b = w + t  # t is read after a may have overwritten it
    return a * b


def _diamond(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    t = x.exp()
    return (t + y).tanh() * (t - y).sigmoid() - t


def _fan(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    t = x.exp()
    return (t * y) + (t / 2) + (t - 1) + t.sin()


def _ladder(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    a = x.exp()
    b = a + y
    c = b * a
    d = c - b
    return d / c + d


def _residuals(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    for _ in range(3):
        x = x + F.gelu(x * y)
    return x


def _kept(*steps: Any) -> Any:
    """Return a function that returns exp(x) and the result of each step on it and y."""

    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        t = x.exp()
        return t, *(step(t, y) for step in steps)

    return function


def _double(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    t = x.double().exp()  # float64 is not delegated
    return x * y, t, t + y.double()


CASES: list[Case] = on_mlx(
    op("reinplace/both_operands", _both_operands, _X, _X, _X),
    op("reinplace/both_operands_broadcast", _both_operands, _X, randn(4), _X),
    op("reinplace/diamond", _diamond, _X, _X),
    op("reinplace/fan", _fan, _X, _X),
    op("reinplace/ladder", _ladder, _X, _X),
    op("reinplace/residuals", _residuals, _X, _X),
    op("reinplace/diamond_dynamic", _diamond, _X, _X, **_DYNAMIC),
    op("reinplace/ladder_dynamic", _ladder, _X, _X, **_DYNAMIC),
    op("reinplace/residuals_dynamic", _residuals, _X, _X, **_DYNAMIC),
    # Chains
    op("reinplace/unary_chain", lambda x: x.exp().sqrt().log1p().sin().abs().neg().tanh(), _X),
    op("reinplace/binary_chain", lambda x, y: ((x.exp() + y) * y - y) / (y.abs() + 1), _X, _X),
    op("reinplace/activations",
       lambda x: F.hardtanh(F.leaky_relu(F.gelu(x.exp() - 1) - 0.1), -0.5, 2).relu(), _X),
    op("reinplace/clamp_and_power",
       lambda x, y: ((x.exp().clamp(0.1, 3.0) ** 2) ** y).clamp(min=y), _X, positive(3, 4)),
    op("reinplace/alpha", lambda x, y: x.exp().add(y, alpha=2.5).sub(y, alpha=-1.5), _X, _X),
    op("reinplace/integers", lambda x, y: ((x.neg() + y) * y - y).abs(), ints(-9, 9, 3, 4),
       ints(-9, 9, 4)),
    # The operand is read by the same step, or by a view of it
    op("reinplace/with_itself", lambda x: (lambda t: t * t + t - t)(x.exp()), _X),
    op("reinplace/with_itself_alpha", lambda x: (lambda t: t.sub(t, alpha=2.5))(x.exp()), _X),
    op("reinplace/with_row", lambda x, y: (lambda t: (t + y) * t[:1])(x.exp()), _X, _X),
    op("reinplace/with_view", lambda x, y: (lambda t: (t + y).view(-1) * t.view(-1))(x.exp()), _X,
       _X),
    op("reinplace/with_transposed", lambda x, y: (lambda t: t.t().exp() @ (t + y))(x.exp()), _X,
       _X),
    op("reinplace/of_view", lambda x, y: (lambda t: (t.view(4, 3) + y).sum(0) + t.sum(1))(x.exp()),
       _X, randn(4, 3)),
    op("reinplace/of_expanded", lambda x, y: (lambda t: (t.expand(3, 4) + y) * t)(x.exp()),
       randn(1, 4), _X),
    op("reinplace/parts", lambda x, y: (lambda a, b: (a + y) * b - a)(*x.exp().chunk(2)),
       randn(4, 4), randn(2, 4)),
    op("reinplace/joined", lambda x, y: (lambda t: torch.cat([t + y, t, t * y]))(x.exp()), _X, _X),
    # The operand has another shape or dtype than the result
    op("reinplace/grows", lambda x, y: (x.exp() + y) * x, randn(4), _X),
    op("reinplace/grows_dynamic", lambda x, y: x.exp() + y, randn(1, 4), _X,
       dynamic_shapes=(None, {0: _ROWS}), calls=[(randn(1, 4), randn(n, 4)) for n in (2, 9)]),
    op("reinplace/becomes_float", lambda x, y: x.neg() * y + x, ints(-9, 9, 3, 4), _X),
    op("reinplace/quotient_of_integers", lambda x, y: x.abs() / y.abs(), ints(1, 9, 3, 4),
       ints(1, 9, 3, 4)),
    op("reinplace/condition", lambda x, y: torch.where(x.exp() < y, x.exp() + y, x), _X, _X),
    # The operand is an output, or an input
    op("reinplace/operand_is_output", _kept(lambda t, y: t + y), _X, _X),
    op("reinplace/operand_is_output_twice", _kept(lambda t, y: t * y, lambda t, y: t.tanh()), _X,
       _X),
    op("reinplace/operand_is_output_later", lambda x, y: _kept(lambda t, y: t + y)(x, y)[::-1], _X,
       _X),
    op("reinplace/operand_is_input", lambda x, y: ((x + y) * x, x - y), _X, _X),
    op("reinplace/input_is_output", lambda x, y: (x, x + y), _X, _X),
    op("reinplace/operand_is_output_undelegated", _double, _X, _X),
    op("reinplace/left_between",
       lambda x, y: torch.nn.functional.elu((x.exp() + y).tanh()).exp() + y, _X, _X),
)  # fmt: skip
CASES = take_one_of(2, CASES)
