"""Issues of coremltools' conversion and of CoreML's partitioner."""

from __future__ import annotations

from harness import KnownIssue
from suites.known_issues.derive import issue
from suites.known_issues.findings import finding

_FP32, _ALL = "coreml:fp32", "coreml:*"

COREML: list[KnownIssue] = [
    *(
        issue(_FP32, case, target=_ALL, op=operator)
        for case, operator in (
            ("reciprocal/2d", "reciprocal"),
            ("_log_softmax/large_logits", "log_softmax|_log_softmax"),
            ("rms_norm/weight", "rms_norm"),
            ("native_group_norm/groups", "native_group_norm|group_norm"),
            ("gelu/tanh", "gelu"),
            ("rsub/alpha", "rsub"),
            ("var/all", "var|std"),
            ("fill/from_tensor", "fill"),
            ("any/fp32_keepdim", "any"),
            ("atan2/axes", "atan2"),
        )
    ),
    finding(
        "CoreML cannot fold constants to a number",
        "`reshape` to one element in place of `squeeze`, and a float32 constant",
        target=_ALL,
        stage="lower",
        error="Types should have zero-rank ndarray input|Unable to convert type float16",
    ),
]
