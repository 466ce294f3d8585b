"""Joining tensors: number of inputs, dimension, dtype, layout and an empty one."""

from __future__ import annotations

import torch

from harness import Case
from suites.crossings.build import Row, apply_layout, cross, prepare_input

FACTORS = {
    "operator": ("cat", "stack", "sum_of_split"),
    "count": (2, 6),
    "dim": ("first", "middle", "last"),
    "dtype": ("float32", "float16", "int64", "int32"),
    "layout": ("contiguous", "transposed"),
    "inputs": ("full", "empty", "constant"),
}
_DIMS = {"first": 0, "middle": 1, "last": -1}


def allows(row: Row) -> bool:
    """Whether torch has the operator on such inputs."""
    return row["operator"] == "cat" or row.get("inputs") != "empty"


class Join(torch.nn.Module):
    """Joins tensors of shape (2, 3, 4), or splits one that is joined and adds the parts."""

    def __init__(self, row: Row, constant: torch.Tensor) -> None:
        super().__init__()
        self.row = row
        self.register_buffer("constant", constant)

    def forward(self, parts: list[torch.Tensor]) -> torch.Tensor:
        """Return the joined tensors, or the sum of the parts."""
        dim = _DIMS[self.row["dim"]]
        parts = [apply_layout(part, self.row["layout"]) for part in parts]
        if self.row["inputs"] == "constant":
            parts = [*parts[:-1], apply_layout(self.constant, self.row["layout"])]
        if self.row["operator"] == "stack":
            return torch.stack(parts, dim)
        joined = torch.cat(parts, dim)
        if self.row["operator"] == "cat":
            return joined
        size = joined.shape[dim] // len(parts)
        total, *others = torch.split(joined, size, dim)
        for other in others:
            total = total + other
        return total


def _make_case(name: str, row: Row) -> Case:
    def draw(*shape: int) -> torch.Tensor:
        drawn = (torch.randn(shape) * 3).to(getattr(torch, row["dtype"]))
        return prepare_input(drawn, row["layout"])

    def build() -> tuple[torch.nn.Module, tuple[object, ...]]:
        parts = [draw(2, 3, 4) for _ in range(row["count"])]
        if row["inputs"] == "empty":
            shape = [2, 3, 4]
            shape[_DIMS[row["dim"]]] = 0
            parts[1] = draw(*shape)
        return Join(row, draw(2, 3, 4)), (parts,)

    return Case(name, build)


CASES: list[Case] = cross("join", FACTORS, allows, _make_case)
