"""What a delegate makes of fake tensors is what the module of its program would."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import torch
from executorch.exir.delegate import executorch_call_delegate

from harness import Case, Tester
from harness.pipeline.route import lower
from harness.pipeline.speed.passes import delegate_calls


class Plain(torch.nn.Module):
    """Weights, a buffer, a number, and two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.register_buffer("scale", torch.rand(4, 1, 1), persistent=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.relu(self.conv(x)) * self.scale
        return y.clamp(max=2), y.mean((2, 3))


PLAIN = Case("test/plain", lambda: (Plain(), (torch.randn(2, 3, 8, 8),)))
TARGETS = ["xnnpack:fp32", "tosa:fp", "mlx:fp32", "xnnpack:int8"]


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The delegates whose programs upstream makes modules of."""
    made: list[Any] = []
    upstream = delegate_calls._upstream

    def noted(lowered: Any, *args: Any) -> Any:
        made.append(lowered)
        return upstream(lowered, *args)

    monkeypatch.setattr(delegate_calls, "_upstream", noted)
    return made


def _delegates(case: Case, target: str) -> list[tuple[Any, list[Any]]]:
    """Of a lowered program, with the fake tensors that they are called with."""
    tester = Tester(case, target)
    lower(tester)
    module = tester.lowered.exported_program().graph_module
    return [
        (getattr(module, node.args[0].target), [given.meta["val"] for given in node.args[1:]])
        for node in module.graph.nodes
        if node.target is executorch_call_delegate
    ]


def _made(result: Any) -> Any:
    assert type(result) is tuple
    return [
        (type(one), one.shape, one.stride(), one.dtype, one.fake_mode, one.requires_grad)
        for one in result
    ]


@pytest.mark.parametrize("target", TARGETS)
def test_no_module_is_made_and_what_comes_of_it_is_the_same(
    target: str, modules: list[Any]
) -> None:
    found = _delegates(PLAIN, target)
    assert found
    assert not modules, "to_executorch walks over the delegates"
    for lowered, given in found:
        with given[0].fake_mode:
            mine = executorch_call_delegate(lowered, *given)
            assert not modules
            assert _made(mine) == _made(delegate_calls._upstream(lowered, *given))
        modules.clear()


class Kept(torch.nn.Module):
    """State that MLX's delegate writes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add_(x)
        return self.seen * 2


def test_a_delegate_that_writes_is_left_to_upstream(modules: list[Any]) -> None:
    found = _delegates(Case("test/kept", lambda: (Kept(), (torch.randn(4),))), "mlx:fp32")
    assert len(modules) == len(found) == 1


OTHERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "shape": lambda x: torch.empty(3, 3, 8, 8),
    "stride": lambda x: torch.empty_like(x, memory_format=torch.channels_last),
    "dtype": lambda x: torch.empty_like(x, dtype=torch.float64),
    "gradient": lambda x: torch.empty_like(x, requires_grad=True),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_inputs_of_another_kind_are_left_to_upstream(
    other: Callable[[torch.Tensor], Any], modules: list[Any]
) -> None:
    ((lowered, given),) = _delegates(PLAIN, "mlx:fp32")
    with given[0].fake_mode, suppress(Exception):  # guards and operators refuse most of them
        executorch_call_delegate(lowered, other(given[0]))
    assert modules == [lowered]


def test_real_tensors_are_computed(modules: list[Any]) -> None:
    ((lowered, _),) = _delegates(PLAIN, "mlx:fp32")
    made = executorch_call_delegate(lowered, torch.ones(2, 3, 8, 8))
    assert not modules, "what stands in is for fake tensors alone"
    assert all(type(one) is torch.Tensor for one in made)
