"""Rules for products with 4-bit weights: ``op_linear_4bit.mm``, ``op_gather_qmv.mm``."""

from __future__ import annotations

from backends.metal.contract.call import RuntimeCall
from backends.metal.contract.require import (
    Shape,
    contiguous,
    dtype,
    has_ranks,
    one_of,
    rank,
    same_dtype,
    shape,
)
from backends.metal.contract.rule import METAL, ContractRule, RuntimeFunction, ViolationKind

_BYTES = frozenset({"uint8"})
_STRIDED = "are not contiguous"


def _linear(call: RuntimeCall) -> tuple[int, int, int] | None:
    """Return the sizes M, K and N."""
    if not has_ranks(call, {"A": 2, "B": 2}):
        return None
    return (*call.tensor("A").sizes, call.tensor("B").sizes[0])  # type: ignore[return-value]


def _packed(call: RuntimeCall) -> Shape | None:
    sizes = _linear(call)
    return None if sizes is None else (sizes[2], sizes[1] // 8 * 4)


def _eights(call: RuntimeCall) -> str | None:
    sizes = _linear(call)
    return None if sizes is None or sizes[1] % 8 == 0 else f"K {sizes[1]}"


def _fours(call: RuntimeCall) -> str | None:
    sizes = _linear(call)
    if sizes is None or sizes[0] == 1 or sizes[2] % 4 == 0:
        return None
    return f"N {sizes[2]} with M {sizes[0]}"


def _whole_groups(call: RuntimeCall) -> str | None:
    sizes, group = _linear(call), call.integer("group_size")
    if sizes is None or sizes[0] == 1 or group <= 0 or sizes[1] % group == 0:
        return None
    return f"K {sizes[1]} with groups of {group}"


def _groups(call: RuntimeCall) -> Shape | None:
    sizes, group = _linear(call), call.integer("group_size")
    return None if sizes is None or group <= 0 else (sizes[2], -(-sizes[1] // group))


def _rows(argument: str) -> ContractRule:
    def check(call: RuntimeCall) -> str | None:
        sizes, tensor = _linear(call), call.tensor(argument)
        if sizes is None or tensor.rank != 2 or tensor.sizes[0] == sizes[2]:
            return None
        return f"rows {tensor.sizes[0]} are not N {sizes[2]}"

    return ContractRule(argument, "N rows", "", check)


LINEAR = RuntimeFunction(
    "aoti_torch_mps__linear_fp_act_4bit_weight",
    ("A", "B", "group_size", "S", "Z"),
    f"{METAL}/ops/op_linear_4bit.mm",
    (
        one_of("group_size", (32, 64, 128, 256)),
        *(rank(name, 2) for name in "ABSZ"),
        dtype("A"),
        dtype("B", _BYTES),
        *(same_dtype(name, "A", ViolationKind.REFUSAL) for name in "SZ"),
        *(contiguous(name, ViolationKind.REFUSAL, _STRIDED) for name in "ABSZ"),
        shape("B", "shape (N, K / 2)", _packed),
        ContractRule("A", "K a multiple of 8", "is no multiple of 8", _eights),
        ContractRule("B", "N a multiple of 4, or M = 1", "is no multiple of 4", _fours),
        *(_rows(name) for name in "SZ"),
        *(shape(name, "shape (N, K / group_size)", _groups, ViolationKind.DEFECT) for name in "SZ"),
        ContractRule(
            "A",
            "K a multiple of group_size, or M = 1",
            "is no multiple: the kernel's tiles extend into the next row",
            _whole_groups,
            ViolationKind.DEFECT,
        ),
    ),
    note="weight = code * S + Z; low nibble first",
)


def _gather(call: RuntimeCall) -> tuple[int, int, int, int] | None:
    """Return the sizes P, K, E and N."""
    if not has_ranks(call, {"X": 2, "W": 3}):
        return None
    return (*call.tensor("X").sizes, *call.tensor("W").sizes[:2])  # type: ignore[return-value]


def _experts(call: RuntimeCall) -> Shape | None:
    sizes = _gather(call)
    return None if sizes is None else (sizes[2], sizes[3], sizes[1] // 2)


def _pairs(call: RuntimeCall) -> Shape | None:
    sizes = _gather(call)
    return None if sizes is None else (sizes[0],)


def _expert_groups(call: RuntimeCall) -> Shape | None:
    sizes, group = _gather(call), call.integer("group_size")
    return None if sizes is None or group <= 0 else (sizes[2], sizes[3], sizes[1] // group)


def _scales(argument: str) -> ContractRule:
    return shape(argument, "shape (E, N, K / group_size)", _expert_groups, ViolationKind.DEFECT)


def _expert_whole(call: RuntimeCall) -> str | None:
    sizes, group = _gather(call), call.integer("group_size")
    if sizes is None or group <= 0 or sizes[1] % group == 0:
        return None
    return f"K {sizes[1]} with groups of {group}"


def _words(call: RuntimeCall) -> str | None:
    found = call.tensor("ExpertIndices").dtype
    return None if found in ("int32", "uint32") else f"dtype {found}"


GATHER = RuntimeFunction(
    "aoti_torch_mps_gather_qmv",
    ("X", "W", "S", "Z", "ExpertIndices", "group_size"),
    f"{METAL}/ops/op_gather_qmv.mm",
    (
        one_of("group_size", (32, 64, 128)),
        rank("X", 2),
        *(rank(name, 3) for name in "WSZ"),
        rank("ExpertIndices", 1),
        dtype("X"),
        dtype("W", _BYTES, ViolationKind.DEFECT),
        *(same_dtype(name, "X") for name in "SZ"),
        ContractRule(
            "ExpertIndices",
            "int32",
            "is not int32: the kernel reads 32-bit words",
            _words,
            ViolationKind.DEFECT,
        ),
        shape("W", "shape (E, N, K / 2)", _experts),
        shape("ExpertIndices", "shape (P)", _pairs),
        *(_scales(name) for name in "SZ"),
        ContractRule(
            "X",
            "K a multiple of group_size",
            "is no multiple: the kernel reads an expert's scales from wrong addresses",
            _expert_whole,
            ViolationKind.DEFECT,
        ),
        *(contiguous(name) for name in "XWSZ"),
    ),
    note="weight = code * S + Z; low nibble first; indices are not checked against E",
)
FUNCTIONS = (LINEAR, GATHER)
