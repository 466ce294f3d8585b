"""Weights quantized before export: the stage, its reference and the decoding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import executorch.extension.llm.export.int4
import executorch.extension.llm.export.mx
import executorch.extension.llm.export.nvfp4  # noqa: F401  (they register the operators)
import pytest
import torch
from torchao.quantization import IntxWeightOnlyConfig, quantize_
from torchao.quantization.granularity import PerGroup

from backends.null import BACKEND
from harness import Case, Tester, run_cell
from harness.backend_api import Precision, Recipe
from harness.errors import ConflictingOptions, StageFailure, StageOrderError
from harness.numerics.formats.semantics import GENERIC_SEMANTICS
from harness.numerics.oracle import compute_reference

UNIT = 2.0**-24
LINEAR = Case("quantized/linear", lambda: (torch.nn.Linear(64, 8), (torch.randn(3, 64),)))


def coarse(module: torch.nn.Module) -> torch.nn.Module:
    """Round to sixteenths: a quantization that needs no operator."""
    for parameter in module.parameters():
        parameter.copy_((parameter * 16).round() / 16)
    return module


def subclassed(module: torch.nn.Module) -> torch.nn.Module:
    quantize_(module, IntxWeightOnlyConfig(torch.int4, PerGroup(32)))
    return module


COARSE = Recipe("coarse", Precision(), quantize_weights=coarse)


def test_the_quantized_module_is_exported_and_decides() -> None:
    recipe = replace(BACKEND.recipes["eager"], quantize_weights=coarse)
    tester = Tester(LINEAR, "null:eager", recipe=recipe)
    before = tester.built.module.get_parameter("weight").clone()
    tester.quantize_weights().export().lower().to_executorch().serialize().run().compare()
    assert tester.verdict.passed
    assert 5 < (tester.verdict.numerics[0].model_sqnr_db or 0) < 60
    assert torch.equal(tester.built.module.get_parameter("weight"), before)
    assert torch.equal(tester.reference_module.get_parameter("weight") * 16, (before * 16).round())
    assert list(tester.seconds)[:3] == ["build", "quantize", "export"]
    cell = run_cell(LINEAR, "null:eager", recipe=recipe)
    assert cell.status.value == "passed"
    assert cell.numerics[0].model_sqnr_db == tester.verdict.numerics[0].model_sqnr_db
    assert "quantize" in cell.stages


def test_a_float_program_fails_against_the_quantized_reference() -> None:
    tester = Tester(LINEAR, "null:eager").export().lower().to_executorch().serialize().run()
    quantized = Tester(LINEAR, "null:eager").quantize_weights(coarse).export().compute_reference()
    assert not tester.compare(quantized.reference).verdict.passed


def test_the_stage_is_first_and_needs_a_conversion() -> None:
    with pytest.raises(StageOrderError, match=r"before \.export"):
        Tester(LINEAR, "null:eager").export().quantize_weights(coarse)
    with pytest.raises(ConflictingOptions, match="null:eager does not quantize weights"):
        Tester(LINEAR, "null:eager").quantize_weights()

    def refuse(module: torch.nn.Module) -> torch.nn.Module:
        raise ValueError("no such format")

    with pytest.raises(StageFailure, match="no such format") as caught:
        Tester(LINEAR, "null:eager").quantize_weights(refuse)
    assert caught.value.stage == "quantize"


@pytest.mark.filterwarnings("ignore")  # torchao's own
def test_subclassed_weights_are_decoded_in_float64() -> None:
    tester = Tester(LINEAR, "null:eager").quantize_weights(subclassed).export().compute_reference()
    module = subclassed(LINEAR.make(0).module)
    codes, scale = module.weight.qdata.double(), module.weight.scale.double()
    weight = codes * scale.repeat_interleave(32, 1)
    truth = tester.built.inputs[0].double() @ weight.T + module.bias.double()
    torch.testing.assert_close(tester.reference.oracle[0][0], truth, rtol=1e-14, atol=1e-14)
    assert all(type(p.data) is torch.Tensor for p in tester.reference_module.parameters())


def _affine() -> tuple[Any, ...]:
    codes = torch.randint(-8, 8, (6, 64), dtype=torch.int8)
    zero = torch.randint(-8, 8, (6, 2), dtype=torch.int8)
    return codes, [1, 32], torch.rand(6, 2), zero, torch.int8, -8, 7


def _affine_other_axis() -> tuple[Any, ...]:
    codes = torch.randint(-128, 128, (4, 64, 3), dtype=torch.int8)
    zero = torch.zeros(4, 2, 3, dtype=torch.int8)
    return codes, [1, 32, 1], torch.rand(4, 2, 3), zero, torch.int8


def _affine_without_zero() -> tuple[Any, ...]:
    codes = torch.randint(-8, 8, (6, 64), dtype=torch.int8)
    return codes, [1, 64], torch.rand(6, 1), None, torch.int8, -8, 7


def _int4() -> tuple[Any, ...]:
    codes = torch.randint(0, 256, (6, 32), dtype=torch.uint8)
    return codes, torch.rand(2, 6), torch.rand(2, 6) * 15, 32, torch.float32


def _mx() -> tuple[Any, ...]:
    codes = torch.randn(6, 64).to(torch.float8_e4m3fn)
    return codes, torch.rand(6, 2).to(torch.float8_e8m0fnu), torch.float8_e4m3fn, 32


def _nvfp4() -> tuple[Any, ...]:
    codes = torch.randint(0, 256, (6, 32), dtype=torch.uint8).view(torch.uint32)
    scale = torch.rand(6, 4).to(torch.float8_e4m3fn).view(torch.uint8)
    return codes, scale, torch.tensor(0.37), 16


@pytest.mark.parametrize(
    ("name", "draw"),
    [
        ("dequantize_affine", _affine),
        ("dequantize_affine", _affine_other_axis),
        ("dequantize_affine", _affine_without_zero),
        ("dequantize_int4_tensor", _int4),
        ("dequantize_mx", _mx),
        ("dequantize_nvfp4", _nvfp4),
    ],
    ids=lambda item: getattr(item, "__name__", None),
)
def test_decoders_agree_with_torchao(name: str, draw: Callable[[], tuple[Any, ...]]) -> None:
    operator = getattr(torch.ops.torchao, name).default
    args = draw()
    blocks = GENERIC_SEMANTICS.decode(operator, args, {})
    assert blocks is not None
    values, eager = blocks.values(), operator(*args)
    assert values.dtype == torch.float64
    torch.testing.assert_close(values, eager.double(), rtol=4 * UNIT, atol=1e-5 * UNIT)
    assert blocks.dtype == eager.dtype
    kwargs = {"output_dtype": torch.bfloat16}
    short = args[:4] if name == "dequantize_int4_tensor" else args
    again = GENERIC_SEMANTICS.decode(operator, short, kwargs)
    assert again is not None
    assert again.dtype == torch.bfloat16


class Lookup(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(32, 64)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.embed(tokens)
        return found


@pytest.mark.filterwarnings("ignore")  # torchao's own
def test_the_bound_covers_unsigned_codes_and_an_offset() -> None:
    """``code · scale + offset`` has rounding errors of its terms, which are up to 15 times as large
    as their sum."""
    case = Case("quantized/lookup", lambda: (Lookup(), (torch.arange(32),)))

    def quantize(module: torch.nn.Module) -> torch.nn.Module:
        quantize_(module, IntxWeightOnlyConfig(torch.int4, PerGroup(32)), filter_fn=_is_lookup)
        return module

    tester = Tester(case, "null:eager").quantize_weights(quantize).export().compute_reference()
    weight = quantize(case.make(0).module).embed.weight
    scale = weight.scale.repeat_interleave(32, 1)
    found = (weight.qdata.float() + 8) * scale + (-8 * scale)
    error = (found.double() - tester.reference.oracle[0][0]).abs()
    assert (error <= tester.reference.bound[0][0]).all()
    assert (error > 4 * UNIT * found.double().abs()).any()


def _is_lookup(module: torch.nn.Module, _: str) -> bool:
    return isinstance(module, torch.nn.Embedding)


@torch.library.custom_op("conform_test::twice_the_product", mutates_args=())
def twice_the_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.float() @ b.float() * 2).to(a.dtype)


def test_an_operator_written_in_python_is_run_as_its_parts() -> None:
    class Custom(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = torch.ops.conform_test.twice_the_product(a, b)
            return result

    class Plain(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return a @ b * 2

    inputs = (torch.randn(4, 50), torch.randn(50, 3))
    custom, plain = (compute_reference(m, [inputs], Precision(), 1) for m in (Custom(), Plain()))
    assert torch.equal(custom.oracle[0][0], plain.oracle[0][0])
    torch.testing.assert_close(custom.bound[0][0], plain.bound[0][0], rtol=0.9, atol=0)
