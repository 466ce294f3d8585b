"""Operators that write to their input, between quantized layers.

PT2E annotates, rewrites and observes a graph before its in-place operators are functionalized, so
that a quantizer has to know ``relu_`` beside ``relu``, and a pair of nodes that it inserts must not
separate a view from the tensor that is written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch.nn import Conv2d, Linear, Module, Sequential

from harness import Case
from suites.build import nn_case, randn
from suites.quant.only import WEIGHTLESS, WEIGHTS_ASIDE, on

_Write = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class _Writes(Module):
    """Two layers, a function that writes to the second one's result, and a third layer."""

    def __init__(self, write: _Write) -> None:
        super().__init__()
        self.first, self.second, self.last = Linear(8, 6), Linear(6, 6), Linear(6, 4)
        self.write = write

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        other = self.first(x)
        result: torch.Tensor = self.last(self.write(self.second(other), other))
        return result


class _WritesCopy(Module):
    """Writes one layer's result to a part of a copied parameter, which another layer reads."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = Linear(8, 4), Linear(6, 4)
        self.kept = torch.nn.Parameter(torch.randn(3, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        copy = self.kept.clone()
        copy[:, :4] = self.first(x)
        result: torch.Tensor = self.last(copy)
        return result


def _activation(name: str, make: Callable[[], Module]) -> Case:
    return nn_case(
        f"int_in_place/{name}",
        lambda: Sequential(Conv2d(3, 4, 3), make(), Conv2d(4, 2, 1)),
        randn(1, 3, 6, 7),
    )


def _write(name: str, write: _Write) -> Case:
    return nn_case(f"int_in_place/{name}", lambda: _Writes(write), randn(3, 8))


def _put(y: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return y.index_put_((torch.tensor([0, 2]),), other[:2])


def _add_to_part(y: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    y[:, :2].add_(other[:, :2])
    return y


def _copy_to_part(y: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    y[:, 3:].copy_(other[:, :3])
    return y


def _set_column(y: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    y[:, 0] = other[:, 1]
    return y


def _zero_row(y: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    y[:1].zero_()
    return y


_CASES = [
    _activation("leaky_relu", lambda: torch.nn.LeakyReLU(0.2, inplace=True)),
    _activation("relu", lambda: torch.nn.ReLU(inplace=True)),
    _activation("relu6", lambda: torch.nn.ReLU6(inplace=True)),
    _activation("hardtanh", lambda: torch.nn.Hardtanh(-0.3, 0.4, inplace=True)),
    _activation("hardswish", lambda: torch.nn.Hardswish(inplace=True)),
    _activation("hardsigmoid", lambda: torch.nn.Hardsigmoid(inplace=True)),
    _activation("silu", lambda: torch.nn.SiLU(inplace=True)),
    _activation("elu", lambda: torch.nn.ELU(0.7, inplace=True)),
    _activation("celu", lambda: torch.nn.CELU(0.7, inplace=True)),
    _activation("mish", lambda: torch.nn.Mish(inplace=True)),
    _activation("threshold", lambda: torch.nn.Threshold(0.1, 0.2, inplace=True)),
    _activation("dropout", lambda: torch.nn.Dropout(inplace=True)),
    _write("add", lambda y, other: y.add_(other)),
    _write("add_number", lambda y, _: y.add_(0.5)),
    _write("sub", lambda y, other: y.sub_(other)),
    _write("mul", lambda y, other: y.mul_(other)),
    _write("mul_number", lambda y, _: y.mul_(0.37)),
    _write("div", lambda y, other: y.div_(other.abs() + 1)),
    _write("clamp", lambda y, _: y.clamp_(-0.2, 0.3)),
    _write("relu_function", lambda y, _: F.relu_(y)),
    _write("sigmoid", lambda y, _: y.sigmoid_()),
    _write("tanh", lambda y, _: y.tanh_()),
    _write("exp", lambda y, _: y.exp_()),
    _write("sqrt", lambda y, _: y.abs_().add_(0.1).sqrt_()),
    _write("masked_fill", lambda y, other: y.masked_fill_(other > 0, 0.25)),
    _write("lerp", lambda y, other: y.lerp_(other, 0.3)),
    _write("transpose", lambda y, _: y.transpose_(0, 1).t_()),
    _write("index_put", _put),
    _write("add_to_part", _add_to_part),
    _write("copy_to_part", _copy_to_part),
    _write("set_column", _set_column),
    _write("zero_row", _zero_row),
    nn_case("int_in_place/set_part_of_copy", _WritesCopy, randn(3, 8), calls=[[randn(3, 8)]]),
]
_PLAIN = ("leaky_relu", "hardswish", "silu", "add", "mul", "clamp", "copy_to_part", "set_column")

CASES: list[Case] = [
    replace(case, plain_targets=WEIGHTLESS if case.name.partition("/")[2] in _PLAIN else "")
    for case in on(WEIGHTS_ASIDE, *_CASES)
]
