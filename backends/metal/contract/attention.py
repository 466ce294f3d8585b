"""Rules for attention and the gated delta rule, which are the runtime's own Metal kernels."""

from __future__ import annotations

from collections.abc import Callable

from backends.metal.contract.call import CallTensor, RuntimeCall
from backends.metal.contract.layout import get_runtime_strides
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
    MASK_DTYPE,
    METAL,
    ContractRule,
    RuntimeFunction,
    ViolationKind,
)

HEAD_DIMS = (64, 96, 128, 256)
GATED = ((128, 128, 32, 32), (64, 64, 4, 4))
"""Sizes (Dk, Dv, Hk, Hv) that the runtime compiles the gated delta rule for."""

_QKV = {"query": 4, "key": 4, "value": 4}


def _four(argument: str) -> ContractRule:
    found = rank(argument, 4, kind=ViolationKind.DEFECT)
    text = "is not 4: the kernel reads sizes outside the array, or ignores dimensions"
    return ContractRule(argument, found.requirement, text, found.check, ViolationKind.DEFECT)


def _attention(
    check: Callable[[CallTensor, CallTensor, CallTensor], str | None],
) -> Callable[[RuntimeCall], str | None]:
    def run(call: RuntimeCall) -> str | None:
        if not has_ranks(call, _QKV):
            return None
        return check(call.tensor("query"), call.tensor("key"), call.tensor("value"))

    return run


@_attention
def _head_dim(query: CallTensor, key: CallTensor, value: CallTensor) -> str | None:
    return None if query.sizes[3] in HEAD_DIMS else f"head dim {query.sizes[3]}"


@_attention
def _groups(query: CallTensor, key: CallTensor, value: CallTensor) -> str | None:
    heads, shared = query.sizes[1], key.sizes[1]
    return None if shared and heads % shared == 0 else f"heads {shared} do not divide {heads}"


def _last_stride(argument: str) -> ContractRule:
    def check(tensor: CallTensor) -> str | None:
        return (
            None
            if not tensor.rank or get_runtime_strides(tensor)[-1] == 1
            else f"strides {tensor.strides}"
        )

    text = "do not end in 1"
    return ContractRule(argument, "last stride 1", text, check_tensor(argument, check))


def _key_shape(call: RuntimeCall) -> Shape | None:
    if not has_ranks(call, _QKV):
        return None
    batch, _, _, head = call.tensor("query").sizes
    _, heads, length, _ = call.tensor("key").sizes
    return (batch, heads, length, head)


def _mask_extents(call: RuntimeCall) -> str | None:
    mask = call.optional("attn_mask")
    if mask is None or not has_ranks(call, _QKV):
        return None
    want = (call.tensor("query").sizes[2], call.tensor("key").sizes[2])
    fits = mask.rank >= 1 and all(
        got in (1, size) for got, size in zip(mask.sizes[::-1], want[::-1], strict=False)
    )
    return None if fits else f"shape {mask.sizes} does not end in {want}, or 1"


def _mask_batch(call: RuntimeCall) -> str | None:
    """Check the mask's batch and heads: the kernel indexes head stride * (batch * heads + head)."""
    mask = call.optional("attn_mask")
    if mask is None or not has_ranks(call, _QKV) or mask.rank < 3:
        return None
    batch, heads = call.tensor("query").sizes[:2]
    lead = (1, *mask.sizes[:-2])[-2:]
    if lead == (1, 1) or lead == (batch, heads) == (1, heads):
        return None
    if lead == (batch, heads) and heads > 1:
        steps = get_runtime_strides(mask)[-4:]
        even = steps[0] == heads * steps[1]
        return None if even else f"strides {mask.strides} do not step evenly over all heads"
    return f"shape {mask.sizes} with {batch} x {heads} batches and heads"


def _causal(call: RuntimeCall) -> str | None:
    if not has_ranks(call, _QKV) or not call.integer("is_causal"):
        return None
    queries, keys = call.tensor("query").sizes[2], call.tensor("key").sizes[2]
    return None if queries == keys else f"with {queries} queries and {keys} keys"


def _no_dropout(call: RuntimeCall) -> str | None:
    return None if call.arguments["dropout_p"] == 0 else str(call.arguments["dropout_p"])


_SDPA = (
    *(_four(name) for name in _QKV),
    ContractRule("dropout_p", "0", "is not 0", _no_dropout),
    ContractRule("dropout_mask", "none", "is given", check_tensor("dropout_mask", lambda mask: "")),
    dtype("query"),
    *(same_dtype(name, "query") for name in ("key", "value")),
    same_dtype("attn_mask", "query", link=MASK_DTYPE),
    ContractRule("query", "head dim 64, 96, 128 or 256", "is not 64, 96, 128 or 256", _head_dim),
    *(_last_stride(name) for name in _QKV),
    ContractRule("key", "heads that divide query's", "", _groups, ViolationKind.DEFECT),
    shape("key", "query's batch and head dim", _key_shape, ViolationKind.DEFECT),
    shape("value", "key's shape", _key_shape, ViolationKind.DEFECT),
    ContractRule(
        "attn_mask",
        "last two sizes equal to the scores' sizes, or 1",
        "",
        _mask_extents,
        ViolationKind.DEFECT,
    ),
    ContractRule(
        "attn_mask",
        "none of batch and heads, or both in full",
        "is neither one mask for all nor one for each: the kernel reads other masks, or outside "
        "the mask",
        _mask_batch,
        ViolationKind.DEFECT,
    ),
    ContractRule(
        "is_causal",
        "as many queries as keys",
        "aligns the last query with the last key, torch the first with the first",
        _causal,
        ViolationKind.DEFECT,
    ),
)
_SDPA_PARAMETERS = (
    *("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "dropout_mask", "scale"),
)
_SDPA_NOTE = (
    "any strides but the last; the second result is never written; mask values up to -1e9 "
    "exclude a key, and a row without keys gives 0"
)


def _gated_sizes(call: RuntimeCall) -> tuple[int, int, int, int] | None:
    if not has_ranks(call, {"q": 4, "v": 4, "state": 4}):
        return None
    (_, _, key_heads, key), (_, _, heads, value) = (call.tensor(name).sizes for name in "qv")
    return (key, value, key_heads, heads)


def _gated(call: RuntimeCall) -> str | None:
    sizes = _gated_sizes(call)
    return None if sizes is None or sizes in GATED else f"Dk, Dv, Hk, Hv {sizes}"


def _gated_shape(argument: str, requirement: str, axes: str) -> ContractRule:
    def expected(call: RuntimeCall) -> Shape | None:
        sizes = _gated_sizes(call)
        if sizes is None:
            return None
        batch, time = call.tensor("q").sizes[:2]
        found = dict(zip("KVhH", sizes, strict=True)) | {"B": batch, "T": time}
        return tuple(found[axis] for axis in axes)

    return shape(argument, requirement, expected, ViolationKind.DEFECT)


FUNCTIONS = (
    RuntimeFunction(
        "aoti_torch_mps__scaled_dot_product_attention_math_for_mps",
        _SDPA_PARAMETERS,
        f"{METAL}/ops/op_sdpa.mm",
        _SDPA,
        note=_SDPA_NOTE,
    ),
    RuntimeFunction(
        "aoti_torch_mps__scaled_dot_product_attention_math_for_mps_v2",
        (*_SDPA_PARAMETERS, "enable_gqa"),
        f"{METAL}/ops/op_sdpa.mm",
        _SDPA,
        note=f"as above; enable_gqa is ignored, the numbers of heads decide; {_SDPA_NOTE}",
    ),
    RuntimeFunction(
        "aoti_torch_mps_gated_delta_rule",
        ("q", "k", "v", "g", "beta", "state"),
        f"{METAL}/ops/op_gated_delta_rule.mm",
        (
            *(rank(name, 4) for name in ("q", "v", "state")),
            dtype("q"),
            *(same_dtype(name, "q") for name in ("k", "v", "g", "beta", "state")),
            ContractRule("q", f"(Dk, Dv, Hk, Hv) in {GATED}", "have no kernel", _gated),
            _gated_shape("k", "q's shape", "BThK"),
            _gated_shape("v", "shape (B, T, Hv, Dv)", "BTHV"),
            _gated_shape("g", "shape (B, T, Hv)", "BTH"),
            _gated_shape("beta", "shape (B, T, Hv)", "BTH"),
            _gated_shape("state", "shape (B, Hv, Dv, Dk)", "BHVK"),
            *(contiguous(name) for name in ("q", "k", "v", "g", "beta", "state")),
            in_place("state"),
        ),
        note="state is updated in place",
    ),
)
