"""Keeping torch's results, and putting off what nobody asks for, changes no program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch._export import utils as export_utils

from harness import registry
from harness.pipeline import speed
from harness.pipeline.speed import kept

ROOT = Path(__file__).parents[3]

CODE = """
import hashlib, re, sys, tempfile
from pathlib import Path
import torch
from harness import Case, registry, run_cell
from harness.pipeline import speed
from harness.collection.discovery import all_suites

mode, what = sys.argv[1:]
if mode == "with":
    speed.install()

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.norm = torch.nn.LayerNorm(6)
    def forward(self, x):
        return torch.nn.functional.gelu(self.norm(self.conv(x))).softmax(-1)

def small():
    case = Case("net/small", lambda: (Net(), (torch.randn(1, 3, 8, 8),)))
    targets = ("portable:fp32", "xnnpack:fp32", "tosa:fp", "tosa:int", "mlx:fp32")
    return [(case, target) for target in targets * (2 if mode == "with" else 1)]

def sample():
    # Of each target a layer that all of them take, and a few cases spread over the suites; models
    # are left out for their time.
    cases = [case for suite in all_suites(Path("suites")) for case in suite.cases
             if not {"model", "nightly"} & case.tags]
    layer = [case for case in cases if case.name == "linear/bias"]
    for target in registry.known_targets():
        of_it = [case for case in cases if target in registry.targets_of(case, [target])]
        spread = of_it[:: max(1, len(of_it) // 3)][:3]
        yield from ((case, str(target)) for case in layer + spread)

def digest(program, target):
    if target.startswith("mlx:"):
        # Upstream puts four digits of a hash of the printed program before the names of its data
        # (mlx/preprocess.py). Where a printed stack names "<eval_with_key>.N", that is how many
        # graphs the process compiled before: two lowerings in a row differ there, too.
        program = re.sub(rb"[0-9a-f]{4}(?=/)", b"....", program)
    return hashlib.sha256(program).hexdigest()

with tempfile.TemporaryDirectory() as folder:
    for case, target in {"small": small, "sample": sample}[what]():
        program = Path(folder, "program.pte")
        program.unlink(missing_ok=True)
        cell = run_cell(case, target, lower_only=True, save=program)
        made = digest(program.read_bytes(), target) if program.exists() else cell.error
        print("PROGRAM", target, case.name, cell.status.value, made)
"""


def programs(mode: str, what: str) -> list[str]:
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CODE, mode, what],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [line for line in result.stdout.splitlines() if line.startswith("PROGRAM")]


@pytest.mark.nightly
def test_programs_are_the_same_byte_for_byte() -> None:
    made = programs("with", "small")
    assert len(made) == 10
    assert all(" lowered " in line for line in made), made
    assert made[:5] == made[5:], "the second lowering uses what the first one kept"
    assert made[:5] == programs("without", "small")


@pytest.mark.nightly
def test_programs_of_every_target_are_the_same_byte_for_byte() -> None:
    made = programs("with", "sample")
    lowered = {line.split()[1] for line in made if " lowered " in line}
    # An error that both give would compare equal, too.
    assert lowered == {str(target) for target in registry.known_targets()}
    assert made == programs("without", "sample")


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
