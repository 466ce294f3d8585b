"""Rules for convolution and top-k: they read operands through MPSGraph, which ignores strides."""

from __future__ import annotations

from collections.abc import Iterator

from backends.metal.contract.call import RuntimeCall
from backends.metal.contract.require import (
    Shape,
    check_tensor,
    contiguous,
    dtype,
    has_ranks,
    rank,
    same_dtype,
    shape,
)
from backends.metal.contract.rule import (
    CONV_STRIDES,
    METAL,
    ContractRule,
    RuntimeFunction,
    SharedGraph,
    ViolationKind,
)


def _spatial(call: RuntimeCall) -> int:
    return call.tensor("weight").rank - 2


def _input_rank(call: RuntimeCall) -> str | None:
    dims, given_rank = _spatial(call), call.tensor("input").rank
    return (
        None
        if dims not in (1, 2) or given_rank in (dims + 1, dims + 2)
        else (f"rank {given_rank} with a weight of rank {dims + 2}")
    )


def _complete(call: RuntimeCall) -> bool:
    return _spatial(call) in (1, 2) and _input_rank(call) is None


def _channels(call: RuntimeCall) -> str | None:
    if not _complete(call) or call.integer("transposed"):
        return None
    channels = call.tensor("input").sizes[-_spatial(call) - 1]
    weight_channels, groups = call.tensor("weight").sizes[1], call.integer("groups")
    if channels == weight_channels * groups:
        return None
    return f"channels {channels} are not {weight_channels} times {groups} groups"


def _results(call: RuntimeCall) -> Iterator[int]:
    dims = _spatial(call)
    for at in range(dims):
        size, kernel = call.tensor("input").sizes[at - dims], call.tensor("weight").sizes[at + 2]
        stride, padding, dilation, more = (_each(call, name)[at] for name in _MISSING)
        window = dilation * (kernel - 1) + 1
        if call.integer("transposed"):
            yield (size - 1) * stride - 2 * padding + window + more
        else:
            yield (size + 2 * padding - window) // stride + 1


# Defaults of op_convolution.mm for missing numbers; ATen repeats a single one instead.
_MISSING = {"stride": 1, "padding": 0, "dilation": 1, "output_padding": 0}


def _lengths(name: str) -> ContractRule:
    def check(call: RuntimeCall) -> str | None:
        found = call.integers(name)
        if not _complete(call) or len(found) == _spatial(call):
            return None
        if found == (_MISSING[name],):
            return None
        return f"{found} with {_spatial(call)} spatial dimensions"

    broken = "is not one number for each: the runtime uses defaults for missing numbers"
    requirement = f"one number for each spatial dimension, or {_MISSING[name]} alone"
    return ContractRule(name, requirement, broken, check, ViolationKind.DEFECT)


def _each(call: RuntimeCall, name: str) -> tuple[int, ...]:
    found = call.integers(name)
    return found + (_MISSING[name],) * (_spatial(call) - len(found))


def _positive(call: RuntimeCall) -> str | None:
    if not _complete(call) or any(len(call.integers(name)) > _spatial(call) for name in _MISSING):
        return None
    found = (*call.tensor("input").sizes[: -_spatial(call)], *_results(call))
    return None if min(found) > 0 else f"gives a result of extents {found}"


def _bias_shape(call: RuntimeCall) -> Shape:
    return (call.tensor("weight").sizes[0],)


def _key(call: RuntimeCall) -> tuple[object, ...]:
    weight = call.tensor("weight").sizes
    return (
        call.tensor("input").sizes,
        (weight[0], *weight[2:]),
        *(_each(call, name) for name in ("stride", "padding", "dilation")),
        call.integer("groups"),
        call.tensor("input").dtype,
        bool(call.integer("transposed")),
    )


def _variant(call: RuntimeCall) -> tuple[object, ...]:
    return (call.optional("bias") is not None, _each(call, "output_padding"))


def _no_transpose(call: RuntimeCall) -> str | None:
    return "1" if call.integer("transposed") else None


def _dim(call: RuntimeCall) -> str | None:
    ndim, dim = call.tensor("self").rank, call.integer("dim")
    return None if -ndim <= dim < ndim else f"{dim} with rank {ndim}"


def _k(call: RuntimeCall) -> str | None:
    if _dim(call) is not None:
        return None
    size, k = call.tensor("self").sizes[call.integer("dim")], call.integer("k")
    return None if 1 <= k <= size else f"{k} of {size}"


CONVOLUTION = RuntimeFunction(
    "aoti_torch_mps_convolution",
    (
        *("input", "weight", "bias", "stride", "stride_len", "padding", "padding_len"),
        *("dilation", "dilation_len", "transposed", "output_padding", "output_padding_len"),
        "groups",
    ),
    f"{METAL}/ops/op_convolution.mm",
    (
        rank("weight", 3, 4),
        ContractRule("input", "rank of weight, or one less", "does not go together", _input_rank),
        dtype("input"),
        same_dtype("weight", "input"),
        same_dtype("bias", "input"),
        contiguous("input", link=CONV_STRIDES),
        contiguous("weight", link=CONV_STRIDES),
        ContractRule("input", "channels of weight times groups", "", _channels),
        *(_lengths(name) for name in ("stride", "padding", "dilation")),
        ContractRule("input", "a result that is not empty", "", _positive),
        ContractRule(
            "transposed",
            "0",
            "is ignored: the runtime uses the weight's first dimension as output channels and "
            "computes an ordinary convolution",
            _no_transpose,
            ViolationKind.DEFECT,
        ),
        shape("bias", "shape (output channels)", _bias_shape),
        ContractRule(
            "bias",
            "none",
            "is added along the last dimension of the result, not along the channels",
            check_tensor("bias", lambda bias: f"shape {bias.sizes}"),
            ViolationKind.DEFECT,
        ),
    ),
    shared=SharedGraph(
        _key,
        _variant,
        ContractRule(
            "bias",
            "given, or not, in all calls with equal sizes; output_padding likewise",
            "differs from an earlier call's, whose graph is reused",
            lambda call: None,
            ViolationKind.DEFECT,
        ),
    ),
    note="1-d and 2-d, batched or not; groups; result always contiguous",
)
TOPK = RuntimeFunction(
    "aoti_torch_mps_topk",
    ("self", "k", "dim", "largest", "sorted"),
    f"{METAL}/ops/op_topk.mm",
    (
        dtype("self"),
        ContractRule("dim", "a dimension of self", "is out of range", _dim),
        ContractRule("k", "from 1 to the size of dim", "is out of range", _k),
        contiguous("self"),
    ),
    note="always sorted; indices int64; waits for the GPU",
)


def _expected(call: RuntimeCall) -> Shape | None:
    return call.integers("sizes")


def _expected_strides(call: RuntimeCall) -> str | None:
    if not has_ranks(call, {"tensor": len(call.integers("strides"))}):
        return None
    tensor, want = call.tensor("tensor"), call.integers("strides")
    same = all(
        size == 1 or stride == other
        for size, stride, other in zip(tensor.sizes, tensor.strides, want, strict=True)
    )
    return None if same else f"strides {tensor.strides} are not {want}"


ASSERTION = RuntimeFunction(
    "assert_size_stride",
    ("tensor", "sizes", "strides", "name"),
    f"{METAL}/ops/op_convolution.mm",
    (
        shape(
            "tensor", "the shape that the code was compiled for", _expected, ViolationKind.DEFECT
        ),
        ContractRule(
            "tensor",
            "the strides that the code was compiled for",
            "as the generated code assumes",
            _expected_strides,
            ViolationKind.DEFECT,
            CONV_STRIDES,
            function="aoti_torch_mps_convolution",
        ),
    ),
    note="checks the result of a fallback kernel; a device checks it only if "
    "AOTI_RUNTIME_CHECK_INPUTS is set",
)
FUNCTIONS = (CONVOLUTION, TOPK, ASSERTION)
