"""The harness is tested on itself, with every case of the operator suite.

Eager execution behind the full pipeline always passes, and a wrong output never passes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.null import SPOILED_BACKEND
from harness import Case, Target, Tester
from harness.model.limitation import find_limitation
from harness.session.discovery import load_suites

OPS = Path(__file__).parents[2] / "suites" / "ops"
NULL = Target("null", "eager")
# A case that the export flow cannot lower is a limitation of null too.
CASES = [
    case
    for suite in load_suites(OPS)
    for case in suite.cases
    if find_limitation(suite.limitations, case, NULL) is None
]


def test_almost_every_case_is_included() -> None:
    every = [case for suite in load_suites(OPS) for case in suite.cases]
    assert len(CASES) > 0.99 * len(every)


@pytest.mark.one_of(48)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_eager_is_green_and_wrong_is_red(case: Case) -> None:
    tester = Tester(case, "null:eager").export().lower().to_executorch().serialize()
    verdict = tester.run().compare().verdict
    assert verdict.passed, verdict.problem
    reference = tester.reference
    tester.backend = SPOILED_BACKEND
    assert not tester.run().compare(reference).verdict.passed
