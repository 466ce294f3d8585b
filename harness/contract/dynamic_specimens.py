"""Programs with dynamic sizes, and variants that are wrong only at one end of a range.

The example input has a size between the ends, where each variant is correct.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.export import Dim

from harness.contract.specimens import Expected, FunctionModule, Specimen, SpecimenKind, plant_fault
from harness.model.case import Case, Inputs

ROWS, COLUMNS = Dim("rows", min=1, max=9), Dim("columns", min=2, max=12)

DYNAMIC_SPECIMENS: list[Specimen] = []


def _add_specimen(
    name: str,
    function: Callable[..., Any],
    shapes: tuple[Any, ...],
    inputs: Callable[[], Inputs],
    expected: Expected = Expected.CONFORMS,
) -> None:
    case = Case(
        f"specimen/{name}",
        lambda: (FunctionModule(function, {}), inputs()),
        dynamic_shapes={"inputs": shapes},
        tags=frozenset({"dynamic"}),
    )
    DYNAMIC_SPECIMENS.append(Specimen(case, expected, SpecimenKind.DYNAMIC_SIZES))


def _is_one_row(x: torch.Tensor) -> torch.Tensor:
    """Return 1 where there is one row, else 0.

    It is computed from values, because compilers simplify expressions of sizes by ranges that begin
    at 2.
    """
    return ((x * 0 + 1).sum(0) < 1.5).to(x.dtype)


def _rows() -> Inputs:
    return (torch.randn(4, 3),)


def _rows_and_columns() -> Inputs:
    return (torch.randn(4, 6),)


_ROWS = ({0: ROWS},)
_BOTH = ({0: ROWS, 1: COLUMNS},)

_add_specimen("dynamic_rows", lambda _, x: x * 2 + 1, _ROWS, _rows)
_add_specimen(
    "dynamic_rows_wrong_at_least",
    lambda _, x: x * 2 + plant_fault(0, 1) * _is_one_row(x),
    _ROWS,
    _rows,
    Expected.DIFFERS,
)
_add_specimen(
    "dynamic_rows_wrong_at_most",
    lambda _, x: x * 2 + plant_fault(0, 1) * (x.shape[0] // 9),
    _ROWS,
    _rows,
    Expected.DIFFERS,
)
_add_specimen(
    "dynamic_rows_and_columns", lambda _, x: x * 2 + x.sum(1, True), _BOTH, _rows_and_columns
)
for name, wrong in (
    ("few_rows_many_columns", lambda x: _is_one_row(x) * (x.shape[1] // 12)),
    ("many_rows_few_columns", lambda x: (x.shape[0] // 9) * (4 // (x.shape[1] + 2))),
):
    _add_specimen(
        f"dynamic_wrong_for_{name}",
        lambda _, x, f=wrong: x * 2 + plant_fault(0, 1) * f(x),
        _BOTH,
        _rows_and_columns,
        Expected.DIFFERS,
    )
_add_specimen(
    "dynamic_sizes_of_one_symbol",
    lambda _, x, y: x.repeat(2, 1) + y,
    ({0: ROWS}, {0: 2 * ROWS}),
    lambda: (torch.randn(4, 3), torch.randn(8, 3)),
)
