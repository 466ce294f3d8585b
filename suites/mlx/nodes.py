"""Instructions and fields of the MLX schema that the shared operator suite does not cover.

Most cases compute with integers: sizes of dynamic dimensions and numbers read from a tensor, used
as shape, bound, count, index or value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch.export import Dim
from torch.nn import ConvTranspose3d

from harness import Case
from suites.build import add_vacuous_reasons, distinct, ints, nn_case, op, randn, uniform
from suites.mlx.only import on_mlx, with_number

_LENGTH = Dim("length", min=3, max=12)


def _sized(name: str, function: Callable[..., Any], *others: Any) -> Case:
    """Make a case of a tensor (2, length), called with four lengths, including both bounds."""
    calls = [(randn(2, length), *others) for length in (5, 3, 12, 4)]
    shapes = ({1: _LENGTH}, *[None] * len(others))
    return op(name, function, *calls[0], dynamic_shapes=shapes, calls=calls[1:])


_UNARY: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    *(torch.abs, torch.acos, torch.asin, torch.asinh, torch.atan, torch.atanh, torch.ceil),
    *(torch.cos, torch.cosh, torch.erf, torch.exp, torch.expm1, torch.floor, torch.log),
    *(torch.log10, torch.log1p, torch.log2, torch.neg, torch.reciprocal, torch.round),
    *(torch.rsqrt, torch.sigmoid, torch.sign, torch.sin, torch.sinh, torch.sqrt, torch.square),
    *(torch.tan, torch.tanh, torch.trunc, F.gelu, F.silu, F.relu, F.leaky_relu),
)
_BINARY: tuple[Callable[[torch.Tensor, torch.Tensor], torch.Tensor], ...] = (
    *(torch.add, torch.atan2, torch.div, torch.eq, torch.floor_divide, torch.ge, torch.gt),
    *(torch.le, torch.logaddexp, torch.lt, torch.maximum, torch.minimum, torch.mul, torch.ne),
    *(torch.pow, torch.remainder, torch.sub),
)


def _all_unary(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return *(function(x) for function in _UNARY), torch.acosh(x + 1)


def _all_binary(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return *(function(x, y) for function in _BINARY), torch.clamp(x, y, y + 1), x.lerp(y, 0.3)


def _all_logic(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
    small, large = a < b, a > 0
    return (
        *(a & b, a | b, a ^ b, ~a),
        *(small.logical_and(large), small.logical_or(large), small.logical_not(), small ^ large),
        torch.where(small, a, b),
        a.to(torch.float32),
    )


def _all_reductions(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    positive = x > 0
    return (
        *(x.sum(1), x.mean(0), x.prod(1), x.amax(0), x.amin((0, 1)), x.logsumexp(1), x.cumsum(0)),
        *(x.var(1), x.std([1]), positive.any(1), positive.all(), x.argmax(1), x.argmin(0)),
        *(x.softmax(1), x.log_softmax(0), *x.sort(1), *x.topk(2, 0)),
        F.layer_norm(x, x.shape[-1:]),
    )


def _all_rearranged(x: torch.Tensor, at: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        *(x.reshape(2, -1), x.t(), x[:, None].expand(-1, 2, -1), x[:1].squeeze(0), x[1:3, ::2]),
        *(x.repeat(2, 1), x.repeat_interleave(2, 1), x.roll(1, 0), x.flip(1), x.tril(), x.triu(1)),
        *(torch.cat([x, x], 1), torch.stack([x, -x]), *x.split([1, 3], 0), F.pad(x, (1, 0, 0, 2))),
        *(
            x[at],
            x[at, at],
            x[:, 2],
            x.index_select(1, at),
            x.scatter_add(1, at.expand(4, 3), x[:, :3]),
        ),
        *(x.slice_scatter(x[:1], 0, 1, 2), torch.full_like(x, 2), torch.arange(4), torch.ones(2)),
        F.max_pool1d(x[None], 3, 2),
    )


CASES: list[Case] = on_mlx(
    # Many instructions and outputs: slots are reused
    op("unary/in_one_program", _all_unary, uniform(0.6, 0.9, 3, 4)),
    op("binary/in_one_program", _all_binary, uniform(0.6, 0.9, 3, 4), uniform(1.0, 1.1, 4)),
    op("logic/in_one_program", _all_logic, ints(-9, 9, 3, 4), ints(-9, 9, 4)),
    op("reduce/in_one_program", _all_reductions, distinct(3, 4, step=0.1)),
    op("rearrange/in_one_program", _all_rearranged, randn(4, 5), ints(0, 4, 3)),
    op("square/fp32", torch.square, randn(3, 4)),
    op("square/of_a_sum", lambda x, y: torch.square(x + y) - x, randn(3, 4), randn(4)),
    op("std/several_dims", lambda x: x.std((0, 2)), randn(3, 4, 5)),
    op("std/biased_keepdim", lambda x: x.std((0, 1), correction=0, keepdim=True), randn(3, 4)),
    op("std/correction_two", lambda x: x.std([-1], correction=2), randn(3, 4)),
    op("std/one_element_nan", lambda x: x.std([1]), randn(3, 1)),
    op("scatter_add/part_of_the_columns", lambda x, i, y: x.scatter_add(0, i, y), randn(4, 5),
       ints(0, 4, 3, 2), randn(3, 2)),
    op("hardtanh/without_bounds", torch.ops.aten.hardtanh.default, uniform(-3, 3, 4, 5)),
    nn_case("convolution/transposed_3d_uneven",
            lambda: ConvTranspose3d(2, 3, 3, (1, 2, 3), (0, 1, 2), (0, 1, 2), dilation=(1, 2, 3)),
            randn(1, 2, 3, 4, 3)),
    op("scatter_add/one_of_the_rows", lambda x, i, y: x.scatter_add(1, i, y), randn(4, 5),
       ints(0, 5, 1, 3), randn(1, 3)),
    # Arithmetic on sizes
    _sized("add/size_as_shape", lambda x: torch.full((x.shape[1] + 3,), 1.5)),
    _sized("sub/size_as_index", lambda x: x[:, x.shape[1] - 1]),
    _sized("mul/size_as_shape", lambda x: x.reshape(1, x.shape[1] * 2)),
    _sized("mul/size_as_factor", lambda x: x * x.shape[1]),
    _sized("div/by_size", lambda x: x.sum(1) / x.shape[1]),
    _sized("floor_divide/size_as_stop", lambda x: torch.arange(x.shape[1] // 2 + 1)),
    _sized("floor_divide/negative_size", lambda x: x[:, 0] * (-x.shape[1] // 2)),
    _sized("remainder/size_as_value", lambda x: x[:, 0] * (x.shape[1] % 3)),
    _sized("remainder/negative_size", lambda x: x[:, 0] * (-x.shape[1] % 5)),
    _sized("neg/size_as_start", lambda x: torch.arange(-x.shape[1], 0)),
    _sized("mul/size_to_a_power", lambda x: x * x.shape[1] ** -0.5),
    # Sizes where instructions take a literal or a value
    _sized("arange/down_from_size", lambda x: torch.arange(x.shape[1], 0, -1)),
    _sized("constant_pad_nd/by_size", lambda x: F.pad(x, (1, x.shape[1]))),
    _sized("expand_copy/to_size", lambda x: torch.ones(2, 1).expand(2, x.shape[1]) + x),
    _sized("full/size_as_value", lambda x: torch.full((3,), x.shape[1])),
    _sized("full_like/size_as_value", lambda x: torch.full_like(x, x.shape[1])),
    _sized("repeat/size_times", lambda x: torch.arange(2.0).repeat(x.shape[1], 2)),
    _sized("repeat_interleave/size_times",
           lambda x: torch.arange(4.0).reshape(2, 2).repeat_interleave(x.shape[1], 1)),
    _sized("roll/by_size", lambda x: torch.roll(x, x.shape[1] - 1, 1)),
    _sized("scalar_tensor/size", lambda x: torch.scalar_tensor(x.shape[1]) + x),
    _sized("slice_copy/dynamic_last_two", lambda x: x[:, -2:]),
    _sized("slice_scatter/between_sizes",
           lambda x: x.slice_scatter(torch.ones(2, 2), 1, x.shape[1] - 2, x.shape[1])),
    _sized("slice_scatter/to_the_dynamic_end",
           lambda x: x.slice_scatter(torch.ones(2, 2), 1, -2)),
    _sized("split_with_sizes/rest", lambda x: torch.split(x, [1, x.shape[1] - 1], 1)),
    _sized("tril/dynamic_square", lambda x: torch.ones(x.shape[1], x.shape[1]).tril()),
    _sized("triu/dynamic_above", lambda x: x.triu(1)),
    # Kernels with dynamic shapes
    _sized("argmax/dynamic_flattened", lambda x: x.argmax()),
    _sized("cumsum/dynamic", lambda x: x.cumsum(1)),
    _sized("flip/dynamic", lambda x: x.flip(1)),
    _sized("index/dynamic_two_indices", lambda x, i: x[i, i], ints(0, 2, 3)),
    _sized("scatter_add/dynamic",
           lambda x: x.scatter_add(1, torch.zeros(2, 2, dtype=torch.int64), x[:, -2:])),
    _sized("sort/dynamic", lambda x: tuple(x.sort(1))),
    _sized("topk/dynamic", lambda x: tuple(x.topk(2))),
    # Numbers read from a tensor
    with_number("add/number_read", lambda x, n: x + n, randn(2, 5), 1, 0, 4),
    with_number("arange/from_number", lambda x, n: torch.arange(n, n + 4), randn(2, 5), 1, 0, 4),
    with_number("clamp/below_number", lambda x, n: x.clamp(max=n), randn(2, 5), 1, 0, 4),
    with_number("constant_pad_nd/by_number", lambda x, n: F.pad(x, (n, 0)), randn(2, 5), 1, 0, 4),
    with_number("expand_copy/to_number", lambda x, n: x[:1].expand(n, 5), randn(2, 5), 3, 1, 4),
    with_number("floor_divide/negative_number_read", lambda x, n: x * ((n - 9) // 4), randn(2, 5),
                1, 0, 4),
    with_number("full/number_as_value", lambda x, n: torch.full((2,), n), randn(2, 5), 1, 0, 4),
    with_number("lt/number", lambda x, n: x < n, randn(2, 5), 1, 0, 4),
    with_number("pow/number", lambda x, n: x**n, randn(2, 5), 1, 0, 4),
    with_number("remainder/negative_number_read", lambda x, n: x * ((n - 9) % 4), randn(2, 5),
                1, 0, 4),
    with_number("repeat/number_times", lambda x, n: x.repeat(1, n), randn(2, 5), 3, 1, 4),
    with_number("repeat_interleave/number_times", lambda x, n: x.repeat_interleave(n, 1),
                randn(2, 5), 3, 1, 4),
    with_number("roll/by_number", lambda x, n: torch.roll(x, n, 1), randn(2, 5), 1, 0, 4),
    with_number("select_copy/number", lambda x, n: x[:, n], randn(2, 5), 1, 0, 4),
    with_number("select_copy/arithmetic_on_number", lambda x, n: x[:, (n * 7 + 3) % 5],
                randn(2, 5), 1, 0, 4),
    with_number("slice_copy/up_to_number", lambda x, n: x[:, : n + 1], randn(2, 5), 1, 0, 4),
    with_number("slice_copy/from_number", lambda x, n: x[:, n:], randn(2, 5), 1, 0, 4),
    with_number("slice_copy/at_number", lambda x, n: x.narrow(1, n, 1), randn(2, 5), 1, 0, 4),
    with_number("topk/number", lambda x, n: tuple(x.topk(n)), distinct(2, 5), 3, 1, 4),
)  # fmt: skip

CASES = add_vacuous_reasons(
    CASES,
    {
        "add/size_as_shape": "it makes a constant; its size is the point",
        "full/number_as_value": "it makes a constant",
        "full/size_as_value": "it makes a constant",
        "full_like/size_as_value": "it makes a constant",
        "std/one_element_nan": "the deviation of one element is NaN",
    },
)
