"""Attention and the gated delta rule: Metal kernels of the runtime's own."""

from __future__ import annotations

from collections.abc import Callable

from backends.metal.contract.call import Call, TensorMeta
from backends.metal.contract.layout import seen
from backends.metal.contract.require import (
    Shape,
    contiguous,
    dtype,
    given,
    in_place,
    rank,
    ranked,
    same_dtype,
    shape,
)
from backends.metal.contract.rule import MASK_DTYPE, METAL, Function, Kind, Rule

HEAD_DIMS = (64, 96, 128, 256)
GATED = ((128, 128, 32, 32), (64, 64, 4, 4))
"""Dk, Dv, Hk, Hv that the gated delta rule was compiled for."""

_QKV = {"query": 4, "key": 4, "value": 4}


def _four(argument: str) -> Rule:
    found = rank(argument, 4, kind=Kind.DEFECT)
    text = "is not 4: of 3 the last size is read from beyond the end, of others too few are used"
    return Rule(argument, found.requirement, text, found.check, Kind.DEFECT)


def _attention(
    check: Callable[[TensorMeta, TensorMeta, TensorMeta], str | None],
) -> Callable[[Call], str | None]:
    def run(call: Call) -> str | None:
        if not ranked(call, _QKV):
            return None
        return check(call.tensor("query"), call.tensor("key"), call.tensor("value"))

    return run


@_attention
def _head_dim(query: TensorMeta, key: TensorMeta, value: TensorMeta) -> str | None:
    return None if query.sizes[3] in HEAD_DIMS else f"head dim {query.sizes[3]}"


@_attention
def _groups(query: TensorMeta, key: TensorMeta, value: TensorMeta) -> str | None:
    heads, shared = query.sizes[1], key.sizes[1]
    return None if shared and heads % shared == 0 else f"heads {shared} do not divide {heads}"


def _last_stride(argument: str) -> Rule:
    def check(tensor: TensorMeta) -> str | None:
        return None if not tensor.rank or seen(tensor)[-1] == 1 else f"strides {tensor.strides}"

    text = "have no 1 in the last place"
    return Rule(argument, "last stride 1", text, given(argument, check))


def _key_shape(call: Call) -> Shape | None:
    if not ranked(call, _QKV):
        return None
    batch, _, _, head = call.tensor("query").sizes
    _, heads, length, _ = call.tensor("key").sizes
    return (batch, heads, length, head)


def _mask_extents(call: Call) -> str | None:
    mask = call.optional("attn_mask")
    if mask is None or not ranked(call, _QKV):
        return None
    want = (call.tensor("query").sizes[2], call.tensor("key").sizes[2])
    fits = mask.rank >= 1 and all(
        got in (1, size) for got, size in zip(mask.sizes[::-1], want[::-1], strict=False)
    )
    return None if fits else f"shape {mask.sizes} does not end in {want}, or 1"


def _mask_batch(call: Call) -> str | None:
    """The mask is found by head stride times (batch * heads + head): it needs all, or no, heads."""
    mask = call.optional("attn_mask")
    if mask is None or not ranked(call, _QKV) or mask.rank < 3:
        return None
    batch, heads = call.tensor("query").sizes[:2]
    lead = (1, *mask.sizes[:-2])[-2:]
    if lead == (1, 1) or lead == (batch, heads) == (1, heads):
        return None
    if lead == (batch, heads) and heads > 1:
        steps = seen(mask)[-4:]
        even = steps[0] == heads * steps[1]
        return None if even else f"strides {mask.strides} do not step evenly over all heads"
    return f"shape {mask.sizes} with {batch} x {heads} batches and heads"


def _causal(call: Call) -> str | None:
    if not ranked(call, _QKV) or not call.integer("is_causal"):
        return None
    queries, keys = call.tensor("query").sizes[2], call.tensor("key").sizes[2]
    return None if queries == keys else f"with {queries} queries and {keys} keys"


def _no_dropout(call: Call) -> str | None:
    return None if call.arguments["dropout_p"] == 0 else str(call.arguments["dropout_p"])


_SDPA = (
    *(_four(name) for name in _QKV),
    Rule("dropout_p", "0", "is not 0", _no_dropout),
    Rule("dropout_mask", "none", "is given", given("dropout_mask", lambda mask: "")),
    dtype("query"),
    *(same_dtype(name, "query") for name in ("key", "value")),
    same_dtype("attn_mask", "query", link=MASK_DTYPE),
    Rule("query", "head dim 64, 96, 128 or 256", "is not 64, 96, 128 or 256", _head_dim),
    *(_last_stride(name) for name in _QKV),
    Rule("key", "heads that divide query's", "", _groups, Kind.DEFECT),
    shape("key", "query's batch and head dim", _key_shape, Kind.DEFECT),
    shape("value", "key's shape", _key_shape, Kind.DEFECT),
    Rule("attn_mask", "last two sizes those of the scores, or 1", "", _mask_extents, Kind.DEFECT),
    Rule(
        "attn_mask",
        "none of batch and heads, or both in full",
        "is neither one for all nor one each: other batches' masks, or memory beyond, are read",
        _mask_batch,
        Kind.DEFECT,
    ),
    Rule(
        "is_causal",
        "as many queries as keys",
        "aligns the last query with the last key, torch the first with the first",
        _causal,
        Kind.DEFECT,
    ),
)
_SDPA_PARAMETERS = (
    *("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "dropout_mask", "scale"),
)
_SDPA_NOTE = (
    "any strides but the last; the second result is never written; mask values up to -1e9 "
    "exclude a key, and a row without keys gives 0"
)


def _gated_sizes(call: Call) -> tuple[int, int, int, int] | None:
    if not ranked(call, {"q": 4, "v": 4, "state": 4}):
        return None
    (_, _, key_heads, key), (_, _, heads, value) = (call.tensor(name).sizes for name in "qv")
    return (key, value, key_heads, heads)


def _gated(call: Call) -> str | None:
    sizes = _gated_sizes(call)
    return None if sizes is None or sizes in GATED else f"Dk, Dv, Hk, Hv {sizes}"


def _gated_shape(argument: str, requirement: str, axes: str) -> Rule:
    def expected(call: Call) -> Shape | None:
        sizes = _gated_sizes(call)
        if sizes is None:
            return None
        batch, time = call.tensor("q").sizes[:2]
        found = dict(zip("KVhH", sizes, strict=True)) | {"B": batch, "T": time}
        return tuple(found[axis] for axis in axes)

    return shape(argument, requirement, expected, Kind.DEFECT)


FUNCTIONS = (
    Function(
        "aoti_torch_mps__scaled_dot_product_attention_math_for_mps",
        _SDPA_PARAMETERS,
        f"{METAL}/ops/op_sdpa.mm",
        _SDPA,
        note=_SDPA_NOTE,
    ),
    Function(
        "aoti_torch_mps__scaled_dot_product_attention_math_for_mps_v2",
        (*_SDPA_PARAMETERS, "enable_gqa"),
        f"{METAL}/ops/op_sdpa.mm",
        _SDPA,
        note=f"as above; enable_gqa is ignored, heads tell; {_SDPA_NOTE}",
    ),
    Function(
        "aoti_torch_mps_gated_delta_rule",
        ("q", "k", "v", "g", "beta", "state"),
        f"{METAL}/ops/op_gated_delta_rule.mm",
        (
            *(rank(name, 4) for name in ("q", "v", "state")),
            dtype("q"),
            *(same_dtype(name, "q") for name in ("k", "v", "g", "beta", "state")),
            Rule("q", f"(Dk, Dv, Hk, Hv) in {GATED}", "have no kernel", _gated),
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
