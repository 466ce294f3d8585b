"""Reductions: dimensions, keepdim, dtype, layout, and a dynamic size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from harness import Case
from suites.crossings.build import Row, apply_layout, cross, prepare_input

FACTORS = {
    "operator": tuple("sum mean amax amin var norm any argmax cumsum softmax".split()),
    "dims": ("first", "last", "minus2", "lasttwo", "apart", "all"),
    "keepdim": ("kept", "dropped"),
    "dtype": ("float32", "float16", "int64", "int32"),
    "rank": (2, 3, 4),
    "layout": ("contiguous", "transposed", "sliced"),
    "size": ("fixed", "dynamic"),
}
_DIMS: dict[str, list[int]] = {
    "first": [0],
    "last": [-1],
    "minus2": [-2],
    "lasttwo": [-1, -2],
    "apart": [0, -1],
}
_ONE = ("any", "argmax", "cumsum", "softmax")
"""Operators of one dimension."""
_FLOATING = ("mean", "var", "norm", "softmax")
_SHAPE = (3, 4, 5, 6)


def allows(row: Row) -> bool:
    """Whether torch has the reduction, and the row names no property that it lacks."""
    operator, dims = row["operator"], row.get("dims", "last")
    return not (
        (operator in _ONE and dims in ("lasttwo", "apart", "all"))
        or (operator in _FLOATING and row.get("dtype", "").startswith("int"))
        or (operator in ("cumsum", "softmax") and row.get("keepdim") == "dropped")
        or (row.get("rank") == 2 and dims == "apart")
        or (row.get("size") == "dynamic" and row["layout"] == "transposed")
    )


def _find_function(row: Row) -> Callable[[torch.Tensor], torch.Tensor]:
    operator, keepdim = row["operator"], row["keepdim"] == "kept"
    dims = _DIMS.get(row["dims"], list(range(row["rank"])))
    options: dict[str, Any] = {"dim": dims[0] if operator in _ONE else dims, "keepdim": keepdim}
    if operator in ("cumsum", "softmax"):
        del options["keepdim"]
    function = torch.linalg.vector_norm if operator == "norm" else getattr(torch, operator)
    return lambda x: function(x, **options)


class Reduction(torch.nn.Module):
    """Reduces a tensor."""

    def __init__(self, row: Row) -> None:
        super().__init__()
        self.row = row

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the reduced tensor."""
        return _find_function(self.row)(apply_layout(x, self.row["layout"]))


def _make_case(name: str, row: Row) -> Case:
    def build() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
        shape = _SHAPE[-row["rank"] :]
        drawn = torch.randperm(torch.Size(shape).numel()).reshape(shape) - 100
        values = drawn if row["dtype"].startswith("int") else torch.randn(shape) + 1
        if row["operator"] == "any":  # mostly zeros, so that the result is not the same everywhere
            values = values * (torch.rand(shape) < 0.25)
        x = values.to(getattr(torch, row["dtype"]))
        return Reduction(row), (prepare_input(x, row["layout"]),)

    if row["size"] == "fixed":
        return Case(name, build)
    return Case(name, build, dynamic_shapes=({0: torch.export.Dim("first", min=2, max=8)},))


CASES: list[Case] = cross("reduction", FACTORS, allows, _make_case, integer_targets="tosa:int")
