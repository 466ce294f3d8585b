"""A pass that would hand on every operator as it came is not walked with; any other one is."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch
from executorch.exir import pass_base
from executorch.exir.pass_base import NodeMetadata
from torch.export import export
from torch.fx import GraphModule

from harness.pipeline.speed.passes import dry_run, skipped_walks

ADD = torch.ops.aten.add.Tensor


_WHERE = "executorch.backends.arm._passes.tested"


class Arms(pass_base.ExportPass):
    """A pass that counts what it is asked."""

    def __init_subclass__(cls) -> None:
        cls.__module__ = _WHERE

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def call_operator(self, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        self.asked += 1
        return super().call_operator(op, args, kwargs, meta)


Arms.__module__ = _WHERE


class Rebuilds(Arms):
    """Hands on equal arguments in lists of its own."""

    def call_operator(self, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        same = NodeMetadata(meta.data)
        return super().call_operator(op, tuple(args), dict(kwargs), same)


class Twice(Arms):
    def call_operator(self, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        super().call_operator(op, args, kwargs, meta)
        return super().call_operator(op, args, kwargs, meta)


class Drops(Arms):
    def call_operator(self, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        return args[0]


class Changes(Arms):
    def call_operator(self, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        args = (args[0], 2.0) if op is ADD else args
        return super().call_operator(op, args, kwargs, meta)


class Marks(Arms):
    def call_operator(self, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        meta.data["mine"] = True
        return super().call_operator(op, args, kwargs, meta)


class Makes(Arms):
    """Makes a node of its own, and hides what goes wrong with it."""

    def call_operator(self, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        with contextlib.suppress(Exception):
            self.tracer.create_proxy("call_function", ADD, (args[0].proxy, 1), {})
        return super().call_operator(op, args, kwargs, meta)


class WithSubmodules(Arms):
    def call_submodule(self, graph_module: Any, inputs: Any) -> Any:
        return super().call_submodule(graph_module, inputs)


class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.relu(x + 1), x.split(2)[1]


@pytest.fixture
def traced() -> GraphModule:
    module: GraphModule = pass_base.ExportPass()(export(Net(), (torch.randn(4),)).graph_module)
    return module.graph_module  # type: ignore[return-value]


@pytest.mark.parametrize("kind", [Arms, Rebuilds])
def test_what_hands_on_all_of_it_is_not_walked_with(kind: type[Arms], traced: GraphModule) -> None:
    walking = kind()
    before = dict(vars(walking))
    assert walking(traced).graph_module is traced
    assert dict(vars(walking)) == before, "the dry run left no attribute"


@pytest.mark.parametrize("kind", [Twice, Drops, Changes, Marks, Makes])
def test_what_does_anything_is_walked_with(kind: type[Arms], traced: GraphModule) -> None:
    count = len(traced.graph.nodes)
    users = {node.name: len(node.users) for node in traced.graph.nodes}
    walking = kind()
    assert not dry_run.has_no_effect(walking, traced)
    assert {node.name: len(node.users) for node in traced.graph.nodes} == users
    assert len(traced.graph.nodes) == count
    walked = walking(traced).graph_module
    assert walked is not traced
    if kind is Makes:
        assert sum(node.target is ADD for node in walked.graph.nodes) > 1


def test_a_hook_that_is_not_rehearsed_is_walked_with(traced: GraphModule) -> None:
    kind = WithSubmodules
    assert not dry_run.supports_pass(kind, skipped_walks._find_hooks(kind))
    assert kind()(traced).graph_module is not traced


def test_somebody_elses_pass_is_not_asked(traced: GraphModule) -> None:
    class Theirs(Arms):
        pass

    Theirs.__module__ = "theirs"
    walking = Theirs()
    assert walking(traced).graph_module is not traced
    assert walking.asked == 3


def test_numbers_are_of_one_type_to_be_the_same() -> None:
    assert dry_run._are_same(([1, 2.0], {"dim": -1}), ([1, 2.0], {"dim": -1}))
    assert not dry_run._are_same((1,), (1.0,))
    assert not dry_run._are_same((1,), (True,))
    assert not dry_run._are_same([1], (1,))
    assert not dry_run._are_same({"a": 1}, {"b": 1})
    assert not dry_run._are_same(float("nan"), -float("nan"))
