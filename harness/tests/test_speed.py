"""Keeping torch's results, and putting off what nobody asks for, changes no program."""

from __future__ import annotations

import subprocess
import sys

import torch
from torch._export import utils as export_utils

from harness import speed
from harness.speed import kept

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
TARGETS = ("portable:fp32", "xnnpack:fp32", "tosa:fp", "tosa:int", "mlx:fp32")
for target in TARGETS * (2 if sys.argv[1] == "with" else 1):
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
    made = programs("with")
    assert len(made) == 10
    assert made[:5] == made[5:], "the second lowering uses what the first one kept"
    assert made[:5] == programs("without")


def test_decompositions_are_looked_up_once_and_handed_out_as_copies() -> None:
    speed.install()
    wanted = [torch.ops.aten.gelu, torch.ops.aten.silu.default, torch.ops.aten.add.Tensor]
    first = torch._decomp.get_decompositions(wanted)
    assert first == kept._get_decompositions(wanted)
    first.clear()
    assert torch._decomp.get_decompositions(wanted) == kept._get_decompositions(wanted)


def test_composite_operators_are_collected_again_when_one_is_registered() -> None:
    speed.install()
    collect = export_utils._collect_all_valid_cia_ops
    before = set(collect())
    assert set(collect()) == before
    with torch.library._scoped_library("conform_speed_test", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")
        assert torch.ops.conform_speed_test.twice.default in set(collect())
