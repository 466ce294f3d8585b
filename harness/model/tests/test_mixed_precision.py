"""The rounding model of a program of several delegates allows what the coarsest of them allows."""

from __future__ import annotations

from harness.model.mixed_recipe import mix_precisions
from harness.model.precision import Precision


def test_the_coarsest_arithmetic_counts() -> None:
    own, half, brain = (
        Precision(),
        Precision(arithmetic="float16"),
        Precision(arithmetic="bfloat16"),
    )
    assert mix_precisions([own, own]).arithmetic is None
    assert mix_precisions([half, own]).arithmetic == "float16"
    assert mix_precisions([half, brain, own]).arithmetic == "bfloat16"
    assert mix_precisions([own, Precision(safety=9.0)]).safety == 9.0
