"""Operators on constants, which coremltools computes while it converts a program."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F

from harness import Case
from suites.build import Input, ints, nn_case, randn
from suites.coreml.only import on_coreml

Tensor = torch.Tensor
LEAST = torch.iinfo(torch.int32).min
INF = float("inf")


class Constants(torch.nn.Module):
    """A function of the program's input and of constants, which it reads as attributes."""

    def __init__(self, function: Callable[..., Tensor], constants: dict[str, Tensor]) -> None:
        super().__init__()
        self.function = function
        for name, constant in constants.items():
            self.register_buffer(name, constant.clone())

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, x)


def _on(name: str, function: Callable[..., Tensor], x: Input, **constants: Tensor) -> Case:
    """Make a case of a program with one input and constants."""
    return nn_case(name, partial(Constants, function, constants), x)


def _penalize(self: Constants, x: Tensor) -> Tensor:
    return F.linear(x, self.weight) + F.hardswish(self.weight).sum()


SCATTERED = {
    "data": torch.tensor([1.0, 2.0, 3.0]),
    "indices": torch.tensor([0, 0]),
    "updates": torch.tensor([10.0, 20.0]),
}
INTEGERS = torch.tensor([LEAST, 1, 3, 2], dtype=torch.int32)
MATRIX = torch.tensor([[1.0, INF], [INF, 2.0]])

CASES: list[Case] = on_coreml(
    _on("scatter/constants",
        lambda self, x: x + torch.scatter(self.data, 0, self.indices + self.apart, self.updates),
        randn(3), apart=torch.tensor([0, 2]), **SCATTERED),
    _on("scatter_add/constants",
        lambda self, x: x + torch.scatter_add(self.data, 0, self.indices, self.updates),
        randn(3), **SCATTERED),
    _on("scaled_dot_product_attention/constants_and_mask",
        lambda self, x: F.scaled_dot_product_attention(self.c, self.c, self.c, x),
        randn(2, 2), c=torch.arange(4.0).reshape(1, 1, 2, 2)),
    _on("argsort/constants_ascending", lambda self, x: x + torch.argsort(self.c),
        ints(0, 9, 4), c=INTEGERS),
    _on("argsort/constants_descending",
        lambda self, x: x + torch.argsort(self.c, descending=True), ints(0, 9, 4), c=INTEGERS),
    _on("topk/uint8_constants", lambda self, x: x + torch.topk(self.c, 2)[0],
        ints(0, 9, 2, dtype=torch.int32), c=torch.tensor([0, 1, 3, 2], dtype=torch.uint8)),
    _on("logsumexp/constants", lambda self, x: x + torch.logsumexp(self.c, 1), randn(2),
        c=torch.tensor([[100.0, 100.0], [-INF, 0.0]])),
    _on("logsumexp/infinite_constants", lambda self, x: x + torch.logsumexp(self.c, 1),
        randn(2), c=torch.tensor([[-INF, -INF], [INF, 0.0]])),
    _on("softplus/large_constants_beta", lambda self, x: x + F.softplus(self.c, beta=2.0),
        randn(1, 2, 1, 1), c=torch.tensor([100.0, 1.0]).reshape(1, 2, 1, 1)),
    _on("trace/constant_infinite_beside", lambda self, x: x + torch.trace(self.c), randn(2),
        c=MATRIX),
    _on("hardswish/constants_read_twice", _penalize, randn(3, 2),
        weight=torch.tensor([[-4.0, 3.0], [6.0, -5.0]])),
    _on("squeeze/constant_to_number", lambda self, x: x + torch.squeeze(self.c), randn(2),
        c=torch.full((1, 1), 7.0)),
    _on("select_copy/constants_fp16", lambda self, x: x + self.c[1].float(), randn(2),
        c=torch.arange(3.0).half()),
)  # fmt: skip
