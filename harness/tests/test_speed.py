"""Keeping torch's results changes no program."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import hashlib, sys, torch
from harness import Case, Tester, speed
import harness.tester
if sys.argv[1] == "without":
    harness.tester.speed = type("Off", (), {"install": staticmethod(lambda: None)})

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.norm = torch.nn.LayerNorm(6)
    def forward(self, x):
        return torch.nn.functional.gelu(self.norm(self.conv(x))).softmax(-1)

case = Case("net/small", lambda: (Net(), (torch.randn(1, 3, 8, 8),)))
for target in ("portable:fp32", "xnnpack:fp32", "tosa:fp", "tosa:int") * 2:
    tester = Tester(case, target).export()
    if tester.recipe.quantizer is not None:
        tester.quantize()
    program = tester.lower().to_executorch().serialize().program
    print("PROGRAM", target, hashlib.sha256(program).hexdigest())
"""


def programs(mode: str) -> list[str]:
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CODE, mode],
        capture_output=True,
        text=True,
        check=True,
    )
    return [line for line in result.stdout.splitlines() if line.startswith("PROGRAM")]


def test_programs_are_the_same_byte_for_byte() -> None:
    kept = programs("with")
    assert len(kept) == 8
    assert kept[:4] == kept[4:], "the second lowering uses what the first one kept"
    assert kept == programs("without")
