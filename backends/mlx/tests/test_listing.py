"""``conform show`` prints the instructions of an MLX cell."""

from __future__ import annotations

import torch

from backends.mlx import BACKEND
from backends.mlx.execution import executor
from backends.mlx.execution.kernels import BUILDERS
from harness import Case, Tester
from harness.pipeline.route import lower


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


def test_the_inspection_reports_that_nothing_is_delegated() -> None:
    class Nothing(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cumprod(x, 0) if False else torch.bitwise_not(x)

    case = Case("test/nothing", lambda: (Nothing(), (torch.ones(3, dtype=torch.uint8),)))
    assert shown(case) == ["nothing was delegated to MLX"]


def test_the_executor_takes_builders_from_the_table() -> None:
    assert executor.BUILDERS is BUILDERS
