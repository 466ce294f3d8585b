"""The harness judges itself: eager behind the full pipeline always passes, and a wrong output
never does, on every case of the operator suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.null import WRONG
from harness import Case, Tester
from harness.discovery import all_suites

OPS = Path(__file__).parents[2] / "suites" / "ops"
CASES = [case for suite in all_suites(OPS) for case in suite.cases]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_eager_is_green_and_wrong_is_red(case: Case) -> None:
    tester = Tester(case, "null:eager").export().lower().to_executorch().serialize()
    verdict = tester.run().compare().verdict
    assert verdict.passed, verdict.problem
    tester.backend = WRONG
    assert not tester.run().compare(tester.reference).verdict.passed
