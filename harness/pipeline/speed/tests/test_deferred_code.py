"""Code of graphs that was put off is there for whoever wants it."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch

from harness.pipeline import speed
from harness.pipeline.speed.graph_code import DeferredCode


class Doubled(torch.nn.Module):
    def forward(self, x):  # torch cannot pickle annotations that are text
        return x + x


def traced() -> torch.fx.GraphModule:
    speed.install()
    return torch.fx.symbolic_trace(Doubled())


def is_put_off(module: torch.fx.GraphModule) -> bool:
    return isinstance(vars(type(module))["forward"], DeferredCode)


def use_forward(module: torch.fx.GraphModule) -> Any:
    return module(torch.ones(2)).tolist() == [2.0, 2.0]


USES: dict[str, Callable[[torch.fx.GraphModule], Any]] = {
    "call": use_forward,
    "code": lambda module: "x + x" in module.code,
    "signature": lambda module: list(inspect.signature(module.forward).parameters) == ["x"],
    "recompile": lambda module: "x + x" in module.recompile().src,
    "print": lambda module: "x + x" in str(module),
    "pickle": lambda module: use_forward(pickle.loads(pickle.dumps(module))),
    "line numbers": lambda module: bool(module._lineno_map),
    "class": lambda module: type(module).forward(module, torch.ones(1)).item() == 2.0,
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_code_is_there_for_whoever_wants_it(use: Callable[[torch.fx.GraphModule], Any]) -> None:
    module = traced()
    assert is_put_off(module)
    assert use(module)
    assert not is_put_off(module) or use is USES["recompile"]


def test_copies_put_it_off_each_for_itself() -> None:
    module = traced()
    copied = copy.deepcopy(module)
    assert use_forward(copied)
    assert is_put_off(module)
    assert not is_put_off(copied)


def test_an_edited_graph_runs_as_edited() -> None:
    module = traced()
    assert use_forward(module)
    node = next(node for node in module.graph.nodes if node.op == "call_function")
    node.target = torch.mul
    module.recompile()
    assert is_put_off(module)
    assert module(torch.full((1,), 3.0)).item() == 9.0


def test_an_attribute_that_is_not_of_the_code_is_still_missing() -> None:
    with pytest.raises(AttributeError):
        _ = traced().not_there
    assert not hasattr(torch.fx.GraphModule.__new__(torch.fx.GraphModule), "_code")
