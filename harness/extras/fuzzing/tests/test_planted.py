"""Defects of the kinds that upstream had are found in 300 programs, and shown in six statements."""

from __future__ import annotations

import pytest
from executorch.exir import ExecutorchBackendConfig

from harness.extras.fuzzing.judges import of_passes, of_plans
from harness.extras.fuzzing.search import Judge, search
from harness.extras.fuzzing.tests import planted
from harness.model.recipe import KnownPass
from harness.pipeline import speed

HERE = "harness.extras.fuzzing.tests.planted"


def _but(judge: Judge, other: Judge) -> Judge:
    """What a judge finds and another one does not: exir's own plan is wrong where there are two
    conditionals (executorch #21490)."""
    return lambda program: None if other(program) else judge(program)


IN_PLACE = (KnownPass(HERE, "", in_place=True, idempotent=False),)

DEFECTS = {
    "reinplace": of_passes(lambda: [planted.ReinplacesWhatIsRead()], IN_PLACE, verified=False),
    "random": of_passes(lambda: [planted.MergesDraws()]),
    "dtype": of_passes(lambda: [planted.LiftsAsFloats()]),
    "offset": of_passes(lambda: [planted.ForgetsOffsets()]),
    "plan": _but(of_plans(planted.frees_too_early), of_plans(ExecutorchBackendConfig)),
}


@pytest.fixture(autouse=True)
def _quick() -> None:
    speed.install()


# Takes the most programs.
_NIGHTLY = pytest.param("random", marks=pytest.mark.nightly)


@pytest.mark.parametrize("defect", [*sorted(DEFECTS.keys() - {"random"}), _NIGHTLY])
def test_a_planted_defect_is_found_and_made_small(defect: str) -> None:
    found, tried = search(DEFECTS[defect], examples=300, may_draw=defect == "random")
    assert found is not None
    assert found.tried <= tried <= 300
    assert found.program.ops <= 6, found.program.source
