"""int4 weights: torchao's codes reach the runtime's kernel, and the reference fits them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
import torch

from backends.metal import fallbacks
from backends.metal.backend import FLOAT32, make_partitioners
from backends.metal.delegate import read_code
from backends.metal.fallbacks.quantized import unpack
from backends.metal.quantization import Int4Format, install, int4
from backends.metal.semantics import make_int4_semantics
from harness import Case, Tester, run_cell
from harness.backend_api import Program, Recipe
from harness.pipeline.route import lower
from harness.pytest_plugin.tests import sessions

pytestmark = pytest.mark.filterwarnings("ignore")  # vendors' own

FUNCTION = "aoti_torch_mps__linear_fp_act_4bit_weight"
FRESH = """
import json
import torch
from backends.metal.backend import make_partitioners
from backends.metal.delegate import read_code
from backends.metal.quantization import int4
from executorch.exir import to_edge_transform_and_lower
from harness.execution.program import Program

model = torch.nn.Sequential(torch.nn.Linear(64, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))
model = int4(model.eval().requires_grad_(False))
exported = torch.export.export(model, (torch.randn(3, 64),))
lowered = to_edge_transform_and_lower(exported, partitioner=make_partitioners())
program = Program(bytes(lowered.to_executorch().buffer))
print(json.dumps({
    "layers": [type(layer).__name__ for layer in model],
    "operators": [str(node.target) for node in exported.graph.nodes],
    "fallbacks": [read_code(delegate).fallbacks for delegate in program.delegates],
    "eager": tuple(model(torch.randn(3, 64)).shape),
}))
"""


def recipe(dtype: str = "float32", weights: Int4Format = int4) -> Recipe:
    return Recipe(
        "int4",
        replace(FLOAT32, block_roundings=33.0),
        dtype=dtype,
        quantize_weights=weights,
        partitioners=make_partitioners,
        unsupported=weights.unsupported,
        require_delegation=True,
        semantics=make_int4_semantics,
    )


def linear(
    columns: int, rows: int, *batch: int, bias: bool = True
) -> Callable[[], tuple[torch.nn.Module, tuple[torch.Tensor, ...]]]:
    def build() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
        layer = torch.nn.Linear(columns, rows, bias)
        with torch.no_grad():
            layer.weight[:, 32:] *= 5  # no two groups have the same scale
        return layer, (torch.randn(*batch, columns),)

    return build


def case(columns: int, rows: int, *batch: int, bias: bool = True) -> Case:
    return Case(f"int4/{columns}_{rows}", linear(columns, rows, *batch, bias=bias))


def packed_layer() -> Any:
    return int4(case(64, 8, 3).make(0).module)


def test_a_fresh_process_lowers_to_the_runtimes_kernel() -> None:
    ran = sessions.script(FRESH)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found["layers"] == ["UIntxWeightOnlyQuantizedLinear", "ReLU", "Linear"]
    assert found["operators"].count("torchao._linear_fp_act_4bit_weight.default") == 1
    assert len(found["fallbacks"]) == 1
    assert any("_linear_fp_act_4bit_weight" in name for name in found["fallbacks"][0])
    assert found["eager"] == [3, 8]


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    "shape", [(64, 32, 5), (64, 3, 1), (96, 8, 2, 2)], ids=lambda shape: str(shape)
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_quantized_linear_conforms(shape: tuple[int, ...], dtype: str) -> None:
    cell = run_cell(case(*shape), "metal:fp32", recipe=recipe(dtype))
    assert cell.status.value == "passed", cell.error
    assert cell.delegation is not None
    assert "torchao._linear_fp_act_4bit_weight.default" in cell.delegation.delegated_ops
    assert 15 < (cell.numerics[0].model_sqnr_db or 0) < 40  # four bits, not none and not all


def test_the_program_holds_torchaos_codes() -> None:
    tester = Tester(case(64, 8, 3), "metal:fp32", recipe=recipe())
    lower(tester)
    code = read_code(Program(tester.program).delegates[0])
    assert FUNCTION in code.wrapper
    stored = {
        constant.source: tensor
        for constant, tensor in zip(code.constants, code.tensors(), strict=True)
    }
    layer = packed_layer()
    for name in ("packed_weights", "weight_scales", "weight_zeros"):
        (found,) = [tensor for source, tensor in stored.items() if name in source]
        assert torch.equal(found, getattr(layer, name))
        assert found.is_contiguous()


def test_the_oracle_decodes_exactly() -> None:
    tester = Tester(case(64, 8, 3), "metal:fp32", recipe=recipe()).quantize_weights().export()
    layer = packed_layer()
    codes = unpack(layer.packed_weights).double()
    scale, offset = (
        part.double().repeat_interleave(32, 1) for part in (layer.weight_scales, layer.weight_zeros)
    )
    weight = codes * scale + offset
    truth = tester.built.inputs[0].double() @ weight.T + layer.bias.double()
    oracle = tester.compute_reference().reference.oracle[0][0]
    torch.testing.assert_close(oracle, truth, rtol=1e-14, atol=1e-14)
    original = tester.built.module.get_parameter("weight").double()
    assert (weight - original).abs().max() < scale.max()


def test_the_harness_decodes_as_the_runtime_does() -> None:
    layer = packed_layer()
    operator = torch.ops.torchao._linear_fp_act_4bit_weight.default
    x = torch.eye(64)
    args = (x, layer.packed_weights, 32, layer.weight_scales, layer.weight_zeros)
    found = make_int4_semantics().parse_matmul(operator, args, {})
    assert found is not None
    torch.testing.assert_close(found.weight.values().T.float(), operator(*args))
    assert make_int4_semantics().parse_matmul(torch.ops.aten.mm.default, (x, x), {}) is None


@pytest.mark.parametrize("wrong", ["scale", "offset", "codes", "group"])
def test_a_wrong_kernel_is_caught(wrong: str) -> None:
    right = fallbacks.IMPLEMENTATIONS[FUNCTION]

    def planted(a: Any, b: Any, group: int, s: Any, z: Any) -> Any:
        s, z = s.clone(), z.clone()
        if wrong == "scale":
            s[0, 0] *= 1.001
        elif wrong == "offset":
            z[3, 1] *= 1.001
        elif wrong == "codes":
            b = (b >> 4) | (b << 4)
        else:
            s = s.flip(1)
        return right(a, b, group, s, z)

    with mock.patch.dict(fallbacks.IMPLEMENTATIONS, {FUNCTION: planted}):
        cell = run_cell(case(64, 8, 3), "metal:fp32", recipe=recipe())
    assert cell.status.value == "mismatch"


def test_a_recipe_skips_cases_without_a_weight_that_fits() -> None:
    for refused in (case(40, 8, 3), case(64, 3, 2), Case("int4/none", relu)):
        assert "nothing to quantize" in (int4.unsupported(refused, refused.make()) or "")
    for taken in (case(64, 8, 3), case(64, 3, 1)):
        assert int4.unsupported(taken, taken.make()) is None


def relu() -> Any:
    return torch.nn.ReLU(), (torch.randn(3),)


def bad() -> Any:
    raise ValueError("planted")


def test_shared_layers_stay_shared_and_others_unchanged() -> None:
    shared = torch.nn.Linear(32, 32)
    attention = torch.nn.MultiheadAttention(32, 1)
    module = torch.nn.Sequential(shared, torch.nn.Linear(8, 8), shared, attention)
    found: Any = int4(module)
    assert found is module
    assert found[0] is found[2]
    assert type(found[0]).__name__ == "UIntxWeightOnlyQuantizedLinear"
    assert type(found[1]) is torch.nn.Linear
    # Its weight is read by attention itself.
    assert isinstance(found[3].out_proj, torch.nn.Linear)


def test_a_layer_of_odd_rows_is_quantized_for_one_row_only() -> None:
    layer: Any = int4(torch.nn.Linear(32, 3))
    rows = torch.randn(2, 32)
    assert torch.equal(layer(rows), layer.plain(rows))
    assert torch.equal(layer(rows[:1]), layer.packed(rows[:1]))
    assert not torch.allclose(layer.plain(rows[:1]), layer.packed(rows[:1]), atol=1e-4)


def test_installing_twice_is_once() -> None:
    """A second kernel for one key would be an error of the dispatcher, or replace the first."""
    install()
    kernels = torch._C._dispatch_dump("torchao::_linear_fp_act_4bit_weight")
    install()
    assert "CPU" in kernels
    assert torch._C._dispatch_dump("torchao::_linear_fp_act_4bit_weight") == kernels
