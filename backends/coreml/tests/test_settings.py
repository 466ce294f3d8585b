"""Settings change the converter's options, and the quantizer's patterns change nothing."""

from __future__ import annotations

import pytest
import torch

from backends.coreml import BACKEND
from backends.coreml.payload import reader
from backends.coreml.quantization import make_quantizer
from harness import Case, Status, Tester, run_cell
from harness.backend_api import Program
from harness.pipeline import speed
from harness.pipeline.route import lower
from harness.vendors.replacements import has_replaced, undo_replacements


class Running(torch.nn.Module):
    """A running sum."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return self.total.tanh()


CASE = Case("settings/running", lambda: (Running(), (torch.randn(4, 8),)))


@pytest.mark.parametrize(("setting", "opset"), [("ios17", "CoreML7"), ("own_buffers", "CoreML8")])
def test_buffers_that_the_runtime_keeps_are_exact(setting: str, opset: str) -> None:
    target = f"coreml:fp32+{setting}"
    cell = run_cell(CASE, target)
    assert cell.status is Status.PASSED, f"{cell.stage}: {cell.error}"
    tester = Tester(CASE, target)
    lower(tester)
    (payload,) = Program(tester.program).delegates
    program = reader.load(payload.data, payload.named_data)
    assert program.function.opset == opset
    assert program.states == ()


def test_a_state_rounds_to_half() -> None:
    cell = run_cell(CASE, "coreml:fp32")
    assert cell.status is Status.MISMATCH


def test_compressed_weights_need_ios_18() -> None:
    assert BACKEND.settings["ios17"].find_refusal(BACKEND.recipes["int4"])
    assert BACKEND.settings["ios17"].find_refusal(BACKEND.recipes["fp32"]) is None


@pytest.mark.nightly
def test_kept_patterns_annotate_as_new_ones() -> None:
    from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

    class Layers(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.linear = torch.nn.Conv2d(3, 4, 3), torch.nn.Linear(4, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = torch.relu(self.conv(x)).mean((2, 3))
            return torch.nn.functional.gelu(self.linear(x) + 1) * 2

    def annotate() -> str:
        inputs = (torch.randn(1, 3, 6, 6),)
        graph = torch.export.export(Layers().eval(), inputs).module(check_guards=False)
        return str(prepare_pt2e(graph, make_quantizer("quint8")).graph)

    undo_replacements("coreml.patterns")
    speed.uninstall()
    new = annotate()
    speed.install()
    first, again = annotate(), annotate()
    assert has_replaced("coreml.patterns")
    assert first == again == new
