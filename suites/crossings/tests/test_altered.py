"""Altered upstream functions turn crossings red."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from executorch.backends.arm.operator_support.convolution_support import ConvolutionSupported
from executorch.backends.arm.operator_support.index_put_support import IndexPutSupported
from executorch.backends.arm.operator_support.tosa_supported_operators import (
    CheckInt64InputsAndOutputs,
)

from harness import Case, Status, run_cell
from harness.session.discovery import load_suite
from suites.crossings import convolution, index

Refuses = Callable[[torch.fx.Node], bool]


def _has_different_sizes(node: torch.fx.Node) -> bool:
    sizes = {each.meta["val"].shape for each in node.args[1] if each is not None}  # type: ignore
    return len(sizes) > 1


def _is_depthwise_3d(node: torch.fx.Node) -> bool:
    weight: Any = node.args[1]
    return weight.meta["val"].dim() == 5 and weight.meta["val"].shape[1] == 1


@pytest.mark.parametrize(
    ("suite", "name", "check", "refuses", "operator"),
    [
        (
            index,
            "/put_three_int32_input_",
            IndexPutSupported,
            _has_different_sizes,
            "aten.index_put",
        ),
        (convolution, "/3d_depthwise_", ConvolutionSupported, _is_depthwise_3d, "aten.convolution"),
    ],
    ids=["index tensors of different sizes", "depthwise conv3d"],
)
def test_what_arm_refuses_is_red(
    monkeypatch: pytest.MonkeyPatch,
    suite: ModuleType,
    name: str,
    check: Any,
    refuses: Refuses,
    operator: str,
) -> None:
    case = _find_case(suite, name)
    original = check.is_node_tosa_supported

    def altered(self: Any, node: torch.fx.Node, specification: Any) -> bool:
        return not refuses(node) and original(self, node, specification)

    monkeypatch.setattr(check, "is_node_tosa_supported", altered)
    _assert_not_delegated(case, operator)


def test_an_int64_buffer_as_index_that_arm_refuses_is_red(monkeypatch: pytest.MonkeyPatch) -> None:
    case = _find_case(index, "/index_three_int64_buffer_")
    original = CheckInt64InputsAndOutputs.__init__

    def altered(self: Any, program: Any, *rest: Any) -> None:
        original(self, program, *rest)
        self.input_names = [spec.arg.name for spec in program.graph_signature.input_specs]

    monkeypatch.setattr(CheckInt64InputsAndOutputs, "__init__", altered)
    _assert_not_delegated(case, "aten.index")


def _find_case(suite: ModuleType, name: str) -> Case:
    """Find a case that passes with unaltered functions."""
    cases = load_suite(Path(str(suite.__file__))).cases
    case = next(case for case in cases if name in case.name)
    assert run_cell(case, "tosa:fp").status is Status.PASSED
    return case


def _assert_not_delegated(case: Case, operator: str) -> None:
    cell = run_cell(case, "tosa:fp")
    assert (cell.status, cell.stage) == (Status.FAILED, "lower")
    assert f"not delegated: {operator}" in str(cell.error)
