"""Mutable buffers become states of the model: written in one call, read in the next.

A state has float16 elements whatever the buffer's dtype, and begins as zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from harness import Case
from suites.build import Input, nn_case, randn, values
from suites.coreml.only import on_coreml

Tensor = torch.Tensor


class State(torch.nn.Module):
    """A module with one buffer or two, and a function of them."""

    def __init__(self, function: Callable[..., Any], shape: tuple[int, ...]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("a", torch.zeros(shape))
        self.register_buffer("b", torch.zeros(shape))

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(self, *inputs)


def _state(
    name: str,
    function: Callable[..., Any],
    *inputs: Input,
    shape: tuple[int, ...] = (4, 8),
) -> Case:
    """Make a case of three calls, with inputs of their own."""
    layer = partial(State, function, shape)
    return nn_case(name, layer, *inputs, calls=[inputs, inputs], tags=["stateful"])


def _accumulate(self: State, x: Tensor) -> Tensor:
    self.a.add_(x)
    return self.a * 2


def _shift(self: State, x: Tensor) -> Tensor:
    self.b.copy_(self.a)
    self.a.copy_(x)
    return self.a - self.b


def _store_rows(self: State, x: Tensor) -> Tensor:
    self.a[1:3] = x
    return self.a.cumsum(0)


def _attend(self: State, q: Tensor) -> Tensor:
    """Attention over a cache of keys and values that moves by two positions a call."""
    self.a.copy_(torch.cat([self.a[:, :, 2:], q], 2))
    self.b.copy_(torch.cat([self.b[:, :, 2:], q * 0.5], 2))
    return F.scaled_dot_product_attention(q, self.a, self.b)


def _multiply(self: State, q: Tensor) -> Tensor:
    """The same attention without its operator."""
    self.a.copy_(torch.cat([self.a[:, :, 2:], q], 2))
    return (q @ self.a.mT).softmax(-1) @ self.a


def _store_indexed(self: State, x: Tensor, position: Tensor) -> Tensor:
    self.a.index_copy_(2, position, x)
    return self.a * 2


CASES: list[Case] = [
    *on_coreml(
        _state("state/accumulated", _accumulate, randn(4, 8)),
        _state("state/two_buffers", _shift, randn(4, 8)),
        _state("state/rows_stored", _store_rows, randn(2, 8)),
        _state("state/key_value_cache", _attend, randn(1, 2, 2, 4), shape=(1, 2, 6, 4)),
        _state("state/products_of_a_cache", _multiply, randn(1, 2, 2, 4), shape=(1, 2, 6, 4)),
        _state("state/stored_at_indices", _store_indexed, randn(1, 2, 2, 4),
               values([3, 1], 2, dtype=torch.int64), shape=(1, 2, 6, 4)),
        targets="coreml:fp16",
    ),
    *on_coreml(
        _state("state/rounded_to_half", _accumulate, randn(4, 8)),
        _state("state/exact_in_half", _accumulate, values([1.5, -2.0, 99.0, 0.25], 4, 8)),
    ),
]  # fmt: skip
