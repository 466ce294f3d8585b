"""The MX recipes of TOSA: conversion, the lowered graph and its weights, in a fresh process too."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy
import pytest
import torch
from executorch.backends.arm.ao_ext.ops import MXFPConv2dOp, MXFPLinearOp

from backends.tosa.graph import TosaGraph, TosaOperator, TosaTensor
from backends.tosa.mxfp import FORMATS
from backends.tosa.mxfp_graph import find_converted_layers, find_problems, read_graphs, verify
from harness import Case, Status, Tester, run_cell
from harness.backend_api import Lowered
from harness.numerics.formats.packing import unpack_codes
from harness.pipeline.route import lower
from harness.pytest_plugin.tests import sessions
from suites.mxfp import conv, linear

pytestmark = pytest.mark.filterwarnings("ignore")  # vendors' own

NAMES = sorted(FORMATS)
E4M3 = FORMATS["mxfp8_e4m3"]
FRESH = """
import json, sys
import torch
from backends.tosa.backend import BACKEND
from backends.tosa.graph import read_graph
from executorch.exir import to_edge_transform_and_lower
from harness.execution.program import Program
from harness.pipeline import speed

speed.install()  # five lowerings
found = {}
before = hasattr(torch.ops.tosa_mxfp, "linear")
for name in ("mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2"):
    recipe = BACKEND.recipes[name]
    model = torch.nn.Sequential(torch.nn.Linear(64, 16), torch.nn.ReLU()).eval()
    model = recipe.quantize_weights(model.requires_grad_(False))
    exported = torch.export.export(model, (torch.zeros(2, 64),))
    lowered = to_edge_transform_and_lower(
        exported, partitioner=recipe.partitioners(), compile_config=recipe.edge_config()
    )
    (payload,) = Program(bytes(lowered.to_executorch().buffer)).delegates
    found[name] = {
        "exported": [str(node.target) for node in exported.graph.nodes],
        "lowered": [operator.name for operator in read_graph(payload.data).operators],
    }
tests = [name for name in sys.modules if name.startswith("executorch.backends.arm.test")]
print("FOUND", json.dumps({"before": before, "formats": found, "tests": tests}))
"""


class Two(torch.nn.Module):
    """Two linear layers with one input and a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(64, 16)
        self.second = torch.nn.Linear(64, 16, bias=False)
        self.conv = torch.nn.Conv2d(32, 8, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.first(x), self.second(x), self.conv(x.reshape(1, 32, 2, 4))


@cache
def lowered(name: str) -> Tester:
    tester = Tester(Case("two", lambda: (Two(), (torch.randn(4, 64),))), f"tosa:{name}")
    lower(tester)
    return tester


@pytest.mark.nightly
def test_a_fresh_process_lowers_and_imports_no_test() -> None:
    done = sessions.script(FRESH)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("FOUND")]
    found = json.loads(line.removeprefix("FOUND"))
    assert found["tests"] == []
    assert not found["before"]
    assert sorted(found["formats"]) == NAMES
    for seen in found["formats"].values():
        assert "tosa_mxfp.linear.default" in seen["exported"]
        assert seen["lowered"].count("CAST_TO_BLOCK_SCALED") == 1
        assert seen["lowered"].count("MATMUL_T_BLOCK_SCALED") == 1


def test_conversion_reaches_every_layer_that_fits() -> None:
    linear = torch.nn.Linear(64, 64)
    attention = torch.nn.MultiheadAttention(64, 2)
    module = torch.nn.Sequential(linear, linear, torch.nn.Linear(40, 64), attention)
    converted = E4M3(module)
    kinds = [type(part).__name__ for part in converted]
    assert kinds == ["MXFPLinearOp", "MXFPLinearOp", "Linear", "MultiheadAttention"]
    # Attention reads its projection's weight, which a converted layer does not have.
    assert hasattr(attention.out_proj, "weight")
    assert torch.equal(converted[0].weight_scale, converted[1].weight_scale)
    assert type(E4M3(torch.nn.Linear(64, 8))).__name__ == "MXFPLinearOp"


def test_upstream_leaves_layers_in_float_without_a_word() -> None:
    # Because of this the conversion walks the module itself, until upstream fixes it.
    from executorch.backends.arm.ao_ext import MXFPOpConfig, to_mxfp

    alone = torch.nn.Linear(64, 64)
    to_mxfp(alone, MXFPOpConfig())
    assert type(alone) is torch.nn.Linear
    shared = torch.nn.Sequential(*[torch.nn.Linear(64, 64)] * 2)
    to_mxfp(shared, MXFPOpConfig())
    assert type(shared[1]) is torch.nn.Linear
    circular = torch.nn.Sequential(torch.nn.Conv2d(32, 8, 3, padding=1, padding_mode="circular"))
    expected = circular(x := torch.randn(1, 32, 4, 4))
    to_mxfp(circular, MXFPOpConfig())
    assert (circular(x) - expected).abs().max() > 0.1 * expected.abs().max()


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (lambda: torch.nn.Linear(40, 8), "Linear in_features=40 is no multiple of the block size"),
        (lambda: torch.nn.Conv2d(40, 8, 1), "in_channels=40 is no multiple of the block size 32"),
        (lambda: torch.nn.Conv2d(64, 8, 1, groups=2), "groups=2"),
        (lambda: torch.nn.Conv2d(32, 8, 3, padding="same"), "'same' is not a number"),
        (lambda: torch.nn.Conv2d(32, 8, 3, padding_mode="reflect"), "'reflect' is not zeros"),
        (lambda: torch.nn.Linear(64, 8).double(), "weights are float64"),
        (torch.nn.ReLU, "no linear layer or 2-d conv"),
    ],
)
def test_a_case_without_a_layer_that_fits_has_a_reason(
    layer: Callable[[], torch.nn.Module], reason: str
) -> None:
    cell = run_cell(Case("one", lambda: (layer(), (torch.zeros(1),))), "tosa:mxfp4")
    assert cell.status.value == "unsupported"
    assert cell.error is not None
    assert cell.error.startswith("nothing to convert to mxfp4: ")
    assert reason in cell.error


def test_upstream_refuses_operators_left_in_floating_point() -> None:
    from executorch.backends.arm.ao_ext import MXFPOpConfig, to_mxfp

    for layer in (torch.nn.Linear(40, 8), torch.nn.Conv2d(40, 8, 1)):
        with pytest.raises(ValueError, match=r"=40 must be divisible by block_size=32"):
            to_mxfp(torch.nn.Sequential(layer), MXFPOpConfig())


@pytest.mark.one_of(3)
@pytest.mark.parametrize("name", NAMES)
def test_a_lowered_program_is_verified_and_its_weights_recorded(name: str) -> None:
    tester, made = lowered(name), FORMATS[name]
    assert verify(made, tester.serialized) is None
    assert tester.recipe.encodings is not None
    found = {one.parameter: one for one in tester.recipe.encodings(tester.serialized)}
    assert sorted(found) == ["conv.weight", "first.weight", "second.weight"]
    assert {one.element for one in found.values()} == {name.partition("_")[2] or "e2m1"}
    layers = {layer.weight: layer for layer in find_converted_layers(tester.exported, made)}
    for parameter, layer in layers.items():
        assert found[parameter] == type(found[parameter]).of(
            parameter, found[parameter].element, 32, layer.columns, layer.codes, layer.scales
        )
        assert len(layer.codes) == 32 * len(layer.scales)


def _replaced(
    graph: TosaGraph, name: str, edit: Callable[[TosaOperator], TosaOperator]
) -> TosaGraph:
    """The graph with the first operator of a name edited."""
    at = next(i for i, operator in enumerate(graph.operators) if operator.name == name)
    operators = [*graph.operators]
    operators[at] = edit(operators[at])
    return dataclasses.replace(graph, operators=tuple(operators))


def _operand(graph: TosaGraph, name: str, place: int, **fields: object) -> TosaGraph:
    """The graph with an input of the first operator of a name changed."""
    operator = next(one for one in graph.operators if one.name == name)
    tensor = graph.tensors[operator.inputs[place]]
    changed = dataclasses.replace(tensor, **fields)  # type: ignore[arg-type]
    return dataclasses.replace(graph, tensors={**graph.tensors, tensor.name: changed})


def _swapped(names: tuple[str, ...]) -> tuple[str, ...]:
    return (names[1], names[0], *names[2:])


def _flipped(tensor: TosaTensor) -> bytes:
    return bytes([tensor.data[0] ^ 1]) + tensor.data[1:]


CAST, MATMUL, CONV = "CAST_TO_BLOCK_SCALED", "MATMUL_T_BLOCK_SCALED", "CONV2D_BLOCK_SCALED"
BREAKS: dict[str, tuple[Callable[[TosaGraph], TosaGraph], str]] = {
    "a product less": (
        lambda graph: dataclasses.replace(
            graph, operators=tuple(one for one in graph.operators if one.name != CONV)
        ),
        "0 CONV2D_BLOCK_SCALED, expected 1",
    ),
    "a product more": (
        lambda graph: dataclasses.replace(graph, operators=(*graph.operators, _of(graph, MATMUL))),
        "3 MATMUL_T_BLOCK_SCALED, expected 2",
    ),
    "block of the cast": (
        lambda graph: _replaced(graph, CAST, lambda one: dataclasses.replace(one, block_size=16)),
        "CAST_TO_BLOCK_SCALED has the block size 16, expected 32",
    ),
    "block of the product": (
        lambda graph: _replaced(graph, MATMUL, lambda one: dataclasses.replace(one, block_size=1)),
        "MATMUL_T_BLOCK_SCALED has the block size 1, expected 32",
    ),
    "outputs of the cast": (
        lambda graph: _replaced(
            graph, CAST, lambda one: dataclasses.replace(one, outputs=_swapped(one.outputs))
        ),
        "outputs of CAST_TO_BLOCK_SCALED: FP8UE8M0 with FP8E4M3",
    ),
    "inputs of the product": (
        lambda graph: _replaced(
            graph, MATMUL, lambda one: dataclasses.replace(one, inputs=_swapped(one.inputs))
        ),
        "activation of MATMUL_T_BLOCK_SCALED: FP8UE8M0 with FP8E4M3",
    ),
    "scales of another cast": (
        lambda graph: _replaced(
            graph,
            MATMUL,
            lambda one: dataclasses.replace(
                one, inputs=(one.inputs[0], one.inputs[3], *one.inputs[2:])
            ),
        ),
        "activation of MATMUL_T_BLOCK_SCALED: scales",
    ),
    "type of the payload": (
        lambda graph: _operand(graph, CONV, 2, dtype="FP8E5M2"),
        "weight of CONV2D_BLOCK_SCALED: FP8E5M2 with FP8UE8M0, expected FP8E4M3",
    ),
    "type of the scales": (
        lambda graph: _operand(graph, MATMUL, 3, dtype="INT8"),
        "FP8E4M3 with INT8",
    ),
    "a code": (
        lambda graph: _operand(
            graph, MATMUL, 2, data=_flipped(graph.tensors[_of(graph, MATMUL).inputs[2]])
        ),
        "weights differ from the exported program: first.weight",
    ),
    "a scale": (
        lambda graph: _operand(
            graph, CONV, 3, data=_flipped(graph.tensors[_of(graph, CONV).inputs[3]])
        ),
        "weights differ from the exported program: conv.weight",
    ),
    "a weight that is no constant": (
        lambda graph: _operand(graph, MATMUL, 2, data=b""),
        "the weight of MATMUL_T_BLOCK_SCALED is not a constant",
    ),
    "type of the result": (
        lambda graph: dataclasses.replace(
            graph,
            tensors={
                **graph.tensors,
                (name := _of(graph, MATMUL).outputs[0]): dataclasses.replace(
                    graph.tensors[name], dtype="BF16"
                ),
            },
        ),
        "returns BF16, expected FP32",
    ),
    "a stride that leaves a rest": (
        lambda graph: dataclasses.replace(
            graph, shapes={**graph.shapes, _of(graph, CONV).inputs[6]: (1, 3)}
        ),
        "invalid TOSA: the stride 3 of CONV2D_BLOCK_SCALED does not divide 2",
    ),
}


def _of(graph: TosaGraph, name: str) -> TosaOperator:
    return next(one for one in graph.operators if one.name == name)


@pytest.mark.parametrize("name", BREAKS)
def test_each_requirement_can_fail(name: str) -> None:
    tester = lowered("mxfp8_e4m3")
    change, expected = BREAKS[name]
    (graph,) = read_graphs(tester.serialized.program)
    layers = find_converted_layers(tester.exported, E4M3)
    assert list(find_problems([graph], E4M3, layers)) == []
    found = list(find_problems([change(graph)], E4M3, layers))
    assert any(expected in problem for problem in found), found


def test_a_product_of_two_casts_is_refused() -> None:
    (graph,) = read_graphs(lowered("mxfp8_e4m3").serialized.program)
    scale = graph.tensors[_of(graph, CAST).outputs[1]]
    other = dataclasses.replace(scale, name="elsewhere")
    graph = dataclasses.replace(graph, tensors={**graph.tensors, "elsewhere": other})
    changed = _replaced(
        graph,
        MATMUL,
        lambda one: dataclasses.replace(one, inputs=(one.inputs[0], "elsewhere", *one.inputs[2:])),
    )
    found = list(
        find_problems([changed], E4M3, find_converted_layers(lowered("mxfp8_e4m3").exported, E4M3))
    )
    assert found == [
        "MATMUL_T_BLOCK_SCALED does not take codes and scales, in this order, of one "
        "CAST_TO_BLOCK_SCALED"
    ]


class Idle(torch.nn.Module):
    """A layer of constants, and a layer whose second result is unused, as in detectors."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("queries", torch.randn(4, 64))
        self.constant = torch.nn.Linear(64, 32)
        self.working = torch.nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.working(x + 1)
        return self.working(x) + self.constant(self.queries)


def test_layers_that_the_compiler_folds_or_drops_are_not_missed() -> None:
    tester = Tester(Case("idle", lambda: (Idle(), (torch.randn(4, 64),))), "tosa:mxfp8_e4m3")
    lower(tester)
    layers = find_converted_layers(tester.exported, E4M3)
    needed = sorted((layer.weight, layer.is_needed) for layer in layers)
    working = "working.weight"
    assert needed == [("constant.weight", False), (working, False), (working, True)]
    (graph,) = read_graphs(tester.serialized.program)
    assert [one.name for one in graph.operators].count(MATMUL) < len(layers)
    assert list(find_problems([graph], E4M3, layers)) == []
    without = tuple(one for one in graph.operators if one.name != MATMUL)
    found = list(find_problems([dataclasses.replace(graph, operators=without)], E4M3, layers))
    assert f"0 {MATMUL}, expected 1 to 3" in found
    assert found[-1].endswith(working)


def test_a_module_that_was_not_converted_fails_the_cell() -> None:
    lazy = dataclasses.replace(lowered("mxfp8_e4m3").recipe, quantize_weights=lambda module: module)
    case = Case("plain", lambda: (torch.nn.Linear(64, 16), (torch.randn(2, 64),)))
    cell = run_cell(case, "tosa:mxfp8_e4m3", recipe=lazy)
    assert (cell.status.value, cell.stage) == ("failed", "lower")
    assert cell.error == "no layer was converted before export"


def test_an_operator_that_is_left_over_fails_the_cell() -> None:
    recipe = dataclasses.replace(
        lowered("mxfp8_e4m3").recipe, partitioners=list, require_delegation=False
    )
    tester = Tester(
        Case("one", lambda: (torch.nn.Linear(64, 16), (torch.randn(2, 64),))),
        "tosa:mxfp8_e4m3",
        recipe=recipe,
    )
    tester.quantize_weights().export().lower()
    lowered_edge = tester.lowered.exported_program()
    left = Lowered(tester.exported, lowered_edge, b"", None, tester.delegation)  # type: ignore[arg-type]
    assert verify(E4M3, left) == "not delegated: tosa_mxfp.linear.default"


@pytest.mark.parametrize("bits", [4, 6, 8])
def test_packed_codes_are_unpacked(bits: int) -> None:
    codes = numpy.random.default_rng(bits).integers(0, 2**bits, 96, dtype=numpy.uint8)
    stream = sum(int(code) << (bits * place) for place, code in enumerate(codes))
    packed = stream.to_bytes(96 * bits // 8, "little")
    assert unpack_codes(packed, bits) == codes.tobytes()


def test_a_payload_is_read_back() -> None:
    (graph,) = read_graphs(lowered("mxfp4").serialized.program)
    blocks = {one.name: one.block_size for one in graph.operators if one.block_size is not None}
    assert blocks == {CAST: 32, MATMUL: 32, CONV: 32}
    weight = graph.tensors[_of(graph, CONV).inputs[2]]
    assert (weight.dtype, weight.shape, len(weight.data)) == ("FP4E2M1", (8, 2, 2, 32), 512)
    pad, stride, dilation = (graph.shapes[name] for name in _of(graph, CONV).inputs[5:8])
    assert (pad, stride, dilation) == ((0, 0, 0, 0), (1, 1), (1, 1))


@pytest.mark.parametrize("name", ["mxfp_conv2d/bf16", "mxfp_linear/bf16_rank3"])
def test_a_layer_that_returns_another_dtype_than_the_module_is_red(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (case,) = (case for case in (*conv.CASES, *linear.CASES) if case.name == name)
    cell = run_cell(case, "tosa:mxfp8_e4m3")
    assert cell.status is Status.PASSED, cell.error
    for layer in (MXFPConv2dOp, MXFPLinearOp):
        honest: Any = layer.__init__

        def init(self: Any, *args: Any, honest: Any = honest) -> None:
            honest(self, *args)
            self.output_dtype = torch.float32

        monkeypatch.setattr(layer, "__init__", init)
    cell = run_cell(case, "tosa:mxfp8_e4m3")
    assert (cell.status, cell.stage) == (Status.MISMATCH, "compare")
    assert cell.error == "call 0 output 0: dtype float32, expected bfloat16"
