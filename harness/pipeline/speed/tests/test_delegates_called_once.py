"""What comes of a delegate in a walk is what upstream has, and asked once of graphs alike."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from torch._higher_order_ops import executorch_call_delegate
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import export

from harness.pipeline import speed
from harness.pipeline.speed import faked


class _Split(torch.nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((4,), factor))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(x), x.double().float().mul(self.weight)


def _lowered(module: torch.nn.Module, *inputs: torch.Tensor) -> Any:
    program = to_edge_transform_and_lower(
        export(module.eval(), inputs), partitioner=[XnnpackPartitioner()]
    )
    modules = program.exported_program().graph_module.children()
    return [each for each in modules if type(each).__name__ == "LoweredBackendModule"]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The delegates of which upstream is asked to call the program."""
    speed.install()
    found: list[Any] = []
    upstream = faked._call_delegate

    def noted(lowered: Any, *args: Any) -> Any:
        found.append(lowered)
        return upstream(lowered, *args)

    monkeypatch.setattr(faked, "_call_delegate", noted)
    monkeypatch.setattr(faked, "_called", faked.Known())
    return found


def _call(lowered: Any, *inputs: torch.Tensor) -> Any:
    mode = FakeTensorMode()
    given = [mode.from_tensor(each) for each in inputs]
    with mode:
        return mode, executorch_call_delegate(lowered, *given)


def _kinds(mode: FakeTensorMode, results: Any) -> list[Any]:
    assert all(each.fake_mode is mode for each in results)
    return [(each.shape, each.stride(), each.dtype, each.device) for each in results]


def test_delegates_alike_are_called_once(asked: list[Any]) -> None:
    x = torch.randn(2, 4)
    (one,), (other,) = _lowered(torch.nn.ReLU(), x), _lowered(torch.nn.ReLU(), x)
    asked.clear()
    faked._called.clear()
    first, again, copied = (_call(each, x) for each in (one, other, copy.deepcopy(one)))
    assert asked == [one]
    assert _kinds(*first) == _kinds(*again) == _kinds(*copied)
    assert _kinds(*first) == _kinds(first[0], faked._call_delegate(one, *_fake(first[0], x)))
    assert again[1][0] is not copied[1][0]


def _fake(mode: FakeTensorMode, *inputs: torch.Tensor) -> list[Any]:
    return [mode.from_tensor(each) for each in inputs]


def test_others_are_asked_for_themselves(asked: list[Any]) -> None:
    x = torch.randn(2, 4)
    (relu,), (tanh,) = _lowered(torch.nn.ReLU(), x), _lowered(torch.nn.Tanh(), x)
    (wide,) = _lowered(torch.nn.ReLU(), torch.randn(2, 5))
    asked.clear()
    faked._called.clear()
    for each, given in ((relu, x), (tanh, x), (wide, torch.randn(2, 5))):
        _call(each, given)
    assert asked == [relu, tanh, wide]


def test_a_program_that_writes_is_called_each_time(asked: list[Any]) -> None:
    x = torch.randn(2, 4)
    (relu,) = _lowered(torch.nn.ReLU(), x)
    signature = relu.original_module.graph_signature
    assert faked._returns_alone(relu.original_module)
    signature.output_specs[0].kind = torch.export.graph_signature.OutputKind.BUFFER_MUTATION
    signature.output_specs[0].target = "state"
    assert not faked._returns_alone(relu.original_module)


def test_weights_of_other_values_make_results_of_the_same_kind(asked: list[Any]) -> None:
    x = torch.randn(2, 4)
    ones, twos = _lowered(_Split(1.0), x), _lowered(_Split(2.0), x)
    assert ones
    assert len(ones) == len(twos)
    for one, two in zip(ones, twos, strict=True):
        inputs = [
            node.meta["val"]
            for node in one.original_module.graph.nodes
            if node.name in one.original_module.graph_signature.user_inputs
        ]
        given = [torch.zeros(each.shape, dtype=each.dtype) for each in inputs]
        assert _kinds(*_call(one, *given)) == _kinds(*_call(two, *given))
