"""Keeping torch's results, and putting off what nobody asks for, changes no program."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._export import utils as export_utils

from harness import speed

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
    kept = programs("with")
    assert len(kept) == 10
    assert kept[:5] == kept[5:], "the second lowering uses what the first one kept"
    assert kept[:5] == programs("without")


class Doubled(torch.nn.Module):
    def forward(self, x):  # torch cannot pickle annotations that are text
        return x + x


def traced() -> torch.fx.GraphModule:
    speed.install()
    return torch.fx.symbolic_trace(Doubled())


def is_put_off(module: torch.fx.GraphModule) -> bool:
    return isinstance(vars(type(module))["forward"], speed._DeferredCode)


def use_forward(module: torch.fx.GraphModule) -> Any:
    return module(torch.ones(2)).tolist() == [2.0, 2.0]


USES: dict[str, Callable[[torch.fx.GraphModule], Any]] = {
    "call": use_forward,
    "code": lambda module: "x + x" in module.code,
    "signature": lambda module: list(inspect.signature(module.forward).parameters) == ["x"],
    "recompile": lambda module: "x + x" in module.recompile().src,
    "print": lambda module: "x + x" in str(module),
    "pickle": lambda module: use_forward(pickle.loads(pickle.dumps(module))),
    "line numbers": lambda module: bool(module._lineno_map),
    "class": lambda module: type(module).forward(module, torch.ones(1)).item() == 2.0,
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_code_is_there_for_whoever_wants_it(use: Callable[[torch.fx.GraphModule], Any]) -> None:
    module = traced()
    assert is_put_off(module)
    assert use(module)
    assert not is_put_off(module) or use is USES["recompile"]


def test_copies_put_it_off_each_for_itself() -> None:
    module = traced()
    copied = copy.deepcopy(module)
    assert use_forward(copied)
    assert is_put_off(module)
    assert not is_put_off(copied)


def test_an_edited_graph_runs_as_edited() -> None:
    module = traced()
    assert use_forward(module)
    node = next(node for node in module.graph.nodes if node.op == "call_function")
    node.target = torch.mul
    module.recompile()
    assert is_put_off(module)
    assert module(torch.full((1,), 3.0)).item() == 9.0


def test_an_attribute_that_is_not_of_the_code_is_still_missing() -> None:
    with pytest.raises(AttributeError):
        _ = traced().not_there
    assert not hasattr(torch.fx.GraphModule.__new__(torch.fx.GraphModule), "_code")


def test_decompositions_are_looked_up_once_and_handed_out_as_copies() -> None:
    speed.install()
    wanted = [torch.ops.aten.gelu, torch.ops.aten.silu.default, torch.ops.aten.add.Tensor]
    first = torch._decomp.get_decompositions(wanted)
    assert first == speed._get_decompositions(wanted)
    first.clear()
    assert torch._decomp.get_decompositions(wanted) == speed._get_decompositions(wanted)


def test_composite_operators_are_collected_again_when_one_is_registered() -> None:
    speed.install()
    collect = export_utils._collect_all_valid_cia_ops
    before = set(collect())
    assert set(collect()) == before
    with torch.library._scoped_library("conform_speed_test", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")
        assert torch.ops.conform_speed_test.twice.default in set(collect())
