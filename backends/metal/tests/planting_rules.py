"""Kinds of faults in generated code, as changes of its text."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Match = re.Match[str]
Place = Literal["kernel", "helper", "wrapper"]


@dataclass(frozen=True)
class Rule:
    """A kind of fault.

    Attributes:
        kind: in words.
        place: where it is looked for.
        pattern: what it changes.
        replacement: what it is changed to; a text in which groups are numbered, or a function.
    """

    kind: str
    place: Place
    pattern: str
    replacement: str | Callable[[Match], str]


def _product(match: Match) -> str:
    """A dispatch's arguments in another order."""
    first, between, second = match.groups()
    return f"{second}{between}{first}"


def _number(step: int) -> Callable[[Match], str]:
    return lambda match: f"{match[1]}{int(match[2]) + step}{match[3]}"


# fmt: off
RULES: tuple[Rule, ...] = (
    Rule("load one element on", "kernel", r"(in_ptr\d+\[)([^\]]+)\]", r"\1\2 + 1]"),
    Rule("load one element before", "kernel", r"(in_ptr\d+\[)([^\]]+)\]", r"\1\2 - 1]"),
    Rule("store one element on", "kernel", r"(out_ptr\d+\[)([^\]]+)\]", r"\1\2 + 1]"),
    Rule("strides swapped", "kernel", r"\[([a-z]\w*)( \+ \d+\*)([a-z]\w*)\]",
         lambda m: f"[{m[3]}{m[2]}{m[1]}]"),
    Rule("stride too large", "kernel", r"(\[[^\]]*?)(\d+)(\*[a-z]\w*\])", _number(1)),
    Rule("stride too small", "kernel", r"(\[[^\]]*?)(\d+)(\*[a-z]\w*\])", _number(-1)),
    Rule("index divided by less", "kernel", r"(floor_divide\(\w+, )(\d+)(\))", _number(-1)),
    Rule("index modulo less", "kernel", r"(index\)+ % \()(\d+)(\))", _number(-1)),
    Rule("constant off by a part in 100", "kernel", r"(auto tmp\d+ = )(-?\d+\.\d+)(;)",
         lambda m: f"{m[1]}{float(m[2]) * 1.01 + (float(m[2]) == 0) / 8}{m[3]}"),
    Rule("cast dropped", "kernel", r"static_cast<int>\((tmp\d+)\);", r"\1;"),
    Rule("stored through half", "kernel", r"= static_cast<float>\((tmp\d+)\);",
         r"= static_cast<float>(static_cast<half>(\1));"),
    Rule("operands of a difference swapped", "kernel", r"(tmp\w+) - (tmp[\w.]+)", r"\2 - \1"),
    Rule("operands of a quotient swapped", "kernel", r"(tmp[\w.]+) / (tmp\w+)", r"\2 / \1"),
    Rule("sum for a difference", "kernel", r"(tmp[\w.]+) - (tmp[\w.]+)", r"\1 + \2"),
    Rule("difference for a sum", "kernel", r"= (tmp\w+) \+ (tmp\w+);", r"= \1 - \2;"),
    Rule("sum for a product", "kernel", r"= (tmp\w+) \* (tmp\w+);", r"= \1 + \2;"),
    Rule("comparison turned", "kernel", r"= (tmp\w+) ([<>]) ", lambda m:
         f"= {m[1]} {'<' if m[2] == '>' else '>'} "),
    Rule("choice turned", "kernel", r"(tmp\w+ \? )(tmp\w+)( : static_cast<[^;]*>\()(tmp\w+)\)",
         lambda m: f"{m[1]}{m[4]}{m[3]}{m[2]})"),
    Rule("another function", "kernel", r"precise::(exp|rsqrt|erf)\b",
         lambda m: f"precise::{'sqrt' if m[1] == 'rsqrt' else 'tanh'}"),
    Rule("load mask missing", "kernel", r"if \(r0__linear_idx >= \d+\) break;", ""),
    Rule("load mask one late", "kernel", r"(if \(r0__linear_idx >= )(\d+)(\) break;)", _number(1)),
    Rule("load mask one early", "kernel", r"(if \(r0__linear_idx >= )(\d+)(\) break;)",
         _number(-1)),
    Rule("loop one short", "kernel", r"(r0__cnt < )(\d+)(;)", _number(-1)),
    Rule("elements of threads overlap", "kernel", r"(r0__linear_idx = )(\d+)( \* r0)", _number(-1)),
    Rule("accumulator starts elsewhere", "kernel",
         r"(float tmp_acc_\d+ = )(?:0|::c10::metal::MaxOp<float>::identity\(\));", r"\g<1>1000;"),
    Rule("accumulator overwritten", "kernel", r"(tmp_acc_\d+) \+= ", r"\1 = "),
    Rule("reduction over half the threads", "kernel", r"(c10::metal::threadgroup_\w+\(.*, )\d+\)",
         lambda m: f"{m[1]}{max(1, int(m[0][len(m[1]):-1]) // 2)})"),
    Rule("reduction over one SIMD group", "kernel", r"(c10::metal::threadgroup_\w+\(.*, )\d+\)",
         r"\g<1>32)"),
    Rule("another reduction", "kernel", r"metal::threadgroup_(sum|max|argmax|argmin)\b",
         lambda m: "metal::threadgroup_"
         + {"sum": "max", "max": "min", "argmax": "argmin", "argmin": "argmax"}[m[1]]),
    Rule("threadgroup memory too small", "kernel", r"(threadgroup \w+ \w+\[)(\d+)(\])",
         lambda m: f"{m[1]}{int(m[2]) // 2}{m[3]}"),
    Rule("kernel allows fewer threads", "kernel", r"(max_total_threads_per_threadgroup\()(\d+)(\))",
         _number(-1)),
    Rule("thread position of the other dimension", "kernel", r"thread_pos\.x", "thread_pos.y"),
    Rule("check of an index too strict", "kernel",
         r"if \(\(?(tmp\d+) < 0 \|\| \1 >= (\d+)\)?\) return;", r"if (\1 >= 1) return;"),

    Rule("barrier missing", "helper", r"::metal::threadgroup_barrier\([^;]*;", ""),
    Rule("SIMD groups of half the width", "helper", r"(\[idx /) simdgroup_size",
         r"\1 (simdgroup_size / 2)"),
    Rule("shuffle from half as far", "helper", r"i = simdgroup_size / 2", "i = simdgroup_size / 4"),
    Rule("shuffle stops early", "helper", r"i > 0; i /= 2", "i > 1; i /= 2"),
    Rule("second stage reads too few", "helper", r"(idx < \()\(size \+ simdgroup_size - 1\)",
         r"\1(size - simdgroup_size)"),

    Rule("grid too small", "wrapper", r"(dispatch_single\(handle, static_cast<uint64_t>\()(\d+)(L)",
         _number(-1)),
    Rule("grid too large", "wrapper", r"(dispatch_single\(handle, static_cast<uint64_t>\()(\d+)(L)",
         _number(1)),
    Rule("grid of fewer rows", "wrapper",
         r"(threads_array\[\] = \{static_cast<uint64_t>\()(\d+)(L)", _number(-1)),
    Rule("grid of more rows", "wrapper",
         r"(threads_array\[\] = \{static_cast<uint64_t>\()(\d+)(L)", _number(1)),
    Rule("threadgroup too narrow", "wrapper", r"(group_size_array\[\] = .*>\()(\d+)(L\)\};)",
         lambda m: f"{m[1]}{int(m[2]) // 2}{m[3]}"),
    Rule("grid transposed", "wrapper",
         r"(?<=threads_array\[\] = \{)(static_cast<\w+>\(\w+\))(, )(static_cast<\w+>\(\w+\))",
         _product),
    Rule("arguments of a kernel swapped", "wrapper",
         r"(?<=handle, 1, )(\w+)(\);\s*aoti_torch_mps_set_arg_\w+\(handle, 2, )(\w+)", _product),
    Rule("output given as input", "wrapper",
         r"(?<=handle, 0, )(\w+)(\);\s*aoti_torch_mps_set_arg_tensor\(handle, 1, )(\w+)", _product),
    Rule("argument missing", "wrapper", r"aoti_torch_mps_set_arg_tensor\(handle, 1, \w+\);", ""),
    Rule("launch dropped", "wrapper", r"aoti_torch_mps_run_command_block\([^;]*;", ""),
    Rule("dispatch dropped", "wrapper", r"aoti_torch_mps_dispatch_\w+\([^;]*;", ""),
    Rule("size of an array one less", "wrapper", r"(int_array_\d+\[\] = \{)(\d\d*)(L)",
         lambda m: f"{m[1]}{max(1, int(m[2]) - 1) if m[2] != '1' else 2}{m[3]}"),
    Rule("strides or sizes reversed", "wrapper", r"(?<=\[\] = \{)(\d+L)(, (?:\d+L, )*)(\d+L)(?=\})",
         _product),
    Rule("another dtype", "wrapper", r"cached_torch_dtype_(float32|int64)(?=, cached)", lambda m:
         f"cached_torch_dtype_{'float16' if m[1] == 'float32' else 'int32'}"),
    Rule("view at another offset", "wrapper", r"(reinterpret_tensor_wrapper\(.*?, )(\d+)(L\))",
         _number(1)),
    Rule("view with sizes for strides", "wrapper",
         r"(reinterpret_tensor_wrapper\(\w+, \d, )(int_array_\d+)(, )int_array_\d+", r"\1\2\3\2"),
    Rule("operands of a product swapped", "wrapper",
         r"(?<=mps_bmm_out\(buf0, )(\w+)(, )(\w+)(?=\))", _product),
    Rule("call of the runtime dropped", "wrapper", r"AOTI_TORCH_ERROR_CODE_CHECK\("
         r"aoti_torch_mps_(?:mm_out|bmm_out|convolution)[^;]*;", ""),
    Rule("other padding, stride or dilation", "wrapper", r"(std::array<int64_t, \d>\{)1L",
         r"\g<1>2L"),
    Rule("outputs swapped", "wrapper", r"(?<=output_handles\[0\] = )(\w+)"
         r"(\.release\(\);\s*output_handles\[1\] = )(\w+)", _product),
    Rule("dynamic size off by one", "wrapper", r"(set_arg_int\(handle, \d, )(s\d+)", r"\1\2 + 1"),
    Rule("dynamic grid too small", "wrapper",
         r"(dispatch_single\(handle, static_cast<uint64_t>\()([^;]*s\d+[^;]*)\)\);",
         r"\1\2 - 1));"),
)
# fmt: on
