"""Generated programs call layers, some of them twice, and shrink like others."""

from __future__ import annotations

import torch

from harness.extras.fuzzing.generate import RULES, _layer, build_program
from harness.extras.fuzzing.generated_program import GeneratedProgram
from harness.extras.fuzzing.shrink import shrink

LAYER = RULES.index(_layer)
LINEAR, CONVOLUTION, AGAIN = 0, 1, 3
IMAGE, MATRIX = 9, 7  # float32 inputs of (1, 2, 4, 4) and (4, 4)


def build(form: int, *kinds: int) -> GeneratedProgram:
    made = build_program([form], [(LAYER, 0, 1, kind) for kind in kinds])
    assert made is not None
    return made


def test_a_layer_is_called_twice() -> None:
    made = build(MATRIX, LINEAR, AGAIN)
    assert made.steps == ("v0 = self.layer0(x0)", "v1 = self.layer0(v0)")
    assert made.state == (("layer0", "torch.nn.Linear(4, 4)"),)


def test_the_case_has_the_layers() -> None:
    case = build(IMAGE, CONVOLUTION, LINEAR).make_case()
    built = case.make(0)
    kinds = [type(layer) for layer in built.module.children()]
    assert kinds == [torch.nn.Conv2d, torch.nn.Linear]
    assert built.module(*built.inputs)[0].shape == (1, 4, 4, 4)


def test_layers_that_are_not_called_are_removed() -> None:
    program = build(IMAGE, LINEAR, CONVOLUTION, LINEAR)
    small = shrink(program, lambda smaller: "Conv2d" in smaller.source)
    assert small.steps == ("v0 = self.layer1(x0)",)
    assert [made for _, made in small.state] == ["torch.nn.Conv2d(2, 4, 3, padding=1)"]
