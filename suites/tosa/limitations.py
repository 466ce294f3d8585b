"""Limitations of the further TOSA recipes."""

from __future__ import annotations

from harness import Limitation, Status
from suites.known import copy_limitation, copy_to_vgf
from suites.ops.limitations import LIMITATIONS as OPS

LIMITATIONS: list[Limitation] = [
    *(
        copy_limitation(OPS, "tosa:int", "masked_fill/minus_inf", case, error=error)
        for case, error in (
            ("masked_fill/to_infinity", "got 255, expected inf"),
            ("masked_fill/to_the_largest_number", "got 255, expected 3.4"),
        )
    ),
    Limitation(
        target="tosa:fp",
        case="clamp/bool_bound",
        reason="_normalize_clamp_bound (_passes/aten_to_tosa_activation_functions.py) leaves a "
        "clamp whose bound is a bool, which ClampSupported accepts. Workaround: `max=1.0`.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/arm/_passes/"
        "aten_to_tosa_activation_functions.py",
        stage="lower",
        error="Unknown operator",
    ),
    Limitation(
        target="tosa:int16",
        case="int16_rsqrt/small_variances",
        reason="The observers of get_symmetric_a16w8_quantization_config have a smallest scale of "
        "2^-12, and a table has an entry for each 128 codes (InsertTableOpsPass): all values below "
        "0.031 lie between two entries, and TOSA interpolates linearly between them "
        "(docs/findings.md). Workaround: `epsilon=2**-20` for the configuration.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/arm/_passes/"
        "insert_table_ops.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="tosa:int16",
        case="int16_add/one_outlier",
        reason="HistogramObserver._non_linear_param_search compares the errors of ranges with "
        "that of the range before, and the first with infinity: it always leaves out at least one "
        "value in 100,000, which costs up to thousands of steps of 16 bits (docs/findings.md). "
        "Workaround: `MinMaxObserver` for activations.",
        link="https://github.com/pytorch/ao/blob/v0.18.0/torchao/quantization/pt2e/observer.py",
        stage="quantize",
        error="rounding the values to its codes makes an error of",
    ),
]
LIMITATIONS += copy_to_vgf(LIMITATIONS)
