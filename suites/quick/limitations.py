"""Limitations of the quick suite."""

from __future__ import annotations

from harness import Limitation
from suites.known import copy_limitation
from suites.ops.limitations import LIMITATIONS as OF_OPS
from suites.quant.limitations import LIMITATIONS as OF_QUANT
from suites.signatures.limitations import LIMITATIONS as OF_SIGNATURES

LIMITATIONS: list[Limitation] = [
    copy_limitation(OF_SIGNATURES, "tosa:int", "state/from_zero", "quick/state"),
    copy_limitation(
        OF_OPS, "openvino:fp32", "linear/dynamic_sequence", "quick/attention", target="openvino:*"
    ),
    copy_limitation(OF_QUANT, "openvino:int8", "int_island/layer_norm", "quick/classifier"),
]
