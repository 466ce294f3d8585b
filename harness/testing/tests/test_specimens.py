"""Odd but legal programs on the null backend, which executes everything: each verdict is right."""

from __future__ import annotations

import pytest

from backends.null import BACKEND, WRONG
from harness import registry, run_cell
from harness.record.cell import Status
from harness.testing import SPECIMENS, Expected, Specimen, check_backend
from harness.testing.contract import misjudged

_STATUS = {
    Expected.CONFORMS: Status.PASSED,
    Expected.UNTELLING: Status.PASSED,
    Expected.DIFFERS: Status.MISMATCH,
    Expected.REFUSED: Status.FAILED,
}


@pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda one: one.case.name)
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


@pytest.mark.nightly
@pytest.mark.parametrize("target", registry.default_targets(), ids=str)
def test_every_backend_judges_them_rightly(target: registry.Target) -> None:
    backend = registry.backend(target.backend)
    if backend.recipes[target.recipe].quantizer is None:
        check_backend(backend, recipes=[target.recipe])
