"""Operators of two values: shapes, dtypes, layouts, and which operand is constant or a number."""

from __future__ import annotations

from collections.abc import Callable

import torch

from harness import Case
from suites.crossings.build import Row, apply_layout, cross, prepare_input

OPERATORS: dict[str, Callable[[object, object], torch.Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "rsub": lambda x, y: torch.sub(y, x),  # type: ignore[call-overload]
    "mul": torch.mul,
    "div": torch.div,
    "floor_div": lambda x, y: torch.div(x, y, rounding_mode="floor"),  # type: ignore[call-overload]
    "maximum": lambda x, y: torch.maximum(torch.as_tensor(x), torch.as_tensor(y)),
    "pow": torch.pow,
    "lt": torch.lt,
    "eq": torch.eq,
    "where": lambda x, y: torch.where(x > 1, x, y),  # type: ignore[operator,call-overload]
}
FACTORS = {
    "operator": tuple(OPERATORS),
    "shape": ("same", "row", "column", "single", "rank0", "longer"),
    "dtype": ("float32", "float16", "int64", "int32"),
    "second": ("input", "buffer", "number", "otherdtype"),
    "layout": ("contiguous", "transposed", "sliced"),
    "size": ("fixed", "dynamic"),
}
_SHAPES: dict[str, tuple[int, ...]] = {
    "same": (3, 4, 5),
    "row": (5,),
    "column": (4, 1),
    "single": (1,),
    "rank0": (),
    "longer": (2, 1, 4, 5),
}
_GIVEN = ("input", "otherdtype")
_NUMBERS = {"float32": 1.5, "float16": 1.5, "int64": 3, "int32": 3}
_OTHERS = {"float32": "int32", "float16": "float32", "int64": "int32", "int32": "float32"}


def allows(row: Row) -> bool:
    """Whether the row is valid, and no repetition: a number has no shape."""
    is_dynamic = row.get("size") == "dynamic"
    return not (
        (row.get("second") == "number" and row["shape"] != "rank0")
        or (is_dynamic and row["layout"] == "transposed")
        or (is_dynamic and row["second"] == "buffer" and row["shape"] == "same")
    )


class Elementwise(torch.nn.Module):
    """Applies an operator to a tensor of shape (3, 4, 5) and a second operand."""

    def __init__(self, row: Row, constant: torch.Tensor) -> None:
        super().__init__()
        self.row = row
        self.register_buffer("constant", constant)

    def forward(self, x: torch.Tensor, *given: torch.Tensor) -> torch.Tensor:
        """Return the result."""
        y: object = _NUMBERS[self.row["dtype"]]
        if self.row["second"] != "number":
            y = apply_layout(given[0] if given else self.constant, self.row["layout"])
        return OPERATORS[self.row["operator"]](apply_layout(x, self.row["layout"]), y)


def _make_case(name: str, row: Row) -> Case:
    dtype = row["dtype"]
    is_integer = dtype.startswith("int")

    def draw(shape: tuple[int, ...], kind: str) -> torch.Tensor:
        # Positive, so that powers and quotients are finite. Few values, so that some are equal. A
        # single element has a middle value, so that comparisons with it give both results.
        drawn = torch.randint(1, 5, shape) if is_integer else torch.randint(1, 6, shape) / 2
        if drawn.numel() == 1:
            drawn = torch.full(shape, _NUMBERS[dtype])
        return prepare_input(drawn.to(getattr(torch, kind)), row["layout"])

    def build() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
        second = row["second"]
        y = draw(_SHAPES[row["shape"]], _OTHERS[dtype] if second == "otherdtype" else dtype)
        given = (y,) if second in _GIVEN else ()
        return Elementwise(row, y), (draw(_SHAPES["same"], dtype), *given)

    if row["size"] == "fixed":
        return Case(name, build)
    first = {0: torch.export.Dim("first", min=3, max=6)}
    if row["second"] not in _GIVEN:
        return Case(name, build, dynamic_shapes=(first,))
    return Case(name, build, dynamic_shapes=(first, (first if row["shape"] == "same" else {},)))


CASES: list[Case] = cross("elementwise", FACTORS, allows, _make_case)
