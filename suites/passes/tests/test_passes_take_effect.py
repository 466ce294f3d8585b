"""A pass that changes a program's values changes the outputs of every backend, however the pass is
given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from executorch.exir.dialects._ops import ops
from executorch.exir.pass_base import ExportPass

from harness import Case, LowerOptions, Tester

_SUM, _DIFFERENCE = ops.edge.aten.add.Tensor, ops.edge.aten.sub.Tensor


class SumsAreDifferences(ExportPass):  # type: ignore[misc]  # exir is untyped here
    def call_operator(self, op: Any, *given: Any) -> Any:
        return super().call_operator(_DIFFERENCE if op is _SUM else op, *given)


class Sum(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.add(x, y)


SUM = Case("sum", lambda: (Sum(), (torch.randn(3, 4), torch.randn(3, 4))))

Lowering = Callable[[str, list[Any]], Tester]
PATHS: dict[str, Lowering] = {
    "tester": lambda target, passes: Tester(SUM, target, transform_passes=passes).export().lower(),
    "lower": lambda target, passes: Tester(SUM, target).export().lower(transform_passes=passes),
    "transform": lambda target, passes: (
        Tester(SUM, target).export().to_edge().transform(passes).lower()
    ),
    "to_edge": lambda target, passes: (
        Tester(SUM, target).export().to_edge().lower(transform_passes=passes)
    ),
    "options": lambda target, passes: (
        Tester(SUM, target)
        .export()
        .lower(LowerOptions(Tester(SUM, target).recipe.partitioners(), passes))
    ),
}


TARGETS = ["portable:fp32", "xnnpack:fp32", "mlx:fp32", "metal:fp32", "tosa:fp"]


@pytest.mark.one_of(3)
@pytest.mark.parametrize(
    ("target", "path"),
    [
        (target, path)
        for target in TARGETS
        for path in PATHS
        # MLX's partitioner refuses operators that to_edge() decomposed.
        if not (target == "mlx:fp32" and path in ("transform", "to_edge"))
    ],
)
def test_a_marker_shows_in_the_outputs(target: str, path: str) -> None:
    tester = PATHS[path](target, [SumsAreDifferences()]).to_executorch().serialize().run().compare()
    x, y = tester.built.inputs
    (output,) = tester.execution.outputs[0]
    torch.testing.assert_close(output, x - y)
    assert tester.verdict.problem is not None
