"""What a program takes, returns and writes: results that are inputs, views or parameters.

Delegates copy results to the program's memory. A result that is returned twice, that nothing
computes, or that is written after a view of it was taken needs care there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harness import Case
from suites.crossings.build import Row, cross

RESULTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "linear": F.linear,
    "relu": lambda x, w: x.relu(),
    "add": lambda x, w: x + w[0],
    "cat": lambda x, w: torch.cat([x, w], 0),
    "view": lambda x, w: x.reshape(-1),
    "permute": lambda x, w: x.permute(1, 0),
    "slice": lambda x, w: x[:, 1:],
    "cast": lambda x, w: x.to(torch.float16 if x.dtype == torch.float32 else torch.float32),
    "parameter": lambda x, w: w,
    "input": lambda x, w: x,
}
RETURNS: dict[str, Callable[[Tensor, Tensor, Tensor], Any]] = {
    "once": lambda y, x, w: y,
    "twice": lambda y, x, w: (y, y),
    "viewed": lambda y, x, w: (y, y.flatten()),
    "read": lambda y, x, w: (y, y * 2),
    "withinput": lambda y, x, w: (y, x),
    "withparameter": lambda y, x, w: (y, w),
    "nested": lambda y, x, w: {"y": y, "rest": [x + x, (y,)]},
    "none": lambda y, x, w: (y, None),
    "number": lambda y, x, w: (y, 3),
}
FACTORS = {
    "result": tuple(RESULTS),
    "returned": tuple(RETURNS),
    "takes": ("unused", "one", "same", "named", "nested", "rank0"),
    "writes": ("input", "nothing", "buffer", "result"),
    "dtype": ("float32", "float16", "int32"),
}
_VIEWS = ("view", "permute", "slice", "input")


def allows(row: Row) -> bool:
    """Whether the row is valid: layers are of floats, and parameters are not written."""
    is_shared = row.get("result") in _VIEWS or row.get("returned") == "viewed"
    return not (
        (row.get("dtype") == "int32" and row["result"] == "linear")
        or (row.get("writes") == "result" and (row["result"] == "parameter" or is_shared))
    )


class Interface(nn.Module):
    """Takes an input of shape (3, 4), or what makes one, and returns what a row says."""

    def __init__(self, row: Row, weight: Tensor) -> None:
        super().__init__()
        self.row = row
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.seen = nn.Buffer(torch.zeros(4, dtype=weight.dtype))

    def forward(self, *given: Any, **named: Any) -> Any:
        """Return the result, in the structure of the row."""
        x = self._take(*given, **named)
        if self.row["writes"] == "input":
            x.add_(1)
        if self.row["writes"] == "buffer":
            self.seen.copy_(x[0] - self.seen)
            x = x + self.seen
        y = RESULTS[self.row["result"]](x, self.weight)
        if self.row["writes"] == "result":
            y.mul_(2)
        return RETURNS[self.row["returned"]](y, x, self.weight)

    def _take(self, *given: Any, **named: Any) -> Tensor:
        takes = self.row["takes"]
        if takes == "named":
            return named["x"]
        if takes == "nested":
            return given[0][0]["x"]
        if takes == "same":
            return given[0] + given[1]
        return given[0] * given[1] if takes == "rank0" else given[0]


def _make_case(name: str, row: Row) -> Case:
    def draw(*shape: int) -> Tensor:
        drawn = torch.randint(1, 9, shape) if row["dtype"] == "int32" else torch.randn(shape)
        return drawn.to(getattr(torch, row["dtype"]))

    def build() -> tuple[Any, ...]:
        x, takes = draw(3, 4), row["takes"]
        module = Interface(row, draw(5, 4)).eval()
        if takes == "named":
            return module, (), {"x": x}
        if takes == "nested":
            return module, ([{"x": x}],)
        second = {"unused": draw(2), "same": x, "rank0": draw()}
        return module, (x, second[takes]) if takes in second else (x,)

    return Case(name, build)


CASES: list[Case] = cross("interface", FACTORS, allows, _make_case)
