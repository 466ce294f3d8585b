"""Defects of kinds that upstream had are found in 300 programs and shrunk to six statements."""

from __future__ import annotations

import pytest
from executorch.exir import ExecutorchBackendConfig

from harness.extras.fuzzing.search import Judge, find_wrong_program
from harness.extras.fuzzing.tests import planted
from harness.extras.fuzzing.tests.pass_judges import make_pass_judge, make_plan_judge
from harness.model.recipe import KnownPass
from harness.pipeline import speed

HERE = "harness.extras.fuzzing.tests.planted"


def _but(judge: Judge, other: Judge) -> Judge:
    """Return findings of one judge that another does not report: exir's own plan is wrong where
    there are two conditionals (executorch #21490).
    """
    return lambda program: None if other(program) else judge(program)


IN_PLACE = (KnownPass(HERE, "", in_place=True, idempotent=False),)

DEFECTS = {
    "reinplace": make_pass_judge(
        lambda: [planted.ReinplacesWhatIsRead()], IN_PLACE, verified=False
    ),
    "random": make_pass_judge(lambda: [planted.MergesDraws()]),
    "dtype": make_pass_judge(lambda: [planted.LiftsAsFloats()]),
    "offset": make_pass_judge(lambda: [planted.ForgetsOffsets()]),
    "plan": _but(
        make_plan_judge(planted.frees_too_early), make_plan_judge(ExecutorchBackendConfig)
    ),
}


@pytest.fixture(autouse=True)
def _quick() -> None:
    speed.install()


# They take the most programs.
_LONG = ("dtype", "offset", "random")
_NIGHTLY = [pytest.param(name, marks=pytest.mark.nightly) for name in _LONG]


@pytest.mark.nightly
@pytest.mark.parametrize("defect", [*sorted(DEFECTS.keys() - set(_LONG)), *_NIGHTLY])
def test_a_planted_defect_is_found_and_reduced(defect: str) -> None:
    found, tried = find_wrong_program(DEFECTS[defect], examples=300, may_draw=defect == "random")
    assert found is not None
    assert found.tried <= tried <= 300
    assert found.program.step_count <= 6, found.program.source
