"""Faults that are planted in quantizers, observers and conversion are found and named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import HistogramObserver, PerChannelMinMaxObserver

from harness import Case, Cell, run_cell
from harness.pipeline import stages
from harness.record.cell import Status

TARGETS = ("xnnpack:int8", "tosa:int")
Edit = Callable[[GraphModule], None]
Qparams = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


class Net(torch.nn.Module):
    """A residual connection of unlike ranges, a convolution, a linear layer, a joint."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(4, 4, 3, padding=1)
        self.second = torch.nn.Conv2d(4, 4, 1)
        self.last = torch.nn.Linear(8, 8)
        torch.nn.init.normal_(self.second.weight, std=0.05)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.first(x))
        y = y + self.second(y)
        joined = torch.cat([y.mean((2, 3)), x.mean((2, 3))], 1)
        return self.last(joined)


CASE = Case("planted", lambda: (Net(), (torch.randn(16, 4, 6, 6),)))


def test_without_a_fault_the_graph_is_what_its_observers_chose() -> None:
    for target in TARGETS:
        cell = run_cell(CASE, target)
        assert cell.status is Status.PASSED, cell.error
        rewritten, quantized = cell.intermediates
        assert rewritten.name == "rewritten"
        assert quantized.identical
        (row,) = quantized.numerics
        assert 0 < row.bound_used < 1
        assert 20 < row.sqnr_db < 60


def change_qparams(kind: type, change: Qparams) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(patch: pytest.MonkeyPatch) -> None:
        original = kind.calculate_qparams
        patch.setattr(kind, "calculate_qparams", lambda self: change(*original(self)))

    return plant


def change_class(kind: type, name: str, value: Any) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(patch: pytest.MonkeyPatch) -> None:
        original = kind.__init__

        def construct(self: Any, *args: Any, **options: Any) -> None:
            original(self, *args, **options | {name: value})

        patch.setattr(kind, "__init__", construct)

    return plant


GRIDS = {
    "activation steps twice as large": change_qparams(HistogramObserver, lambda s, z: (s * 2, z)),
    "activation steps a tenth too large": change_qparams(
        HistogramObserver, lambda s, z: (s * 1.1, z)
    ),
    "activation steps half as large": change_qparams(HistogramObserver, lambda s, z: (s / 2, z)),
    "zero point off by two": change_qparams(HistogramObserver, lambda s, z: (s, z + 2)),
    "zero point of another tensor": change_qparams(HistogramObserver, lambda s, z: (s, z * 0)),
    "scale of the next channel": change_qparams(
        PerChannelMinMaxObserver, lambda s, z: (s.roll(1), z)
    ),
    "one scale for all channels": change_qparams(
        PerChannelMinMaxObserver, lambda s, z: (s.max().expand_as(s).contiguous(), z)
    ),
    "weight steps half as large": change_qparams(PerChannelMinMaxObserver, lambda s, z: (s / 2, z)),
    "scales of another dimension": change_class(PerChannelMinMaxObserver, "ch_axis", 1),
    "minima are lost": lambda patch: patch.setattr(
        HistogramObserver, "calculate_qparams", _without_minimum(HistogramObserver)
    ),
}


def _without_minimum(kind: Any) -> Any:
    original = kind.calculate_qparams

    def calculate(self: Any) -> Any:
        scale, _ = original(self)
        return scale, torch.full_like(scale, self.quant_min, dtype=torch.int32)

    return calculate


def nodes(graph: GraphModule, name: str) -> list[Node]:
    found = [node for node in graph.graph.nodes if name in str(node.target)]
    assert found, f"no {name} in {graph.graph}"
    return found


def set_argument(name: str, position: int, change: Callable[[Any], Any], which: int = 0) -> Edit:
    def edit(graph: GraphModule) -> None:
        node = nodes(graph, name)[which]
        args = list(node.args)
        args[position] = change(args[position])
        node.args = tuple(args)

    return edit


def exchange_operands(graph: GraphModule) -> None:
    for node in nodes(graph, "aten.cat"):
        (first, second), *rest = node.args
        node.args = ([second, first], *rest)


def drop_rounding(graph: GraphModule) -> None:
    """Drop that of the sum. Others round values that are rounded to the same grid elsewhere."""
    (total,) = nodes(graph, "aten.add.Tensor")
    (quantize,) = total.users
    for dequantize in quantize.users:
        dequantize.replace_all_uses_with(total)


def change_buffer(part: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Edit:
    def edit(graph: GraphModule) -> None:
        name, tensor = next((n, t) for n, t in graph.named_buffers() if part in n)
        setattr(graph, name, change(tensor))

    return edit


def drop_bias(graph: GraphModule) -> None:
    for node in nodes(graph, "aten.linear"):
        node.args = node.args[:2]


def add_one_code(codes: torch.Tensor) -> torch.Tensor:
    changed = codes.clone()
    changed.view(-1)[3] = changed.view(-1)[3] // 2
    return changed


CONVERSIONS: dict[str, Edit] = {
    "zero point off by one": set_argument("dequantize_per_tensor", 2, lambda z: z + 1),
    "last zero point off by one": set_argument("dequantize_per_tensor", 2, lambda z: z - 1, -1),
    "scale 2 % too large": set_argument("dequantize_per_tensor", 1, lambda s: s * 1.02),
    "codes end too early": set_argument("quantize_per_tensor", 4, lambda code: code - 40),
    "operands exchanged": exchange_operands,
    "a tensor is not rounded": drop_rounding,
    "one code of a weight": change_buffer("_frozen_param", add_one_code),
    "channels of a weight exchanged": change_buffer("_frozen_param", lambda x: x.roll(1, 0)),
    "scales of a weight exchanged": change_buffer("_scale_", lambda x: x.roll(1)),
    "a bias is missing": drop_bias,
}


@pytest.mark.one_of(40)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("fault", GRIDS)
def test_a_wrong_grid_is_red(fault: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    GRIDS[fault](monkeypatch)
    cell = run_cell(CASE, target)
    assert (cell.status, cell.stage) == (Status.FAILED, "quantize"), cell.error
    assert "was quantized wrongly: " in (cell.error or "")
    assert cell.intermediates[-1].problem


@pytest.mark.one_of(40)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("fault", CONVERSIONS)
def test_a_wrong_conversion_is_red(
    fault: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = stages.convert

    def convert(prepared: GraphModule) -> GraphModule:
        graph = original(prepared)
        CONVERSIONS[fault](graph)
        graph.recompile()
        return graph

    monkeypatch.setattr(stages, "convert", convert)
    cell = run_cell(CASE, target)
    assert (cell.status, cell.stage) == (Status.FAILED, "quantize"), cell.error
    assert "conversion changed it: " in (cell.error or "")


@pytest.mark.nightly
def test_the_place_and_its_line_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    GRIDS["activation steps twice as large"](monkeypatch)
    cell: Cell = run_cell(CASE, "xnnpack:int8")
    assert "test_planted_faults.py" in (cell.error or "")
    assert "steps too wide" in (cell.error or "")
