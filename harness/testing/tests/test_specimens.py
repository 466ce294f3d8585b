"""Odd but legal programs on the null backend, which executes everything: each verdict is right."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from backends.null import BACKEND, WRONG
from harness import Execution, Inputs, registry, run_cell
from harness.errors import StageFailure
from harness.record.cell import Status
from harness.testing import DYNAMIC_SPECIMENS, SPECIMENS, Expected, Specimen, check_backend
from harness.testing.contract import misjudged

_STATUS = {
    Expected.CONFORMS: Status.PASSED,
    Expected.UNTELLING: Status.PASSED,
    Expected.DIFFERS: Status.MISMATCH,
    Expected.REFUSED: Status.FAILED,
}


@pytest.mark.parametrize(
    "specimen", [*SPECIMENS, *DYNAMIC_SPECIMENS], ids=lambda one: one.case.name
)
def test_the_verdict_is_right(specimen: Specimen) -> None:
    cell = run_cell(specimen.case, "null:eager")
    assert misjudged(specimen, cell) is None, cell.error
    assert cell.status is _STATUS[specimen.expected], f"{cell.stage}: {cell.error}"


def test_a_backend_that_spoils_its_outputs_is_found() -> None:
    telling = [one for one in SPECIMENS if one.case.name in ("specimen/cond", "specimen/buffer")]
    with pytest.raises(AssertionError, match="2 verdicts are wrong"):
        check_backend(WRONG, specimens=telling)
    assert [cell.status for cell in check_backend(BACKEND, specimens=telling)] == 2 * [
        Status.PASSED
    ]


class Narrow(type(BACKEND)):  # type: ignore[misc]
    """Executes programs for up to 4 rows, whatever they were lowered for."""

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        if any(len(inputs[0]) > 4 for inputs in calls):
            raise RuntimeError("too many rows")
        return super().execute(program, calls)


def test_a_backend_that_refuses_a_size_that_it_lowered_for_is_found() -> None:
    rows = [one for one in DYNAMIC_SPECIMENS if one.case.name == "specimen/dynamic_rows"]
    with pytest.raises(
        AssertionError,
        match=r"failed at run, it was lowered for this size: SizeRefused: the program refuses "
        r"inputs_0:0 = 9 \(declared: 1 to 9; exported with 4\): RuntimeError: too many rows",
    ):
        check_backend(Narrow(), specimens=rows)


class Late(Narrow):
    """Finds while it runs that lowering did it."""

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        try:
            return super().execute(program, calls)
        except RuntimeError as error:
            raise StageFailure("lower", error) from error


def test_a_size_that_an_earlier_stage_is_to_blame_for_stays_with_that_stage() -> None:
    (rows,) = (one for one in DYNAMIC_SPECIMENS if one.case.name == "specimen/dynamic_rows")
    cell = run_cell(rows.case, "null:eager", backend=Late())
    assert (cell.stage, cell.refused_call) == ("lower", 2)
    assert cell.error is not None
    assert "refuses inputs_0:0 = 9" in cell.error


@pytest.mark.nightly
@pytest.mark.parametrize("target", registry.default_targets(), ids=str)
def test_every_backend_judges_them_rightly(target: registry.Target) -> None:
    backend = registry.backend(target.backend)
    if backend.recipes[target.recipe].quantizer is None:
        check_backend(backend, recipes=[target.recipe])
