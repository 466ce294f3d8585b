"""Cells record the reasons of each backend's partitioner for its fallback nodes."""

from __future__ import annotations

import pytest
import torch

from harness import Case, Delegation, Tester, registry


class Refused(torch.nn.Module):
    """A gather, which XNNPACK has no kernel for and MLX and TOSA refuse."""

    def forward(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return torch.gather(x * 2.0, 1, index) + 1.0


def lowered(target: str) -> Delegation:
    if not registry.backend(target.partition(":")[0]).availability().available:
        pytest.skip(f"{target} is not here")
    inputs = (torch.randn(3, 4), torch.zeros(3, 2, dtype=torch.int64))
    tester = Tester(Case.from_module("refused", Refused(), inputs), target)
    tester.export()
    if tester.recipe.quantizer is not None:
        tester.quantize()
    return tester.lower().delegation


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("portable:fp32", "portable delegates nothing"),
        ("xnnpack:fp32", "the partitioner has no configuration for this operator"),
        ("mlx:fp32", "no handler for target=aten.gather.default"),
        ("tosa:fp", "aten.gather.default: index dtype torch.int64 not supported; expected int32."),
    ],
)
def test_a_fallback_node_has_its_reason(target: str, reason: str) -> None:
    taken = lowered(target)
    assert taken.undelegated_ops["aten.gather.default"] == 1
    assert taken.reasons["aten.gather.default"] == {reason: 1}
    assert set(taken.reasons) <= set(taken.undelegated_ops)


def test_nodes_at_the_border_of_an_integer_delegate_have_a_reason() -> None:
    taken = lowered("tosa:int")
    borders = {name: said for name, said in taken.reasons.items() if "quantize" in name}
    assert borders
    for name, said in borders.items():
        assert said == {
            "at the border of a delegate, and TOSA-1.0+INT has no floats":
            taken.undelegated_ops[name]
        }  # fmt: skip
