"""Limitations of the VGF backend: those of Arm's lowering to TOSA, and its own."""

from __future__ import annotations

from harness import Limitation, Status
from suites.known import copy_limitation, copy_to_vgf
from suites.ops.limitations.releases import RELEASES
from suites.ops.limitations.runtime import RUNTIME
from suites.ops.limitations.tosa_both import TOSA_BOTH
from suites.ops.limitations.tosa_fp import TOSA_FP
from suites.ops.limitations.tosa_int import TOSA_INT
from suites.vgf.limitations import PLACEHOLDER

_ARM = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/arm/"
_TOSA = "https://github.com/arm/tosa-specification/blob/main/"

VGF: list[Limitation] = [
    # The converter folds 0 * x of atan and sign to 0, for infinite x too (suites/vgf/converter.py).
    *copy_to_vgf(
        (*RELEASES, *RUNTIME, *TOSA_BOTH, *TOSA_FP, *TOSA_INT),
        without="atan/saturated|sign/infinite|index_put/constant_negative",
    ),
    Limitation(
        target="vgf:fp",
        case="_to_copy/fp32_to_bool",
        reason="Arm lowers a cast from float32 to bool to a CAST in a graph of TOSA 1.0, and TOSA "
        "has this CAST since 1.1. The converter refuses it; TOSA's reference model, which is of "
        "version 1.1, computes it (docs/findings.md). Workaround: `x != 0`.",
        link=_TOSA + "tosa.xml",
        stage="lower",
        error="Vgf compiler failed",
    ),
    Limitation(
        target="vgf:fp",
        case="grid_sampler_2d/bilinear_zeros",
        reason=PLACEHOLDER,
        link=_ARM + "vgf/shaders/grid_sampler.glsl",
        stage="compare",
        error="looks 0 everywhere",
        outcome=Status.MISMATCH,
    ),
    # TOSA's reference model refuses these.
    copy_limitation(
        TOSA_INT,
        "tosa:int",
        "index/negative_indices",
        "index/negative_indices",
        target="vgf:int",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
    Limitation(
        target="vgf:fp",
        case="sqrt/special_values",
        reason="DecomposeSqrtPass turns sqrt(x) into POW(x, 0.5), and the emulation layer computes "
        "POW as GLSL's pow, which Vulkan allows the error of exp2(0.5 * log2(x)): more, the "
        "further x is from 1. The root of 1e30 is off by 5 units in the last place, where IEEE "
        "754 requires half a unit. Workaround: `x * x.rsqrt()` where x is positive and finite.",
        link=_ARM + "_passes/decompose_sqrt_pass.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
]
