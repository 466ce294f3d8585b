"""Cells continue after known defects of a vendor's code: all are listed, and the rest is judged."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from backends import portable
from harness import Case, CellOptions, Limitation, run_cell
from harness.errors import ProgramError, StageFailure
from harness.model.backend import Availability, Execution, past_defects, report_defect
from harness.model.case import Inputs
from harness.record.cell import PUBLISHED, Cell, Status
from harness.record.program_data import Defect

TWO = Case.from_module(
    "two/layers",
    torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).eval(),
    (torch.randn(4, 4),),
)
FIRST = "ProgramError: first reads strides; at first(buf0)"


class Defective:
    """Has two defects, one in each call; its outputs are off by ``error``."""

    name = "portable"
    recipes = portable.BACKEND.recipes

    def __init__(self, error: float = 0.0, ends: bool = False) -> None:
        self.error, self.ends = error, ends

    def availability(self) -> Availability:
        return Availability(True, runtime="emulated")

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        for name, node in (
            ("first", "aten_relu_default"),
            ("second", ""),
            ("first", "aten_relu_default"),
        ):
            text = f"{name} reads strides"
            failure = StageFailure("lower", ProgramError(f"{text}; at {name}(buf0)"))
            report_defect(failure, Defect(error=text, node=node))
        if self.ends:
            raise IndexError("reads beyond the end")
        outputs = portable.BACKEND.execute(program, calls).outputs
        return Execution([[one + self.error for one in call] for call in outputs], "emulated")


def cell(backend: Defective, **options: object) -> Cell:
    return run_cell(TWO, "portable:fp32", backend=backend, **options)  # type: ignore[arg-type]


def test_all_defects_are_listed_and_the_rest_is_within_bounds() -> None:
    found = cell(Defective())
    assert (found.status, found.stage) == (Status.FAILED, "lower")
    assert found.error == f"{FIRST}; 2 known defects; otherwise within bounds"
    first, second = found.defects
    assert (first.error, first.node) == ("first reads strides", "aten_relu_default")
    assert first.op.startswith("aten.relu")  # emission makes out variants
    assert (second.error, second.node) == ("second reads strides", "")
    assert found.runtime == "emulated"
    assert found.numerics[0].exceeding == 0
    assert Cell.from_json(found.to_json()) == found


def test_a_mismatch_after_known_defects_is_reported() -> None:
    found = cell(Defective(error=1.0))
    assert (found.status, found.stage) == (Status.FAILED, "lower")
    assert found.error is not None
    assert found.error.startswith(f"{FIRST}; 2 known defects; otherwise call 0 output 0: 16 of 16")
    assert found.numerics[0].exceeding == 16


def test_a_defect_that_ends_execution_is_reported() -> None:
    found = cell(Defective(ends=True))
    assert (found.status, found.stage) == (Status.FAILED, "lower")
    assert found.error == (
        f"{FIRST}; 2 known defects; otherwise execution stops at stage run: IndexError: "
        "reads beyond the end"
    )
    assert len(found.defects) == 2


def test_without_going_past_the_first_defect_ends_the_cell() -> None:
    found = cell(Defective(), options=CellOptions(continue_past_defects=False))
    assert (found.status, found.stage, found.error) == (Status.FAILED, "lower", FIRST)
    assert (found.defects, found.numerics) == ([], [])


@pytest.mark.parametrize("error", [0.0, 1.0])
def test_a_limitation_matches_the_first_defect(error: float) -> None:
    known = Limitation(
        "portable:*", "two/*", "the first", stage="lower", error="first reads strides; at"
    )
    found = cell(Defective(error), limitations=[known])
    assert found.status is Status.XFAILED
    assert len(found.defects) == 2
    other = Limitation("portable:*", "two/*", "another", stage="lower", error="third")
    assert cell(Defective(error), limitations=[other]).status is Status.FAILED


def test_published_shapes_end_at_their_first_defect() -> None:
    large = Case(TWO.name, TWO.build, tags=frozenset({PUBLISHED}))
    found = run_cell(large, "portable:fp32", backend=Defective())
    assert (found.error, found.defects) == (FIRST, [])


def test_a_backend_raises_for_a_defect_unless_execution_continues() -> None:
    failure = StageFailure("lower", ProgramError("refused"))
    with pytest.raises(StageFailure, match="refused"):
        report_defect(failure)
    with past_defects() as log:
        report_defect(failure)
        report_defect(StageFailure("lower", ProgramError("again")), Defect(error="again"))
    assert log.failure is failure
    assert log.defects == [Defect(error="again")]
    with pytest.raises(StageFailure, match="refused"):
        report_defect(failure)
