"""What ``conform show`` prints of an MLX cell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mlx.core as mx
import pytest
import torch

from backends.mlx import BACKEND
from backends.mlx.execution import executor
from backends.mlx.execution.kernels import BUILDERS
from harness import Case, Tester, run_cell
from harness.pipeline.runner import lower


class Chain(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.tanh(self.linear(x)), dim=-1) + 1


CHAIN = Case("test/chain", lambda: (Chain(), (torch.randn(3, 6),)))


def shown(case: Case = CHAIN) -> list[str]:
    tester = Tester(case, "mlx:fp32")
    lower(tester)
    return list(BACKEND.inspect(tester.run().compare().attempt))


def test_every_instruction_is_listed_with_slots_and_shapes() -> None:
    lines = shown()
    assert lines[0].startswith("MLX delegate 0: ")
    assert any("input" in line and "f32[3, 6]" in line for line in lines)
    assert any("constant" in line and "f32[4, 6]" in line for line in lines)
    (tanh,) = [line for line in lines if " Tanh " in line]
    assert "f32[3, 4]" in tanh
    assert not any("leaves the reference" in line for line in lines)


@pytest.mark.parametrize(
    ("kind", "wrong"), [("TanhNode", mx.sin), ("SoftmaxNode", lambda x: x / 2)]
)
def test_a_mismatch_names_the_first_wrong_instruction(
    kind: str, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(node: Any) -> Any:
        def step(t: list[Any], v: list[Any]) -> None:
            t[node.out] = wrong(t[node.x])

        return step

    monkeypatch.setitem(BUILDERS, kind, build)
    assert run_cell(CHAIN, "mlx:fp32").status.value == "mismatch"
    last = shown()[-1]
    assert kind in last
    assert "leaves the reference" in last
    assert "max abs error" in last


def test_a_graph_that_was_wrong_before_is_not_blamed_on_an_instruction() -> None:
    tester = Tester(CHAIN, "mlx:fp32")
    lower(tester)
    tester.run().refer()
    reference = tester.reference
    tester.compare(replace(reference, oracle=[[r + 1 for r in reference.oracle[0]]]))
    assert "every instruction agrees" in list(BACKEND.inspect(tester.attempt))[-1]


def test_nothing_delegated_is_said() -> None:
    class Nothing(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cumprod(x, 0) if False else torch.bitwise_not(x)

    case = Case("test/nothing", lambda: (Nothing(), (torch.ones(3, dtype=torch.uint8),)))
    assert shown(case) == ["nothing was delegated to MLX"]


def test_the_executor_takes_builders_from_the_table() -> None:
    assert executor.BUILDERS is BUILDERS
