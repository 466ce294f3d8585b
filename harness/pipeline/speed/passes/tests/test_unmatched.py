"""A search for patterns that is left out would have found none."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from executorch.backends.xnnpack._passes import convert_to_sdpa
from executorch.backends.xnnpack._passes.convert_to_sdpa import ConvertToSDPAPass
from executorch.backends.xnnpack._passes.convert_to_upsample_bilinear2d import (
    ConvertToUpsampleBilinear2d,
)
from executorch.backends.xnnpack.partition.graphs import bilinear_2d, sdpa

from harness import Case, Tester
from harness.pipeline.route import lower
from harness.pipeline.speed.passes.pattern_filter import NEEDED
from harness.pipeline.speed.tests.graphs import NET


@pytest.mark.parametrize(
    ("converting", "patterns"),
    [
        (ConvertToSDPAPass, sdpa.get_graphs),
        (ConvertToUpsampleBilinear2d, bilinear_2d.get_graphs),
    ],
)
def test_every_pattern_has_what_is_said_to_be_needed(converting: Any, patterns: Any) -> None:
    found = patterns()
    assert found
    for pattern in found:
        names = [str(node.target) for node in pattern.graph.nodes if node.op == "call_function"]
        assert any(part in name for name in names for part in NEEDED[converting])


class Attention(torch.nn.Module):
    """With a mask of two dimensions, as XNNPACK's pattern has it."""

    def forward(self, q: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)


ATTENTION = Case(
    "test/attention",
    lambda: (Attention(), (torch.randn(1, 2, 4, 8), torch.zeros(4, 4))),
)


def _program(case: Case) -> bytes:
    tester = Tester(case, "xnnpack:fp32")
    lower(tester)
    return tester.program


@pytest.mark.parametrize(("case", "searches"), [(NET, False), (ATTENTION, True)])
def test_patterns_are_made_for_a_graph_that_may_match(
    case: Case, searches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    class Patterns:
        @staticmethod
        def get_graphs() -> Any:
            asked.append(1)
            return sdpa.get_graphs()

    monkeypatch.setattr(convert_to_sdpa, "sdpa", Patterns)
    mine = _program(case)
    assert bool(asked) == searches
    for converting in NEEDED:
        monkeypatch.setattr(converting, "call", inspect.unwrap(converting.call))
    asked.clear()
    assert _program(case) == mine
    assert asked
