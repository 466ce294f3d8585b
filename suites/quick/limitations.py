"""Limitations of the quick suite."""

from __future__ import annotations

from harness import Limitation
from suites.known import copy_limitation
from suites.signatures.limitations import LIMITATIONS as OF_SIGNATURES

LIMITATIONS: list[Limitation] = [
    copy_limitation(OF_SIGNATURES, "tosa:int", "state/from_zero", "quick/state"),
    Limitation(
        target="coreml:fp32",
        case="quick/state",
        reason="CoreMLPartitioner refuses add with an alpha, and tag_mutated_buffer still gives "
        "the buffer that the sum is written to to the delegate that reads it. The program then "
        "writes to a buffer that it does not have.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/apple/coreml/partition/"
        "coreml_partitioner.py",
        stage="lower",
        error="does not point to a buffer that exists",
    ),
]
