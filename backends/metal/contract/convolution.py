"""Convolution and top-k, which read their operands through MPSGraph: no strides."""

from __future__ import annotations

from collections.abc import Iterator

from backends.metal.contract.call import Call
from backends.metal.contract.require import (
    Shape,
    contiguous,
    dtype,
    given,
    rank,
    ranked,
    same_dtype,
    shape,
)
from backends.metal.contract.rule import CONV_STRIDES, METAL, Function, Kind, Rule, SharedGraph


def _spatial(call: Call) -> int:
    return call.tensor("weight").rank - 2


def _input_rank(call: Call) -> str | None:
    dims, given_rank = _spatial(call), call.tensor("input").rank
    return (
        None
        if dims not in (1, 2) or given_rank in (dims + 1, dims + 2)
        else (f"rank {given_rank} with a weight of rank {dims + 2}")
    )


def _complete(call: Call) -> bool:
    return _spatial(call) in (1, 2) and _input_rank(call) is None


def _channels(call: Call) -> str | None:
    if not _complete(call) or call.integer("transposed"):
        return None
    channels = call.tensor("input").sizes[-_spatial(call) - 1]
    asked, groups = call.tensor("weight").sizes[1], call.integer("groups")
    if channels == asked * groups:
        return None
    return f"channels {channels} are not {asked} times {groups} groups"


def _results(call: Call) -> Iterator[int]:
    dims = _spatial(call)
    for at in range(dims):
        size, kernel = call.tensor("input").sizes[at - dims], call.tensor("weight").sizes[at + 2]
        stride, padding, dilation, more = (_each(call, name)[at] for name in _MISSING)
        window = dilation * (kernel - 1) + 1
        if call.integer("transposed"):
            yield (size - 1) * stride - 2 * padding + window + more
        else:
            yield (size + 2 * padding - window) // stride + 1


# What op_convolution.mm takes for a number that is not there; ATen repeats the only one.
_MISSING = {"stride": 1, "padding": 0, "dilation": 1, "output_padding": 0}


def _lengths(name: str) -> Rule:
    def check(call: Call) -> str | None:
        found = call.integers(name)
        if not _complete(call) or len(found) == _spatial(call):
            return None
        if found == (_MISSING[name],):
            return None
        return f"{found} with {_spatial(call)} spatial dimensions"

    broken = "is not one number each: the last ones are taken as no stride, padding or dilation"
    asked = f"one number for each spatial dimension, or {_MISSING[name]} alone"
    return Rule(name, asked, broken, check, Kind.DEFECT)


def _each(call: Call, name: str) -> tuple[int, ...]:
    found = call.integers(name)
    return found + (_MISSING[name],) * (_spatial(call) - len(found))


def _positive(call: Call) -> str | None:
    if not _complete(call) or any(len(call.integers(name)) > _spatial(call) for name in _MISSING):
        return None
    found = (*call.tensor("input").sizes[: -_spatial(call)], *_results(call))
    return None if min(found) > 0 else f"gives a result of extents {found}"


def _bias_shape(call: Call) -> Shape:
    return (call.tensor("weight").sizes[0],)


def _key(call: Call) -> tuple[object, ...]:
    weight = call.tensor("weight").sizes
    return (
        call.tensor("input").sizes,
        (weight[0], *weight[2:]),
        *(_each(call, name) for name in ("stride", "padding", "dilation")),
        call.integer("groups"),
        call.tensor("input").dtype,
        bool(call.integer("transposed")),
    )


def _variant(call: Call) -> tuple[object, ...]:
    return (call.optional("bias") is not None, _each(call, "output_padding"))


def _no_transpose(call: Call) -> str | None:
    return "1" if call.integer("transposed") else None


def _dim(call: Call) -> str | None:
    ndim, dim = call.tensor("self").rank, call.integer("dim")
    return None if -ndim <= dim < ndim else f"{dim} with rank {ndim}"


def _k(call: Call) -> str | None:
    if _dim(call) is not None:
        return None
    size, k = call.tensor("self").sizes[call.integer("dim")], call.integer("k")
    return None if 1 <= k <= size else f"{k} of {size}"


CONVOLUTION = Function(
    "aoti_torch_mps_convolution",
    (
        *("input", "weight", "bias", "stride", "stride_len", "padding", "padding_len"),
        *("dilation", "dilation_len", "transposed", "output_padding", "output_padding_len"),
        "groups",
    ),
    f"{METAL}/ops/op_convolution.mm",
    (
        rank("weight", 3, 4),
        Rule("input", "rank of weight, or one less", "does not go together", _input_rank),
        dtype("input"),
        same_dtype("weight", "input"),
        same_dtype("bias", "input"),
        contiguous("input", link=CONV_STRIDES),
        contiguous("weight", link=CONV_STRIDES),
        Rule("input", "channels of weight times groups", "", _channels),
        *(_lengths(name) for name in ("stride", "padding", "dilation")),
        Rule("input", "a result that is not empty", "", _positive),
        Rule(
            "transposed",
            "0",
            "is ignored: the weight's first dimension is taken for the output channels, and an "
            "ordinary convolution is computed",
            _no_transpose,
            Kind.DEFECT,
        ),
        shape("bias", "shape (output channels)", _bias_shape),
        Rule(
            "bias",
            "none",
            "is added along the last dimension of the result, not along the channels",
            given("bias", lambda bias: f"shape {bias.sizes}"),
            Kind.DEFECT,
        ),
    ),
    shared=SharedGraph(
        _key,
        _variant,
        Rule(
            "bias",
            "given, or not, in all calls with equal sizes; output_padding likewise",
            "differs from an earlier call's, whose graph is reused",
            lambda call: None,
            Kind.DEFECT,
        ),
    ),
    note="1-d and 2-d, batched or not; groups; result always contiguous",
)
TOPK = Function(
    "aoti_torch_mps_topk",
    ("self", "k", "dim", "largest", "sorted"),
    f"{METAL}/ops/op_topk.mm",
    (
        dtype("self"),
        Rule("dim", "a dimension of self", "is out of range", _dim),
        Rule("k", "from 1 to the size of dim", "is out of range", _k),
        contiguous("self"),
    ),
    note="always sorted; indices int64; waits for the GPU",
)


def _expected(call: Call) -> Shape | None:
    return call.integers("sizes")


def _expected_strides(call: Call) -> str | None:
    if not ranked(call, {"tensor": len(call.integers("strides"))}):
        return None
    tensor, want = call.tensor("tensor"), call.integers("strides")
    same = all(
        size == 1 or stride == other
        for size, stride, other in zip(tensor.sizes, tensor.strides, want, strict=True)
    )
    return None if same else f"strides {tensor.strides} are not {want}"


ASSERTION = Function(
    "assert_size_stride",
    ("tensor", "sizes", "strides", "name"),
    f"{METAL}/ops/op_convolution.mm",
    (
        shape("tensor", "the shape that was compiled for", _expected, Kind.DEFECT),
        Rule(
            "tensor",
            "the strides that were compiled for",
            "as the code that follows takes them to be",
            _expected_strides,
            Kind.DEFECT,
            CONV_STRIDES,
            function="aoti_torch_mps_convolution",
        ),
    ),
    note="with what the fallback kernel returns; on a device checked only if "
    "AOTI_RUNTIME_CHECK_INPUTS is set",
)
FUNCTIONS = (CONVOLUTION, TOPK, ASSERTION)
