"""Types that are registered as pytrees do not change a module."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensor
from torch.utils import _pytree

from harness import Case, run_cell
from harness.pipeline import case_exporter, stages

NEW = """
from torch.utils import _pytree

class New:
    pass

_pytree.register_pytree_node(
    New, lambda it: ([], None), lambda values, context: New(), serialized_type_name="tests.New"
)
"""


class Box:
    """Holds a module, as a cache holds its layers."""

    def __init__(self, held: torch.nn.Module) -> None:
        self.held = held


class Boxed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.box = Box(self.linear)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.box.held(x)


def _flatten(box: Box) -> tuple[list[torch.Tensor], Any]:
    return [box.held.weight, box.held.bias], None


def _unflatten(values: Any, context: Any) -> Box:
    held = torch.nn.Linear(4, 4)
    del held.weight, held.bias
    held.weight, held.bias = values
    return Box(held)


def _register() -> None:
    _pytree.register_pytree_node(Box, _flatten, _unflatten, serialized_type_name="tests.Box")


@contextmanager
def _registered() -> Iterator[None]:
    _register()
    try:
        yield
    finally:
        _pytree._deregister_pytree_node(Box)


def test_an_exported_module_keeps_its_attributes() -> None:
    module = Boxed()
    box = module.box
    with _registered():
        stages.export(module, (torch.randn(2, 4),))
    assert module.box is box
    assert not isinstance(module.box.held.weight, FakeTensor)


def test_a_module_that_holds_such_a_type_is_judged() -> None:
    torch.manual_seed(0)
    case = Case("boxed", lambda: (Boxed(), (torch.randn(2, 4),)))
    with _registered():
        cell = run_cell(case, "portable:fp32")
    assert cell.status.value == "passed", cell.error


def test_types_that_an_exporter_registers_are_removed_afterwards() -> None:
    with case_exporter._unregister_new_pytrees():
        _register()
        assert Box in _pytree.SUPPORTED_NODES
    assert Box not in _pytree.SUPPORTED_NODES


def test_a_type_of_a_module_that_was_imported_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conform_new_type.py").write_text(NEW)
    monkeypatch.syspath_prepend(tmp_path)
    with case_exporter._unregister_new_pytrees():
        kind = importlib.import_module("conform_new_type").New
    assert kind in _pytree.SUPPORTED_NODES
    _pytree._deregister_pytree_node(kind)
