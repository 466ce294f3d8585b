"""Rules for matrix products: ``op_mm.mm``, ``op_addmm.mm``, ``op_bmm.mm``."""

from __future__ import annotations

from backends.metal.contract.call import CallTensor, RuntimeCall
from backends.metal.contract.layout import get_runtime_strides, row_major
from backends.metal.contract.require import (
    Shape,
    check_tensor,
    contiguous,
    dtype,
    has_ranks,
    in_place,
    rank,
    same_dtype,
    shape,
)
from backends.metal.contract.rule import (
    METAL,
    NO_ADDMM,
    ContractRule,
    RuntimeFunction,
    SharedGraph,
    ViolationKind,
)

_WRITTEN = "are not contiguous: the result is written as if they were"


def _product(left: str) -> tuple[ContractRule, ...]:
    """Return the rules of mm and addmm for their factors; ``mat2`` may be transposed."""

    def inner(call: RuntimeCall) -> Shape | None:
        if not has_ranks(call, {left: 2, "mat2": 2}):
            return None
        return (call.tensor(left).sizes[1], call.tensor("mat2").sizes[1])

    def result(call: RuntimeCall) -> Shape | None:
        if not has_ranks(call, {left: 2, "mat2": 2}):
            return None
        return (call.tensor(left).sizes[0], call.tensor("mat2").sizes[1])

    return (
        rank(left, 2),
        rank("mat2", 2),
        dtype(left),
        same_dtype("mat2", left),
        same_dtype("out", left),
        shape("mat2", f"as many rows as {left} has columns", inner),
        shape("out", "shape (M, N)", result, ViolationKind.DEFECT),
        contiguous(left),
        contiguous("out", broken=_WRITTEN),
        in_place("out"),
    )


def _broadcasts(call: RuntimeCall) -> str | None:
    bias, out = call.tensor("self"), call.tensor("out")
    pairs = zip(bias.sizes[::-1], out.sizes[::-1], strict=False)
    fits = bias.rank <= out.rank and all(got in (1, want) for got, want in pairs)
    return None if fits else f"shape {bias.sizes} does not broadcast to {out.sizes}"


def _addmm_key(call: RuntimeCall) -> tuple[object, ...]:
    left, right, bias = (call.tensor(name) for name in ("mat1", "mat2", "self"))
    turned = get_runtime_strides(right)[0] == 1 and get_runtime_strides(right)[1] != 1
    scales = (call.arguments["beta"], call.arguments["alpha"])
    return (left.sizes, right.sizes[1], bias.rank, scales, left.dtype, turned)


def _strictly_row_major(tensor: CallTensor) -> str | None:
    strides = get_runtime_strides(tensor)
    if strides == row_major(tensor.sizes):
        return None
    # The runtime compares its own strides; report them if they differ from the wrapper's.
    stored = "" if strides == tensor.strides else f", stored as {strides},"
    return f"strides {tensor.strides}{stored}"


def _strict(argument: str) -> ContractRule:
    text = "are not exactly those of a contiguous tensor"
    check = check_tensor(argument, _strictly_row_major)
    return ContractRule(argument, "contiguous, also in dimensions of size 1", text, check)


def _bmm_shapes(argument: str, requirement: str, axes: str) -> ContractRule:
    def expected(call: RuntimeCall) -> Shape | None:
        if not has_ranks(call, {"self": 3, "mat2": 3}):
            return None
        batch, rows, inner = call.tensor("self").sizes
        extents = {"B": batch, "M": rows, "K": inner, "N": call.tensor("mat2").sizes[2]}
        return tuple(extents[axis] for axis in axes)

    return shape(argument, requirement, expected)


MM = RuntimeFunction(
    "aoti_torch_mps_mm_out",
    ("out", "self", "mat2"),
    f"{METAL}/ops/op_mm.mm",
    _product("self"),
    note="mat2 may be transposed",
)
ADDMM = RuntimeFunction(
    "aoti_torch_mps_addmm_out",
    ("out", "self", "mat1", "mat2", "beta", "alpha"),
    f"{METAL}/ops/op_addmm.mm",
    (
        *_product("mat1"),
        same_dtype("self", "mat1"),
        contiguous("self"),
        ContractRule("self", "broadcasts to (M, N)", "", _broadcasts),
    ),
    shared=SharedGraph(
        _addmm_key,
        lambda call: call.tensor("self").sizes,
        ContractRule(
            "self",
            "one shape for all calls with equal M, K, N, rank of self, beta and alpha",
            "differs from an earlier call's, whose graph is reused",
            lambda call: None,
            ViolationKind.DEFECT,
        ),
    ),
    note=f"mat2 may be transposed; absent before this release, see {NO_ADDMM}",
    since="1.5.0",
)
BMM = RuntimeFunction(
    "aoti_torch_mps_bmm_out",
    ("out", "self", "mat2"),
    f"{METAL}/ops/op_bmm.mm",
    (
        *(rank(name, 3) for name in ("self", "mat2", "out")),
        dtype("self"),
        same_dtype("mat2", "self", ViolationKind.REFUSAL),
        same_dtype("out", "self", ViolationKind.REFUSAL),
        _bmm_shapes("mat2", "shape (B, K, N)", "BKN"),
        _bmm_shapes("out", "shape (B, M, N)", "BMN"),
        *(_strict(name) for name in ("self", "mat2", "out")),
        in_place("out"),
    ),
    note="no transposed operands",
)
FUNCTIONS = (MM, ADDMM, BMM)
