"""Issues of the Cortex-M backend: its quantizer, passes and layouts."""

from __future__ import annotations

from harness import KnownIssue
from suites.known_issues.derive import MISMATCH, issue
from suites.known_issues.findings import finding

_ALL = "cortex_m:*"

CORTEX_M: list[KnownIssue] = [
    finding(
        "Cortex-M takes numbers for codes",
        "keep these operators out of the quantized part, or compare with a tensor",
        target=_ALL, stage="compare", outcome=MISMATCH,
        op="ge|gt|le|lt|eq|ne|full|full_like|fill|where|masked_fill|index_put",
    ),
    issue("cortex_m:int8", "int_linear/two_users", op="relu"),
    issue("cortex_m:int8", "matmul/parameter", op="matmul", error="'to_tensor'"),
    issue("cortex_m:int8", "int_in_place/hardsigmoid", op="hardsigmoid", error=""),
    # A channel of one value is that of a bias.
    issue("cortex_m:int8", "int_conv2d/channel_of_zeros",
          error=r"rounding the values of channel.* covers (\S+) to \1 is"),
    issue("cortex_m:int8", "pixel_shuffle/factor3",
          op="view|reshape|pixel_shuffle|pixel_unshuffle|flatten"),
    issue("cortex_m:int8", "cat/channels_last", op="cat|pad|constant_pad_nd"),
]  # fmt: skip
