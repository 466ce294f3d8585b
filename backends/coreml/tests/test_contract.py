"""Unusual but legal programs pass or have a known cause, and copies with a fault are red."""

from __future__ import annotations

import pytest

from backends.coreml import BACKEND
from harness import Limitation, check_backend
from harness.contract import SPECIMENS
from suites.known import copy_limitation
from suites.ops.limitations.coreml import COREML
from suites.signatures.limitations import LIMITATIONS as SIGNATURES

_BRANCHES = "the partitioner takes the branches' get_attr nodes (docs/findings/coreml_cond.py)"
_UNSUPPORTED = {
    "number_from_data": "exir wants a tensor for the number that the partition returns",
    "complex_output": "a model returns no complex data, and fft_rfft needs its default arguments",
    "cond*": _BRANCHES,
    "map": _BRANCHES,
    "scan": _BRANCHES,
}
_BOTH = "coreml:fp32|coreml:fp16"
_LIMITATIONS: list[Limitation] = [
    copy_limitation(COREML, "coreml:fp32", "add/dynamic_batch", "specimen/dynamic_*", target=_BOTH),
    copy_limitation(COREML, "coreml:fp32", "add/bf16", "specimen/bfloat16_*", target=_BOTH),
]
_FP32_LIMITATIONS = [
    copy_limitation(COREML, "coreml:fp32", "log/special_values", "specimen/log_at_its_ends"),
    copy_limitation(
        SIGNATURES, "coreml:fp32", "state/from_zero", "specimen/buffer|specimen/buffer_in_steps"
    ),
]


@pytest.mark.nightly
def test_it_judges_specimens_rightly() -> None:
    check_backend(
        BACKEND,
        recipes=["fp32"],
        unsupported=_UNSUPPORTED,
        limitations=[*_LIMITATIONS, *_FP32_LIMITATIONS],
    )


@pytest.mark.nightly
def test_it_judges_specimens_rightly_in_half_precision() -> None:
    # Its fault is a factor of 1.001, which differs from 1 by one unit in float16's last place.
    finer = "specimen/cancelling_addmm_wrong"
    check_backend(
        BACKEND,
        recipes=["fp16"],
        specimens=[one for one in SPECIMENS if one.case.name != finer],
        unsupported=_UNSUPPORTED,
        limitations=_LIMITATIONS,
    )
