"""Programs with state: values written to buffers persist to the next call.

Positions are read from a tensor, so that one program writes where the call says. Upstream's own
cache classes are in ``suites/mlx/cache.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.export import Dim

from harness import Case
from suites.build import Input, ints, nn_case, randn
from suites.mlx.only import number, on_mlx

_COUNT = Dim("count", min=1, max=4)
_FROM_TWO = Dim("count", min=2, max=4)


class Buffers(torch.nn.Module):
    """Calls a function on itself and one or two inputs; its buffers ``a`` and ``b`` are zeros."""

    def __init__(self, function: Callable[..., Any], shape: tuple[int, ...]) -> None:
        super().__init__()
        self.function = function
        self.a = torch.nn.Buffer(torch.zeros(shape))
        self.b = torch.nn.Buffer(torch.zeros(shape))

    def forward(self, x: torch.Tensor, position: torch.Tensor | None = None) -> Any:
        return self.function(self, x, *(() if position is None else (position,)))


class Shared(torch.nn.Module):
    """Delegates before and after a conditional read one constant, the second once or twice."""

    def __init__(self, twice: bool) -> None:
        super().__init__()
        self.scale = torch.nn.Buffer(torch.rand(3) + 0.5)
        self.twice = twice

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        condition = (x * self.scale).sum() > 0
        chosen = torch.cond(condition, lambda x: x * 2, lambda x: x - 1, (x,))
        return chosen * self.scale, x + self.scale if self.twice else x.exp()


def _state(name: str, function: Callable[..., Any], *shape: int) -> Case:
    """Make a case of a function of the buffers and an input of their shape, called four times."""
    x = randn(*(shape or (3,)))
    return nn_case(
        name, partial(Buffers, function, x.shape), x, calls=[(x,)] * 3, tags=["stateful"]
    )


def _positions(*items: int) -> Input:
    return Input((len(items),), lambda size: torch.tensor(items), torch.int64)


def _cache(
    name: str,
    function: Callable[..., Any],
    *positions: Input,
    shape: tuple[int, ...] = (1, 2, 8, 4),
    inputs: Sequence[Input] = (),
    **options: Any,
) -> Case:
    """Make a case of a function of a buffer, a value and a position, called once per position."""
    new = inputs or [randn(1, 2, 3, 4)] * len(positions)
    calls = list(zip(new, positions, strict=True))
    layer = partial(Buffers, function, shape)
    return nn_case(name, layer, *calls[0], calls=calls[1:], tags=["stateful"], **options)


def _start(self: Buffers, x: torch.Tensor, position: torch.Tensor, dim: int) -> Any:
    start: Any = position.item()
    torch._check(start >= 0)
    torch._check(start + x.shape[dim] <= self.a.shape[dim])
    return start


def _store_slice(self: Buffers, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
    start = _start(self, x, position, 2)
    self.a[:, :, start : start + x.shape[2]] = x
    return self.a * 2


def _store_narrowed(self: Buffers, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
    self.a.narrow(2, _start(self, x, position, 2), x.shape[2]).copy_(x)
    return self.a * 2


def _store_row(self: Buffers, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
    start: Any = position.item()
    torch._check(start >= 0)
    torch._check(start < self.a.shape[0])
    self.a[start] = x
    return self.a * 2


def _update(self: Buffers, x: torch.Tensor, position: torch.Tensor, ring: int = 0) -> torch.Tensor:
    start: Any = position.item()
    torch._check(start >= 0)
    torch.ops.mlx.kv_cache_update(self.a, x, start, ring)
    return self.a * 2


def _store_indexed(self: Buffers, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
    self.a[:, :, position] = x
    return self.a * 2


def _then_double(write: Callable[..., Any]) -> Callable[..., torch.Tensor]:
    def function(self: Buffers, *inputs: torch.Tensor) -> torch.Tensor:
        write(self, *inputs)
        return self.a * 2

    return function


_index_copy = _then_double(lambda self, x, i: self.a.index_copy_(2, i, x))


def _swap(self: Buffers, x: torch.Tensor) -> torch.Tensor:
    before = self.a.clone()
    self.a.copy_(self.b)
    self.b.copy_(before + x)
    return self.a + self.b


def _shift(self: Buffers, x: torch.Tensor) -> torch.Tensor:
    self.b.copy_(self.a)
    self.a.copy_(x)
    return self.a + self.b


def _before(self: Buffers, x: torch.Tensor) -> torch.Tensor:
    before = self.a.clone()
    self.a.add_(x)
    return before


def _before_plus(self: Buffers, x: torch.Tensor) -> torch.Tensor:
    before = self.a.clone()
    self.a.add_(x)
    return before * x - self.a


def _indexed_after_clone(self: Buffers, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
    before = self.a.clone()
    self.a.index_copy_(2, position, x)
    return self.a * 2 - before


def _indexed_elsewhere(self: Buffers, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
    hidden = torch.tanh(self.a + 0.5)
    self.a.copy_(hidden.index_copy(2, position, x))
    return hidden + 1


def _written_weight(self: Buffers, x: torch.Tensor) -> torch.Tensor:
    result = torch.nn.functional.conv1d(x, self.a)
    self.a.add_(x)
    return result


def _after(self: Buffers, x: torch.Tensor) -> torch.Tensor:
    return self.a.add_(x)


def _twice(self: Buffers, x: torch.Tensor) -> torch.Tensor:
    self.a.add_(x)
    between = self.a * 2
    self.a.add_(x)
    return between


def _through_view(self: Buffers, x: torch.Tensor) -> torch.Tensor:
    self.a.view(-1).add_(1.0)
    self.a.mul_(x)
    return self.a.sum(0)


def _two(self: Buffers, x: torch.Tensor) -> torch.Tensor:
    self.a.mul_(0.5).add_(x)
    self.b.copy_(torch.maximum(self.b, self.a))
    return self.b - self.a


CASES: list[Case] = on_mlx(
    # A part of a buffer
    _cache("slice_scatter/cache_at_number", _store_slice, number(0), number(3), number(5)),
    _cache("slice_scatter/cache_at_number_dynamic", _store_slice, number(0), number(3), number(5),
           inputs=[randn(1, 2, count, 4) for count in (3, 2, 1)],
           dynamic_shapes=({2: _COUNT}, None)),
    _cache("slice_scatter/cache_narrowed", _store_narrowed, number(0), number(3), number(5)),
    _cache("select_scatter/cache_row", _store_row, number(0), number(3), number(7), shape=(8, 4),
           inputs=[randn(4)] * 3),
    _cache("kv_cache_update/operator", _update, number(0), number(3), number(5)),
    _cache("kv_cache_update/operator_ring", partial(_update, ring=8), number(0), number(3),
           number(6), number(9)),
    _cache("index_copy/cache", _index_copy, _positions(0, 1, 2), _positions(3, 4, 5),
           _positions(7, 1, 4)),
    _cache("index_copy/after_clone", _indexed_after_clone, _positions(0, 1, 2),
           _positions(7, 1, 4)),
    _cache("index_copy/of_other_value", _indexed_elsewhere, _positions(0, 1, 2),
           _positions(7, 1, 4)),
    _cache("index_copy/cache_negative_dim", _then_double(lambda m, x, i: m.a.index_copy_(-2, i, x)),
           _positions(0, 1, 2), _positions(7, 1, 4)),
    _cache("index_copy/cache_one", _index_copy, *map(number, (0, 1, 7)),
           inputs=[randn(1, 2, 1, 4)] * 3),
    _cache("index_copy/cache_dynamic", _index_copy, _positions(0, 1, 2), _positions(3, 4),
           _positions(7, 1, 4, 0), inputs=[randn(1, 2, count, 4) for count in (3, 2, 4)],
           dynamic_shapes=({2: _FROM_TWO}, {0: _FROM_TWO})),
    _cache("index_put/cache", _store_indexed, _positions(0, 1, 2), _positions(3, 4, 5),
           _positions(7, 1, 4)),
    _cache("index_put/cache_first_dim", _then_double(lambda m, x, i: m.a.index_put_((i,), x)),
           _positions(0, 1), _positions(5, 3), shape=(6, 4), inputs=[randn(2, 4)] * 2),
    _cache("index_add/cache", _then_double(lambda m, x, i: m.a.index_add_(0, i, x)),
           _positions(0, 1), _positions(1, 1), shape=(6, 4), inputs=[randn(2, 4)] * 2),
    _cache("index_fill/cache",
           _then_double(lambda m, x, i: m.a.index_fill_(0, i, 1.5).mul_(x)),
           _positions(0, 1), _positions(1, 3), shape=(6, 4), inputs=[randn(4)] * 2),
    _cache("scatter/cache", _then_double(lambda m, x, i: m.a.scatter_(0, i, x)),
           ints(0, 6, 1, 4), ints(0, 6, 1, 4), shape=(6, 4), inputs=[randn(1, 4)] * 2),
    _state("slice_scatter/state", _then_double(lambda m, x: m.a[1:3].copy_(x[:2])), 4, 2),
    _state("select_scatter/state", _then_double(lambda m, x: m.a[1].add_(x[0])), 4, 2),
    # Whole buffers
    _state("copy/two_states", _two, 3, 4),
    _state("copy/through_view", _through_view, 3, 4),
    _state("copy/written_twice", _twice),
    _state("copy/before_and_after", _before_plus),
    _state("copy/before_is_output", _before),
    _state("copy/after_is_output", _after),
    _state("copy/from_other", _shift),
    _state("copy/exchanged", _swap),
    _state("convolution/written_weight", _written_weight, 4, 4, 3),
    # Constants between delegates
    nn_case("mul/constant_of_two_delegates", partial(Shared, False), randn(2, 3)),
    nn_case("mul/constant_of_two_delegates_twice", partial(Shared, True), randn(2, 3)),
)  # fmt: skip
