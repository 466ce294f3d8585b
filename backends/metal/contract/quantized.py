"""4-bit weights: ``op_linear_4bit.mm``, ``op_gather_qmv.mm``."""

from __future__ import annotations

from backends.metal.contract.call import Call
from backends.metal.contract.require import (
    Shape,
    contiguous,
    dtype,
    one_of,
    rank,
    ranked,
    same_dtype,
    shape,
)
from backends.metal.contract.rule import METAL, Function, Kind, Rule

_BYTES = frozenset({"uint8"})
_STRIDED = "are not contiguous"


def _linear(call: Call) -> tuple[int, int, int] | None:
    """M, K and N."""
    if not ranked(call, {"A": 2, "B": 2}):
        return None
    return (*call.tensor("A").sizes, call.tensor("B").sizes[0])  # type: ignore[return-value]


def _packed(call: Call) -> Shape | None:
    sizes = _linear(call)
    return None if sizes is None else (sizes[2], sizes[1] // 8 * 4)


def _eights(call: Call) -> str | None:
    sizes = _linear(call)
    return None if sizes is None or sizes[1] % 8 == 0 else f"K {sizes[1]}"


def _fours(call: Call) -> str | None:
    sizes = _linear(call)
    if sizes is None or sizes[0] == 1 or sizes[2] % 4 == 0:
        return None
    return f"N {sizes[2]} with M {sizes[0]}"


def _whole_groups(call: Call) -> str | None:
    sizes, group = _linear(call), call.integer("group_size")
    if sizes is None or sizes[0] == 1 or group <= 0 or sizes[1] % group == 0:
        return None
    return f"K {sizes[1]} with groups of {group}"


def _groups(call: Call) -> Shape | None:
    sizes, group = _linear(call), call.integer("group_size")
    return None if sizes is None or group <= 0 else (sizes[2], -(-sizes[1] // group))


def _rows(argument: str) -> Rule:
    def check(call: Call) -> str | None:
        sizes, tensor = _linear(call), call.tensor(argument)
        if sizes is None or tensor.rank != 2 or tensor.sizes[0] == sizes[2]:
            return None
        return f"rows {tensor.sizes[0]} are not N {sizes[2]}"

    return Rule(argument, "N rows", "", check)


LINEAR = Function(
    "aoti_torch_mps__linear_fp_act_4bit_weight",
    ("A", "B", "group_size", "S", "Z"),
    f"{METAL}/ops/op_linear_4bit.mm",
    (
        one_of("group_size", (32, 64, 128, 256)),
        *(rank(name, 2) for name in "ABSZ"),
        dtype("A"),
        dtype("B", _BYTES),
        *(same_dtype(name, "A", Kind.REFUSAL) for name in "SZ"),
        *(contiguous(name, Kind.REFUSAL, _STRIDED) for name in "ABSZ"),
        shape("B", "shape (N, K / 2)", _packed),
        Rule("A", "K a multiple of 8", "is no multiple of 8", _eights),
        Rule("B", "N a multiple of 4, or M = 1", "is no multiple of 4", _fours),
        *(_rows(name) for name in "SZ"),
        *(shape(name, "shape (N, K / group_size)", _groups, Kind.DEFECT) for name in "SZ"),
        Rule(
            "A",
            "K a multiple of group_size, or M = 1",
            "is no multiple: tiles reach into the next row",
            _whole_groups,
            Kind.DEFECT,
        ),
    ),
    note="weight = code * S + Z; low nibble first",
)


def _gather(call: Call) -> tuple[int, int, int, int] | None:
    """P, K, E and N."""
    if not ranked(call, {"X": 2, "W": 3}):
        return None
    return (*call.tensor("X").sizes, *call.tensor("W").sizes[:2])  # type: ignore[return-value]


def _experts(call: Call) -> Shape | None:
    sizes = _gather(call)
    return None if sizes is None else (sizes[2], sizes[3], sizes[1] // 2)


def _pairs(call: Call) -> Shape | None:
    sizes = _gather(call)
    return None if sizes is None else (sizes[0],)


def _expert_groups(call: Call) -> Shape | None:
    sizes, group = _gather(call), call.integer("group_size")
    return None if sizes is None or group <= 0 else (sizes[2], sizes[3], sizes[1] // group)


def _scales(argument: str) -> Rule:
    return shape(argument, "shape (E, N, K / group_size)", _expert_groups, Kind.DEFECT)


def _expert_whole(call: Call) -> str | None:
    sizes, group = _gather(call), call.integer("group_size")
    if sizes is None or group <= 0 or sizes[1] % group == 0:
        return None
    return f"K {sizes[1]} with groups of {group}"


def _words(call: Call) -> str | None:
    found = call.tensor("ExpertIndices").dtype
    return None if found in ("int32", "uint32") else f"dtype {found}"


GATHER = Function(
    "aoti_torch_mps_gather_qmv",
    ("X", "W", "S", "Z", "ExpertIndices", "group_size"),
    f"{METAL}/ops/op_gather_qmv.mm",
    (
        one_of("group_size", (32, 64, 128)),
        rank("X", 2),
        *(rank(name, 3) for name in "WSZ"),
        rank("ExpertIndices", 1),
        dtype("X"),
        dtype("W", _BYTES, Kind.DEFECT),
        *(same_dtype(name, "X") for name in "SZ"),
        Rule(
            "ExpertIndices",
            "int32",
            "is not int32: the kernel reads 32-bit words",
            _words,
            Kind.DEFECT,
        ),
        shape("W", "shape (E, N, K / 2)", _experts),
        shape("ExpertIndices", "shape (P)", _pairs),
        *(_scales(name) for name in "SZ"),
        Rule(
            "X",
            "K a multiple of group_size",
            "is no multiple: an expert's scales are not where they are read",
            _expert_whole,
            Kind.DEFECT,
        ),
        *(contiguous(name) for name in "XWSZ"),
    ),
    note="weight = code * S + Z; low nibble first; indices are not checked against E",
)
FUNCTIONS = (LINEAR, GATHER)
