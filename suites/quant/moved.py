"""Operators that move elements, between quantized operators.

A movement computes no numbers, so that its operand and its result have to share a scale. Quantizers
give it the scale of what is before it, of what is behind it, or of both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F

from harness import Case
from suites.build import nn_case, op, randn
from suites.quant.only import TOSA, on
from suites.selection import take_one_of

Move = Callable[[torch.Tensor], torch.Tensor]

# Of a tensor (4, 4, 4); Cortex-M stores those of four dimensions channels-last.
_MOVES: dict[str, Move] = {
    "view": lambda x: x.view(2, 32),
    "flatten": lambda x: x.flatten(1),
    "unflatten": lambda x: x.unflatten(1, (2, 2)),
    "unsqueeze": lambda x: x.unsqueeze(-1),
    "unsqueeze_first": lambda x: x[0].unsqueeze(0),
    "squeeze": lambda x: x[:, :1].squeeze(1),
    "transpose": lambda x: x.transpose(1, 2),
    "permute": lambda x: x.permute(2, 0, 1),
    "matrix_transpose": lambda x: x[0].t(),
    "slice": lambda x: x[:, 1:3],
    "select": lambda x: x[:, 2],
    "chunk": lambda x: x.chunk(2, 1)[1],
    "split": lambda x: torch.cat(x.split([1, 3], 1)[::-1], 1),
    "expand": lambda x: x[:, :1].expand(4, 3, 4),
    "repeat": lambda x: x.repeat(1, 2, 1),
    "flip": lambda x: x.flip(1),
    "roll": lambda x: x.roll(1, 2),
    "pad": lambda x: F.pad(x, (1, 2)),
    "pad_with_value": lambda x: F.pad(x, (1, 2), value=0.5),
    "reflection_pad": lambda x: F.pad(x, (1, 1), mode="reflect"),
    "index_select": lambda x: x.index_select(1, torch.tensor([3, 0])),
    "max_pool": lambda x: F.max_pool1d(x, 2),
    "nearest": lambda x: F.interpolate(x, scale_factor=2.0),
    "amax": lambda x: x.amax(-1),
    "clone": lambda x: x.clone(),
    "contiguous": lambda x: x.transpose(1, 2).contiguous(),
}


def _join(move: Move) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Return a function that joins two moved tensors, one of nine times the range."""
    return lambda x, y: torch.cat([move(x + y), move(x * y * 9)])


def _give_back(move: Move) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    return lambda x, y: move(x + y)


def _between(move: Move) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    return lambda x, y: move(x + y) * 3


_X = randn(4, 4, 4)
_ENDS = {"into_cat": _join, "returned": _give_back, "into_mul": _between}
CASES: list[Case] = [
    replace(case, plain_targets="xnnpack:int8" if case.name.endswith("into_cat") else "")
    for name, move in _MOVES.items()
    for end, build in _ENDS.items()
    for case in on(f"xnnpack:int8|{TOSA}", op(f"int_moved/{name}_{end}", build(move), _X, _X))
]
CASES = take_one_of(2, CASES)
CASES += on(
    f"xnnpack:int8|{TOSA}",
    op("int_moved/rows_into_cat", _join(torch.t), randn(3, 4), randn(3, 4)),
)


class _OfParameter(torch.nn.Module):
    """Moves a parameter, and calls a function of the result and of the input, moved alike."""

    def __init__(
        self, move: Move, function: Callable[..., torch.Tensor], shape: tuple[int, ...] = (4, 4, 4)
    ) -> None:
        super().__init__()
        self.parameter = torch.nn.Parameter(torch.randn(shape))
        self.move, self.function = move, function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.move(self.parameter), self.move(x).contiguous())


# A moved constant may be folded, and its layout decides that of a sum.
_READERS: dict[str, Callable[..., torch.Tensor]] = {
    "added": torch.add,
    "joined": lambda w, x: torch.cat([w, x * 9.0]),
}
CASES += [
    replace(case, plain_targets="tosa:int" if name == "transpose" else "")
    for name, move in _MOVES.items()
    for reader, function in _READERS.items()
    for case in on(
        f"xnnpack:int8|{TOSA}",
        nn_case(
            f"int_moved/{name}_of_parameter_{reader}", partial(_OfParameter, move, function), _X
        ),
    )
]
CASES += on(
    f"xnnpack:int8|{TOSA}",
    nn_case(
        "int_moved/rows_of_parameter_added",
        partial(_OfParameter, torch.t, torch.add, (3, 4)),
        randn(3, 4),
    ),
    *(
        nn_case(
            f"int_stack/of_parameter_{name}",
            partial(_OfParameter, lambda x: x, lambda w, x, dim=dim: torch.stack([w, x], dim)),
            _X,
        )
        for name, dim in (("first", 0), ("last", -1))
    ),
)
