"""Limitations on the programs of XNNPACK's special cases."""

from __future__ import annotations

from harness import Limitation
from suites.known import copy_limitation
from suites.ops.limitations import LIMITATIONS as OPS

LIMITATIONS: list[Limitation] = [
    copy_limitation(
        OPS, "cortex_m:int8", "slice_copy/channels_last", "cat_of_*_int", target="cortex_m:*"
    ),
    Limitation(
        target="xnnpack:fp32",
        case="dropout/beside_its_operand",
        reason="RemoveCloneOpsTransform (backends/transforms/remove_clone_ops.py) removes the "
        "clone of a result although both leave the delegate, and generate_node_to_external_map "
        "(xnnpack_preprocess.py) refuses one node as two outputs "
        "(docs/findings/xnnpack_value_and_clone.py). Workaround: "
        "`self.dropout(features) * 1.0`.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/transforms/"
        "remove_clone_ops.py",
        stage="lower",
        error="is already in the inputs",
    ),
]
