"""Limitations of what programs take, return and write."""

from __future__ import annotations

from harness import Limitation
from suites.crossings.build import match_rows
from suites.known import copy_limitation
from suites.metal.limitations import LIMITATIONS as METAL
from suites.ops.limitations import LIMITATIONS as OPS
from suites.quant.limitations import LIMITATIONS as QUANT
from suites.signatures.limitations import LIMITATIONS as SIGNATURES

_SOURCE = "https://github.com/pytorch/executorch/blob/v1.5.1/"


def _cases(results: str, returns: str = "*", takes: str = "*", writes: str = "*_*") -> str:
    """Globs over the cases of results, structures, inputs, and what is written in which dtype."""
    return match_rows("interface", results, returns, takes, writes)


# With two operands the program writes to their sum or product.
_GIVEN = "unused one named nested"
_OF_RESULT = _cases("slice", "*", "*", "buffer_*") + "|" + _cases("slice", "*", "same rank0")

_QUANTIZED = [
    copy_limitation(
        SIGNATURES, "tosa:int", "state/from_zero", _cases("*", "*", _GIVEN, "input_float*")
    ),
    copy_limitation(
        QUANT,
        "xnnpack:int8",
        "int_in_place/add_to_part",
        _cases("*", "*", _GIVEN, "input_float32"),
        target="xnnpack:int8|cortex_m:*",
    ),
    copy_limitation(
        QUANT,
        "xnnpack:int8",
        "int_add/number_that_is_a_sum",
        _cases("*", "*", "rank0", "*_float32"),
    ),
    copy_limitation(
        OPS,
        "cortex_m:int8",
        "_to_copy/fp32_to_fp16",
        _cases("cast", writes="*_float32"),
        target="cortex_m:*",
    ),
    copy_limitation(
        QUANT,
        "cortex_m:int8",
        "int_in_place/mul_number",
        _cases("*", writes="result_float32") + "|" + _cases("*", "*", "same", "input_float32"),
        target="cortex_m:*",
    ),
]

_TAGGED = [
    Limitation(
        target=target,
        case=cases,
        reason="The partitioner gives a parameter to the delegate that reads it, and "
        "_get_node_list_with_same_tag refuses a tagged parameter that the program returns as well. "
        "Workaround: return `parameter.clone()`, with XNNPACK and Arm.",
        link=_SOURCE + "exir/backend/backend_api.py",
        stage="lower",
        error="has user (output) which has tag (None)",
    )
    for target, cases in (
        ("xnnpack:fp32", _cases("linear", "withparameter")),
        ("tosa:fp|mlx:fp32|metal:fp32", _cases("linear add cat", "withparameter")),
        ("tosa:fp|mlx:fp32|metal:fp32", _cases("parameter", "read")),
        ("mlx:fp32|metal:fp32", _cases("parameter", "viewed")),
    )
]

INTERFACE: list[Limitation] = [
    *_QUANTIZED,
    *_TAGGED,
    copy_limitation(OPS, "tosa:fp", "relu/int32", _cases("relu", writes="*_int32")),
    copy_limitation(OPS, "metal:fp32", "_to_copy/fp32_to_fp16", _cases("cast", writes="*_float32")),
    copy_limitation(
        METAL,
        "metal:fp32",
        "cat/ten_by_columns",
        _OF_RESULT + "|" + _cases("cat", "nested", "same"),
    ),
]
