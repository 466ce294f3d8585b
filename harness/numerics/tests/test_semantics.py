"""Recipes define their backend's operators; the harness defines torchao's only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import harness
from backends.null import BACKEND
from harness import Case, Tester
from harness.model.precision import Precision
from harness.numerics.formats.dequantize import BlockQuantizedTensor, QuantizedMatmul
from harness.numerics.formats.semantics import GENERIC_SEMANTICS, OperatorSemantics
from harness.numerics.oracle import compute_reference


@torch.library.custom_op("conform_test::times_codes", mutates_args=())
def times_codes(x: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError


@times_codes.register_kernel("cpu")
def _(x: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    return x @ codes.to(x.dtype).T * 0.5


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("codes", torch.randint(-8, 8, (4, 32), dtype=torch.int8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.ops.conform_test.times_codes(x, self.codes)
        return result


def define_operators() -> OperatorSemantics:
    def half(x: torch.Tensor, codes: torch.Tensor) -> QuantizedMatmul:
        scale = torch.full((len(codes), 1), 0.5, dtype=torch.float64)
        return QuantizedMatmul(x, BlockQuantizedTensor(codes.double(), scale, None, x.dtype))

    return replace(GENERIC_SEMANTICS, matmuls={"conform_test::times_codes": half})


def test_the_recipe_defines_the_meaning_of_an_operator() -> None:
    recipe = replace(BACKEND.recipes["eager"], semantics=define_operators)
    case = Case("layer", lambda: (Layer(), (torch.randn(3, 32),)))
    reference = Tester(case, "null:eager", recipe=recipe).compute_reference().reference
    built = case.make(0)
    layer, x = built.module, built.inputs[0]
    truth = x.double() @ layer.get_buffer("codes").double().T / 2
    torch.testing.assert_close(reference.oracle[0][0], truth)
    with pytest.raises(NotImplementedError):  # the operator's Python code
        compute_reference(layer, [(x,)], Precision(), 0)


def test_torchaos_decoders_are_generic() -> None:
    tester = Tester(
        Case("semantics/relu", lambda: (torch.nn.ReLU(), (torch.ones(2),))), "null:eager"
    )
    assert tester.recipe.semantics is None
    tester.export().lower().to_executorch().serialize()
    assert tester.attempt.semantics is GENERIC_SEMANTICS
    assert all(name.startswith("torchao::") for name in GENERIC_SEMANTICS.decoders)
    assert not GENERIC_SEMANTICS.matmuls
    assert not GENERIC_SEMANTICS.mx_products


def test_the_harness_names_no_operator_of_a_backend() -> None:
    for file in Path(harness.__file__).parent.rglob("*.py"):
        if "tests" in file.parts:
            continue
        text = file.read_text()
        assert not any(name in text for name in ("tosa_mxfp", "_4bit_weight", "mlx::")), file
