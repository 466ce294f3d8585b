"""Buffers that a program writes: by which operator, in which dtype, and who reads them when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harness import Case
from suites.crossings.build import Row, cross


class State(nn.Module):
    """Writes a buffer of shape (4, 6), reads it, and returns what a row says."""

    def __init__(self, row: Row) -> None:
        super().__init__()
        self.row = row
        dtype = getattr(torch, row["dtype"])
        self.kept = nn.Buffer(torch.zeros(4, 6, dtype=dtype))
        self.other = nn.Buffer(torch.zeros(4, 6, dtype=dtype))
        self.rows = nn.Buffer(torch.tensor([2, 0]))
        self.columns = nn.Buffer(torch.stack([torch.randperm(6) for _ in range(4)]))
        self.weight = nn.Parameter(torch.randn(3, 6).to(dtype), requires_grad=False)

    def forward(self, x: Tensor, at: Tensor) -> tuple[Tensor, ...]:
        """Return what is read before and after the write."""
        reads = self.row["reads"]
        before = [(self.kept + 1) * x] if reads in ("before", "both") else []
        WRITES[self.row["writes"]](self, x, at)
        after = [READS[reads](self, x)] if reads in READS else []
        return (*before, *after)


WRITES: dict[str, Callable[[State, Tensor, Tensor], object]] = {
    "copy": lambda m, x, at: m.kept.copy_(x - m.kept),
    "add": lambda m, x, at: m.kept.add_(x),
    "number": lambda m, x, at: m.kept.add_(2),
    "slice": lambda m, x, at: m.kept[:, 1:3].copy_(x[:, 2:4]),
    "row": lambda m, x, at: m.kept[1].add_(x[0]),
    "put": lambda m, x, at: m.kept.index_put_((m.rows,), x[:2]),
    "putat": lambda m, x, at: m.kept.index_put_((at,), x[:1]),
    "accumulate": lambda m, x, at: m.kept.index_put_((m.rows,), x[:2], accumulate=True),
    "indexcopy": lambda m, x, at: m.kept.index_copy_(0, at, x[:1]),
    "scatter": lambda m, x, at: m.kept.scatter_(1, m.columns, x),
    "fill": lambda m, x, at: m.kept[:2].fill_(3),
    "shift": lambda m, x, at: m.kept.copy_(torch.cat([m.kept[1:], x[:1]])),
    "masked": lambda m, x, at: m.kept.masked_fill_(x > 0.5, 3),
    "where": lambda m, x, at: m.kept.copy_(torch.where(x > 0.5, x, m.kept)),
    "swap": lambda m, x, at: (m.other.add_(x), m.kept.sub_(m.other)),
    "transposed": lambda m, x, at: m.kept.t().add_(x.t()),
}
READS: dict[str, Callable[[State, Tensor], Tensor]] = {
    "after": lambda m, x: m.kept + x,
    "both": lambda m, x: m.kept + x,
    "part": lambda m, x: m.kept[1:, ::2] * x[1:, ::2],
    "layer": lambda m, x: F.linear(m.kept, m.weight),
    "returned": lambda m, x: m.kept,
    "nothing": lambda m, x: x * 2,
}
FACTORS = {
    "writes": tuple(WRITES),
    "reads": ("after", "before", "both", "part", "layer", "returned", "nothing"),
    "dtype": ("float32", "float16", "int32", "int64"),
}


def allows(row: Row) -> bool:
    """Whether the row is valid: layers are of floats, and a result depends on the input."""
    is_layer = row.get("reads") == "layer"
    is_constant = row["writes"] in ("number", "fill") and row.get("reads") == "returned"
    return not is_constant and not (is_layer and row.get("dtype", "").startswith("int"))


def _make_case(name: str, row: Row) -> Case:
    dtype = getattr(torch, row["dtype"])

    def draw() -> tuple[Tensor, Tensor]:
        drawn = torch.randn(4, 6) if dtype.is_floating_point else torch.randint(1, 9, (4, 6))
        return drawn.to(dtype), torch.randint(4, (1,))

    case = Case(name, lambda: (State(row).eval(), draw()))
    return replace(case, calls=lambda: [draw() for _ in range(2)], tags=case.tags | {"stateful"})


CASES: list[Case] = cross("state", FACTORS, allows, _make_case)
