"""A pass that makes a cell red is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from executorch.exir.dialects._ops import ops
from executorch.exir.pass_base import ExportPass, PassResult

from harness import Case, Status, Target, UsageError
from harness.model import registry
from harness.model.recipe import KnownPass
from harness.tracing.pass_blame import blame_passes

CASE = Case("sine", lambda: (torch.nn.Sequential(torch.nn.Tanh()), (torch.randn(4),)))


class _Counting(ExportPass):  # type: ignore[misc]
    """Adds a multiple of its own value to every node."""

    off = 0.0

    def call(self, graph_module: torch.fx.GraphModule) -> PassResult:
        for node in list(graph_module.graph.nodes):
            if node.op == "call_function" and self.off:
                with graph_module.graph.inserting_after(node):
                    add = ops.edge.aten.add.Tensor
                    more = graph_module.graph.call_function(add, (node, node))
                node.replace_all_uses_with(
                    more, delete_user_cb=lambda user, its=more: user is not its
                )
        graph_module.recompile()
        return super().call(graph_module)


class HarmlessPass(_Counting):
    """Changes nothing."""


class WrongPass(_Counting):
    """Doubles."""

    off = 1.0


class AlsoWrongPass(WrongPass):
    """Doubles."""


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have portable:fp32 run some passes."""
    backend = registry.backend("portable")
    recipe = backend.recipes["fp32"]

    def give(*passes: type[Any]) -> None:
        varied = replace(recipe, transform_passes=lambda: [made() for made in passes])
        monkeypatch.setitem(backend.recipes, "fp32", varied)  # type: ignore[arg-type]

    return give


TARGET = Target.parse("portable:fp32")


def test_the_pass_is_named(given: Callable[..., None]) -> None:
    given(HarmlessPass, WrongPass)
    said: list[str] = []
    found = blame_passes(CASE, TARGET, on_progress=said.append)
    assert found.with_all.status is Status.MISMATCH
    assert found.culprits == ("wrong",)
    assert found.conclusion == "it passes without wrong"
    assert said == ["with all passes", "without passes", "without harmless", "without wrong"]


def test_several_together(given: Callable[..., None]) -> None:
    given(HarmlessPass, WrongPass, HarmlessPass, AlsoWrongPass)
    found = blame_passes(CASE, TARGET)
    assert found.culprits == ()
    assert found.first_red_prefix == "wrong"


def test_a_green_cell(given: Callable[..., None]) -> None:
    given(HarmlessPass)
    assert blame_passes(CASE, TARGET).with_none is None


def test_no_pass_causes_the_error(given: Callable[..., None]) -> None:
    given(HarmlessPass)
    fails = Case("fails", lambda: (torch.nn.Linear(3, 2), (torch.randn(4),)))
    found = blame_passes(fails, TARGET)
    assert found.with_one_left_out == ()
    assert found.conclusion.startswith("it is no pass")


def test_a_pass_that_the_target_adds(
    given: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    given(HarmlessPass)
    known = KnownPass(f"{__name__}:WrongPass", "doubles")
    monkeypatch.setattr("harness.model.variations.passes.GENERAL", {"twice": known})
    found = blame_passes(CASE, Target.parse("portable:fp32+twice"))
    assert found.culprits == ("twice",)


def test_without_passes_there_is_nothing_to_omit() -> None:
    with pytest.raises(UsageError, match="runs no passes"):
        blame_passes(CASE, TARGET)
