"""Limitations of the quick suite."""

from __future__ import annotations

from harness import Limitation
from suites.known import copy_limitation, copy_to_vgf
from suites.ops.limitations import LIMITATIONS as OF_OPS
from suites.quant.limitations import LIMITATIONS as OF_QUANT
from suites.signatures.limitations import LIMITATIONS as OF_SIGNATURES

LIMITATIONS: list[Limitation] = [
    copy_limitation(OF_SIGNATURES, "tosa:int", "state/from_zero", "quick/state"),
    copy_limitation(OF_QUANT, "cortex_m:int8", "int_in_place/add_to_part", "quick/state"),
    copy_limitation(
        OF_OPS, "openvino:fp32", "linear/dynamic_sequence", "quick/attention", target="openvino:*"
    ),
    copy_limitation(OF_QUANT, "openvino:int8", "int_island/layer_norm", "quick/classifier"),
    Limitation(
        target="coreml:fp32|coreml:fp16",
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
LIMITATIONS += copy_to_vgf(LIMITATIONS)
