"""Limitations of buffers that a program writes."""

from __future__ import annotations

from harness import Limitation
from suites.crossings.build import match_rows
from suites.known import copy_limitation
from suites.opinfo.limitations import LIMITATIONS as OPINFO
from suites.ops.limitations import LIMITATIONS as OPS
from suites.quant.limitations import LIMITATIONS as QUANT
from suites.signatures.limitations import LIMITATIONS as SIGNATURES

_ARM = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/arm/"


def _cases(writes: str, reads: str = "*", dtypes: str = "*") -> str:
    """Globs over the cases of writes, of readers and of dtypes."""
    return match_rows("state", writes, reads, dtypes)


_IN_PLACE = "add row transposed swap"
_ROWS = "put putat accumulate indexcopy"
_PARTS = "slice row transposed"
_READ = "after before both part layer returned"
_USED = "after layer part"
_KEPT = "changed what it was given: kept of the exported program"

_FOLDED = [
    copy_limitation(SIGNATURES, "tosa:int", "state/counter", cases, target=targets, error=_KEPT)
    for targets, cases in (
        ("tosa:int", _cases("number fill")),
        ("xnnpack:int8|cortex_m:*", _cases("number fill", "both layer")),
    )
]
_FOLDED += [
    Limitation(
        target=target,
        case=cases,
        reason="torchao's ConstantFolder recognizes writes by the names copy_ and put_. What reads "
        "a buffer before another operator writes it is folded to its first value, as is a view by "
        "which the operator writes (docs/findings/torchao_folds_writes.py). Workaround: write by "
        "`copy_`.",
        link="https://github.com/pytorch/ao/blob/v0.18.0/torchao/quantization/pt2e/"
        "constant_fold.py",
        stage="quantize",
        error=error,
    )
    for target, cases, error in (
        ("tosa:int", _cases("scatter", "before both"), "changed the module before anything"),
        ("xnnpack:int8|cortex_m:*", _cases("add scatter", "before"), "conversion changed it"),
        ("xnnpack:int8", _cases("row transposed", "part"), "conversion changed it"),
    )
]
_FOLDED += [
    copy_limitation(
        SIGNATURES, "cortex_m:int8", "state/returned", _cases("copy shift where", _USED)
    ),
]

_LOST = [
    copy_limitation(SIGNATURES, "tosa:int", "state/from_zero", _cases(_IN_PLACE, _READ)),
    Limitation(
        target="tosa:int",
        case=_cases("masked"),
        reason="DecomposeMaskedFillPass, run before quantization, replaces masked_fill_ with "
        "where, which does not write, so a buffer keeps its first value "
        "(docs/findings/arm_inplace_state.py). Workaround: `self.kept.copy_(torch.where(...))`.",
        link=_ARM + "_passes/decompose_masked_fill_pass.py",
        stage="quantize",
        error="the quantizer's rewriting changed the module",
    ),
    copy_limitation(QUANT, "tosa:int", "int_in_place/copy_to_part", _cases("slice", _READ)),
    *(
        copy_limitation(QUANT, "xnnpack:int8", "int_in_place/copy_to_part", cases, target=target)
        for target, cases in (
            ("xnnpack:int8|cortex_m:*", _cases(_PARTS, "layer")),
            ("cortex_m:*", _cases(_PARTS, "part returned", "float32")),
        )
    ),
]

_ROWS_STORED = [
    copy_limitation(SIGNATURES, "tosa:int", "state/put", _cases(_ROWS)),
    copy_limitation(SIGNATURES, "cortex_m:int8", "state/put", _cases(_ROWS)),
    copy_limitation(OPS, "tosa:int", "scatter/dim0", _cases("scatter", "after part layer")),
    copy_limitation(
        SIGNATURES, "cortex_m:int8", "state/from_zero", _cases("swap", "layer returned", "float32")
    ),
    copy_limitation(
        SIGNATURES,
        "mlx:fp32",
        "state/read_before_put",
        _cases("put putat accumulate scatter", "before both"),
    ),
    copy_limitation(OPS, "cortex_m:int8", "ge/number", _cases("masked", "part layer", "float32")),
    copy_limitation(
        OPINFO, "metal:fp32", "opinfo/index_put/float32_0", _cases("accumulate", "after", "int64")
    ),
    Limitation(
        target="tosa:fp",
        case=_cases("accumulate", "*", "int32"),
        reason="IndexPutSupported takes integers in the FP profile. AccumulateIndexPutPass reads "
        "the old elements by a gather, which is of floats there.",
        link=_ARM + "_passes/accumulate_index_put_pass.py",
        stage="lower",
        error="TOSA spec TOSA-1.0+FP doesn't support integers",
    ),
]

STATE: list[Limitation] = [
    *_FOLDED,
    *_LOST,
    *_ROWS_STORED,
    copy_limitation(
        SIGNATURES,
        "mlx:fp32",
        "state/returned",
        _cases("copy add number slice row fill shift masked where swap transposed", "returned"),
    ),
    copy_limitation(SIGNATURES, "metal:fp32", "state/returned", _cases("*", "returned")),
    Limitation(
        target="mlx:fp32",
        case=_cases("indexcopy", "returned"),
        reason="The handler of index_copy binds its result to the slot of the buffer, and an "
        "output of the program has a slot already. Workaround: return `self.kept * 1`.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/mlx/builder/"
        "slot_manager.py",
        stage="lower",
        error="Slot for index_copy already set",
    ),
    copy_limitation(
        OPS,
        "tosa:fp",
        "full_like/fp32",
        _cases("fill slice", "before", "int32"),
        error="the program passes",
    ),
]
