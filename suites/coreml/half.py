"""Float16: values near its range, small values, and operators that lose them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from harness import Case
from suites.build import nn_case, op, randn, uniform, values
from suites.coreml.only import on_coreml

CASES: list[Case] = on_coreml(
    nn_case("linear/half_long_sum", lambda: nn.Linear(512, 24), randn(4, 512)),
    op("mul/half_overflows_to_infinity", lambda x: x * 4,
       values([16000.0, 16380.0, -20000.0, 1.5], 4, 15)),
    op("add/half_below_the_limit", lambda x: x + x,
       values([32000.0, -32750.0, 6e-8, 1e-5], 4, 15)),
    op("exp/half_range", torch.exp, uniform(-16.0, 11.0, 6, 16)),
    op("softmax/half_far_apart", lambda x: x.softmax(-1), uniform(-30.0, 30.0, 6, 16)),
    op("_log_softmax/half_one_dominates", lambda x: F.log_softmax(x, -1),
       values([0.0, 0.0, 50.0, 0.0, 1.0, 2.0, 0.0, 3.0], 8, 8)),
    op("rms_norm/half_large", lambda x: F.rms_norm(x, (16,), None, 1e-3),
       uniform(-200.0, 200.0, 6, 16)),
    op("mean/half_of_large_values", lambda x: x.mean(-1),
       uniform(30000.0, 60000.0, 64, 8)),
    op("convolution/half_padded", lambda x, w: F.conv2d(x, w, padding=1), randn(1, 4, 6, 7),
       randn(5, 4, 3, 3)),
    op("var/half_far_from_zero", lambda x: x.var(-1, correction=0),
       uniform(100.0, 104.0, 64, 32)),
    targets="coreml:fp16",
)  # fmt: skip
