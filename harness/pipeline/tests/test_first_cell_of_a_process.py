"""The verdict of a cell does not depend on the cells before it in the process."""

from __future__ import annotations

import subprocess
import sys

import pytest

_SCRIPT = """
import sys

import torch
import torch.ao.quantization.fx._decomposed

from harness import Case, run_cell

class Decoded(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("codes", torch.randint(-127, 127, (8, 16), dtype=torch.int8))
        self.register_buffer("scale", torch.rand(8))
        self.register_buffer("zero", torch.zeros(8, dtype=torch.int64))

    def forward(self, x):
        decode = torch.ops.quantized_decomposed.dequantize_per_channel
        weight = decode(self.codes, self.scale, self.zero, 0, -127, 127, torch.int8)
        return torch.nn.functional.linear(x, weight)

cell = run_cell(Case("decoded", lambda: (Decoded(), (torch.randn(4, 16),))), sys.argv[1])
print(cell.status.value, cell.error)
"""


@pytest.mark.nightly
@pytest.mark.parametrize("target", ["portable:fp32", "xnnpack:fp32"])
def test_a_first_cell_has_the_kernels_of_quantization(target: str) -> None:
    command = [sys.executable, "-c", _SCRIPT, target]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "passed None"
