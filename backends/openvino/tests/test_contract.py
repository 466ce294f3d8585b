"""Unusual but legal programs pass or have a known cause, and copies with a fault are red."""

from __future__ import annotations

import pytest

from backends.openvino import BACKEND
from backends.openvino.tests.installed import needs_openvino
from harness import check_backend
from suites.known import copy_limitation
from suites.ops.limitations.openvino import OPENVINO

_WITHOUT_DIMENSIONS = "number_from_data second_input_changed sum_of_equal_terms cond cond_again"
_KNOWN = {
    "dynamic_*": "add/dynamic_batch",
    "bfloat16_*": "add/bf16",
    "transposed_input": "add/transposed",
    **dict.fromkeys(_WITHOUT_DIMENSIONS.split(), "sum/all"),
}
"""Cases of operators with the cause, by globs over names of specimens."""


@pytest.mark.nightly
@needs_openvino
def test_it_judges_specimens_rightly() -> None:
    limitations = [
        copy_limitation(OPENVINO, "openvino:fp32", known, f"specimen/{names}")
        for names, known in _KNOWN.items()
    ]
    check_backend(BACKEND, recipes=["fp32"], limitations=limitations)
