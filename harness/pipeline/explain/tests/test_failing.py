"""A failure names its node, the operator, the line of the model and the vendor's line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from harness import Case, Cell, Status, run_cell
from harness.pipeline.explain.node_origin import format_value

NIGHTLY = pytest.mark.nightly


class Masked(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        places = torch.arange(4)[:, None] + 1
        allowed = mask[torch.arange(2)[:, None], places.T - 1]  # of the mask
        return self.layer(x).masked_fill(~allowed[..., None], 0.0)


class Of(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


IMAGE = torch.randn(1, 3, 4, 4)
NUMBERS = torch.arange(-4, 4, dtype=torch.int32)
FAILURES = {
    "quantize: calibration": (
        Masked(), (torch.randn(2, 4, 8), torch.ones(2, 4, dtype=torch.bool)), "xnnpack:int8",
        "aten.index.Tensor", "# of the mask", "torch/_ops.py",
    ),
    "quantize: annotation": (
        Of(lambda x: (x + 1).max(-1)), (torch.randn(2, 8),), "tosa:int",
        "aten.max.dim", ".max(-1)", "convert_minmax_pass.py",
    ),
    "lower: a pass": (
        torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.PReLU()), (torch.randn(2, 8),),
        "xnnpack:fp32", "aten.prelu.default", "F.prelu", "channels_last_tagged_reshape_pass.py",
    ),
    "lower: an operator of the backend's": (
        Of(lambda x: (x + 1).abs()), (NUMBERS,), "tosa:fp",
        "tosa.ABS.default of aten.abs.default", ".abs()", "unary_elementwise.py",
    ),
    "lower: generated code": (
        Of(lambda x: torch.sinh(x) + 1), (torch.randn(4),), "metal:fp32",
        "aten.sinh.default", "torch.sinh(x)", "ops_handler.py",
    ),
    "to_executorch: an argument": (
        Of(lambda x: (x * 2).clone(memory_format=torch.channels_last)), (IMAGE,), "mlx:fp32",
        "aten.clone.out", ".clone(", "exir/tensor.py",
    ),
    "to_executorch: the outputs": (
        Of(lambda x: torch.median(x * 2, 1)), (torch.randn(3, 4),), "mlx:fp32",
        "aten.median.dim", "torch.median(", "_emitter.py",
    ),
    "run: an instruction": (
        Of(lambda x: torch.nn.functional.pad(x + 1, (-1, 2))), (torch.randn(3, 4),),
        "xnnpack:fp32", "aten.constant_pad_nd.out", "functional.pad(", "",
    ),
    "run: an input": (
        Of(torch.tanh), (torch.randn(4, 5).T,), "portable:fp32",
        "input 0, read by aten.tanh.default", "self.function(*inputs)", "runtime/__init__.py",
    ),
    "run: kernels that are missing": (
        Of(lambda x: x.abs() + 1), (NUMBERS.short(),), "mlx:fp32",
        "aten.add_.Tensor", "x.abs() + 1", "runtime/__init__.py",
    ),
}  # fmt: skip
BY_DAY = ("quantize: calibration", "lower: a pass", "to_executorch: the outputs",
          "run: an instruction")  # fmt: skip


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    "name", [name if name in BY_DAY else pytest.param(name, marks=NIGHTLY) for name in FAILURES]
)
def test_a_failure_names_node_operator_and_lines(name: str) -> None:
    module, inputs, target, op, line, vendor = FAILURES[name]
    cell = run_cell(Case("c", lambda: (module, inputs)), target)
    assert (cell.status, cell.stage) == (Status.FAILED, name.partition(":")[0])
    found = cell.first_divergence
    assert found is not None
    assert found.fails
    assert found.node
    assert found.op == op
    assert line in found.source or "self.function(*inputs)" in found.source
    assert vendor in cell.vendor_frame
    assert found.arguments
    assert f"fails {'to execute' if cell.stage == 'run' else f'in {cell.stage}'}" in str(found)
    assert Cell.from_json(cell.to_json()).first_divergence == found


def test_the_arguments_are_those_of_the_run_where_a_quantizer_changed_them() -> None:
    module, inputs, target, *_ = FAILURES["quantize: calibration"]
    found = run_cell(Case("c", lambda: (module, inputs)), target).first_divergence
    assert found is not None
    # Exported, the second index is int64.
    assert found.arguments == ("bool[2, 4]", "[int64[2, 1], float32[1, 4]]")


def test_values_are_spelled_with_their_layout() -> None:
    last = IMAGE.to(memory_format=torch.channels_last)
    assert format_value([last, 2, None]) == "[float32[1, 3, 4, 4] channels-last, 2, None]"
    assert format_value(IMAGE) == "float32[1, 3, 4, 4]"
    assert format_value(torch.ones(4, 5).T) == "float32[5, 4] dim order (1, 0)"


def test_a_variable_left_by_a_loop_is_not_the_node() -> None:
    """A pass that raises after its loop is not at a node."""

    class Raises:
        def __call__(self, graph_module: torch.fx.GraphModule) -> Any:
            for node in graph_module.graph.nodes:
                node.meta.setdefault("seen", True)
            raise ValueError("after all nodes")

    from dataclasses import replace

    from harness import Target
    from harness.model.registry import recipe

    changed = replace(recipe(Target.parse("portable:fp32")), transform_passes=lambda: [Raises()])
    case = Case("c", lambda: (Of(torch.sin), (torch.ones(3),)))
    cell = run_cell(case, "portable:fp32", recipe=changed)
    assert (cell.status, cell.stage) == (Status.FAILED, "lower")
    assert cell.first_divergence is None
