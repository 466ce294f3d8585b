"""Modules with quantized weights are built and judged, or rejected."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torchao.quantization import (
    Int8DynamicActivationIntxWeightConfig,
    Int8WeightOnlyConfig,
    IntxWeightOnlyConfig,
    quantize_,
)
from torchao.quantization.granularity import PerAxis, PerGroup

from harness import Case, Tester, run_cell
from harness.execution.torch_settings import restore_settings
from harness.record.cell import Status

pytestmark = pytest.mark.filterwarnings("ignore")  # torchao's own

# A generator of its own: whether a wrong scale shows depends on the values.
X = torch.randn(4, 64, generator=torch.Generator().manual_seed(0))
INT4 = IntxWeightOnlyConfig(torch.int4, PerGroup(32))  # type: ignore[attr-defined]
DYNAMIC = Int8DynamicActivationIntxWeightConfig(
    weight_dtype=torch.int4,  # type: ignore[attr-defined]
    weight_granularity=PerAxis(0),
)


def _module(config: Any) -> torch.nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = torch.nn.Sequential(torch.nn.Linear(64, 8))
    with restore_settings():  # torchao sets Inductor's
        quantize_(module, config)
    return module


def _tester(config: Any, target: str) -> Tester:
    return Tester(Case.from_module("prequantized/case", _module(config), (X,)), target)


def test_weights_that_portable_kernels_decode() -> None:
    module = _module(Int8WeightOnlyConfig())
    cell = run_cell(Case.from_module("prequantized/int8", module, (X,)), "portable:fp32")
    assert cell.status is Status.PASSED, cell.error


@pytest.mark.parametrize("config", [Int8WeightOnlyConfig(), INT4], ids=["int8", "intx4"])
def test_weights_are_decoded_in_float64(config: Any) -> None:
    tester = _tester(config, "portable:fp32").export().compute_reference()
    layer: Any = tester.built.module[0]  # type: ignore[index]
    scale = layer.weight.scale.double().reshape(8, -1)
    codes = layer.weight.qdata.double()
    weight = codes * scale.repeat_interleave(codes.shape[1] // scale.shape[1], 1)
    truth = X.double() @ weight.T + layer.bias.double()
    torch.testing.assert_close(tester.reference.oracle[0][0], truth, rtol=1e-13, atol=1e-13)
    assert tester.reference.model is not None


def test_activations_are_quantized_as_torchao_does() -> None:
    """Codes are the program's in any precision of the float operators."""
    tester = _tester(DYNAMIC, "xnnpack:fp32").export().compute_reference()
    layer: Any = tester.built.module[0]  # type: ignore[index]
    low, high = X.amin(1, keepdim=True).clamp(max=0), X.amax(1, keepdim=True).clamp(min=0)
    step = (high - low) / 255
    zero = (-128 - torch.round(low / step)).clamp(-128, 127)
    codes = (torch.round(X * (1 / step)) + zero).clamp(-128, 127)
    activation = (codes - zero).double() * step.double()
    weight = layer.weight.qdata.double() * layer.weight.scale.double()
    truth = activation @ weight.T + layer.bias.double()
    torch.testing.assert_close(tester.reference.oracle[0][0], truth, rtol=1e-6, atol=1e-6)
    # Any of them may fall on the other side, so that the bound is a step of them and no rounding.
    bound = tester.reference.bound[0][0]
    assert bound is not None
    assert float(bound.min()) > 100 * 2.0**-24 * float(truth.abs().max())


def test_a_scale_that_is_off_shows() -> None:
    case = Case.from_module("prequantized/right", _module(DYNAMIC), (X,))
    tester = Tester(case, "xnnpack:fp32").export().lower().to_executorch().serialize().run()
    assert tester.compare().verdict.passed
    wrong = case.make().module
    wrong[0].weight.scale[3] *= 1.1  # type: ignore[index, union-attr, operator]
    other = Tester(Case.from_module("prequantized/right", wrong, (X,)), "xnnpack:fp32")
    verdict = tester.compare(other.export().compute_reference().reference).verdict
    assert not verdict.passed


@pytest.mark.parametrize("target", ["xnnpack:int8", "mlx:int4", "tosa:mxfp8_e4m3", "metal:int4"])
def test_quantizing_recipes_refuse_quantized_modules(target: str) -> None:
    case = Case.from_module("prequantized/twice", _module(INT4), (X,))
    cell = run_cell(case, target)
    if cell.status is Status.UNAVAILABLE:
        pytest.skip(str(cell.error))
    assert cell.status is Status.UNSUPPORTED
    assert "quantized already (IntxUnpackedToInt8Tensor)" in (cell.error or "")


def test_a_recipe_in_another_dtype_keeps_the_codes() -> None:
    module = _module(INT4)
    case = Case.from_module("prequantized/cast", module, (X,))
    layer: Any = case.make().cast("bfloat16").module[0]  # type: ignore[index]
    assert layer.weight.dtype == layer.bias.dtype == torch.bfloat16
    assert torch.equal(layer.weight.qdata, module[0].weight.qdata)  # type: ignore[index, union-attr]
    cell = run_cell(case, "mlx:bf16")
    if cell.status is Status.UNAVAILABLE:
        pytest.skip(str(cell.error))
    assert cell.status is Status.PASSED, cell.error
