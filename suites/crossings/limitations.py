"""Limitations of crossings."""

from __future__ import annotations

from harness import Limitation

_ARM = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/arm/"

LIMITATIONS: list[Limitation] = [
    Limitation(
        case="crossing_index/accumulate_broadcast_*",
        target="tosa:fp",
        reason="IndexPutSupported accepts index tensors of any rank. RewriteIndexPutPass takes the "
        "first size of their broadcast shape as the number of writes, and then reshapes the flat "
        "indices, which are more, to that size.",
        link=_ARM + "_passes/rewrite_index_put_pass.py",
        stage="lower",
        error="is invalid for input of size",
    ),
    Limitation(
        case="crossing_index/accumulate_apart_*",
        target="tosa:fp",
        reason="AccumulateIndexPutPass reads the old elements by index.Tensor with the same "
        "indices, None included. DecomposeIndexTensorToGatherPass refuses None.",
        link=_ARM + "_passes/accumulate_index_put_pass.py",
        stage="lower",
        error="None indices are not supported",
    ),
]
