"""Arm's decomposition of attention, which runs before the edge dialect decomposes it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from executorch.backends.arm._passes.decompose_sdpa_pass import (
    DecomposeScaledDotProductAttentionPass,
)

from harness.model.precision import Precision
from harness.model.recipe import KnownPass
from harness.numerics.oracle import compute_reference
from harness.passes.equality import describe_difference
from harness.passes.interpreter import observe
from harness.passes.pass_log import ProgramRewrite
from harness.passes.properties import PassCheck, check_properties, count_changed_operators
from suites.passes.graphs import Function

attend = torch.nn.functional.scaled_dot_product_attention
SHAPES = ((1, 4, 5, 8), (1, 4, 6, 8), (1, 4, 6, 8))
KNOWN = KnownPass("", "takes attention apart", rounds=True)

CALLS: dict[str, tuple[Callable[..., torch.Tensor], tuple[tuple[int, ...], ...]]] = {
    "plain": (attend, SHAPES),
    "scaled": (lambda q, k, v: attend(q, k, v, scale=0.3), SHAPES),
    "added mask": (lambda q, k, v, mask: attend(q, k, v, attn_mask=mask), (*SHAPES, (5, 6))),
    "bool mask": (lambda q, k, v, mask: attend(q, k, v, attn_mask=mask > -1), (*SHAPES, (5, 6))),
    "causal": (lambda q, k, v: attend(q, k, v, is_causal=True), (SHAPES[1], *SHAPES[1:])),
    "grouped": (lambda q, k, v: attend(q, k, v, enable_gqa=True),
                ((1, 4, 5, 8), (1, 2, 6, 8), (1, 2, 6, 8))),
    "negative": (lambda q, k, v: attend(q * 30, k, v) - v[:, :, :5], SHAPES),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_decomposed_attention_computes_the_same(name: str) -> None:
    function, shapes = CALLS[name]
    torch.manual_seed(0)
    inputs = tuple(torch.randn(shape) for shape in shapes)
    program = torch.export.export(Function(function), inputs)
    rewriting = ProgramRewrite.from_passes(
        program, lambda: [DecomposeScaledDotProductAttentionPass()]
    )
    assert count_changed_operators(rewriting)["aten.scaled_dot_product_attention.default"] == (1, 0)
    bound = compute_reference(Function(function), [inputs], Precision(), 0).bound
    found = check_properties(PassCheck(rewriting, [inputs], [KNOWN], {}, bounds=lambda: bound))
    broken = {one.name: one.detail for one in found if one.holds is False}
    # Its nodes have no stack trace, and its outputs have other strides, which ATen permits.
    assert broken.keys() == {"stack traces", "outputs"}, broken
    assert broken["outputs"].startswith("output 0 of call 0 has dim order"), broken
    (before,), (after,) = (observe(each, [inputs]).outputs[0] for each in
                           (rewriting.before, rewriting.after))  # fmt: skip
    assert describe_difference(before, after.contiguous(), bound[0][0]) is None
