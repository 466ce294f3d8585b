"""``conform trace`` and ``reduce`` quantize a model as ``conform check`` does."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from harness.cli.common import SUITES
from harness.cli.trace_commands import ModelOptions, find_subject
from harness.errors import UsageError

MODEL = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(8, 8), torch.nn.Linear(8, 4)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))

def model():
    return Net(), (torch.randn(3, 8),)
"""


@pytest.fixture
def source(tmp_path: Path) -> str:
    (tmp_path / "net.py").write_text(MODEL)
    return f"{tmp_path / 'net.py'}:model"


def test_calibration_and_float_modules_reach_the_quantizer(source: str, tmp_path: Path) -> None:
    wide = torch.full((3, 8), 9.0)
    torch.save((wide,), tmp_path / "wide.pt")
    options = ModelOptions("xnnpack:int8", None, [tmp_path / "wide.pt"], ["last"])
    case, target, recipe = find_subject(source, SUITES, options, 0)
    assert str(target) == "xnnpack:int8"
    assert torch.equal(case.make().calibration[0][0], wide)
    assert recipe is not None
    from harness import Tester

    graph = Tester(case, target, recipe=recipe).export().quantize().reference_module
    layers = graph.graph.find_nodes(op="call_function", target=torch.ops.aten.linear.default)
    assert ["dequantize" in str(layer.args[1].target) for layer in layers] == [True, False]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (ModelOptions(None, None, [], ["last"]), "--keep-float applies to a model"),
        (ModelOptions(None, None, [Path("x.pt")], []), "--calibrate applies to a model"),
        (ModelOptions("tosa:int", None, [], ["nope"]), "no module 'nope'"),
    ],
)
def test_options_that_do_not_apply_are_refused(
    source: str, options: ModelOptions, message: str
) -> None:
    name = source if options.target else "relu/plain@tosa:int"
    with pytest.raises(UsageError, match=message):
        find_subject(name, SUITES, options, 0)
