"""Quantized weights: they lower in a fresh process, bit for bit, and the reference fits them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy
import pytest
import torch

from backends.mlx.backend import make_edge_config, make_partitioners, make_passes
from backends.mlx.payload import reader
from backends.mlx.quantization import AFFINE, MlxWeightFormat, mxfp8, nvfp4
from harness import Case, Tester
from harness.backend_api import GENERIC_SEMANTICS, Precision, Program, Recipe
from harness.pytest_plugin.tests import sessions

pytestmark = pytest.mark.filterwarnings("ignore")  # vendors' own

int4 = AFFINE["int4"]
FORMATS = [int4, mxfp8, nvfp4]
OPTIONS: dict[str, dict[str, Any]] = {
    "int4": {"mode": "affine", "bits": 4, "group_size": 32},
    "mxfp8": {"mode": "mxfp8", "bits": 8, "group_size": 32},
    "nvfp4": {"mode": "nvfp4", "bits": 4, "group_size": 16},
}
OPERATORS = {
    "int4": "dequantize_affine",
    "mxfp8": "dequantize_mx",
    "nvfp4": "dequantize_nvfp4",
}
FRESH = """
import json
import torch
from backends.mlx import quantization
from backends.mlx.payload import reader
from backends.mlx.backend import make_edge_config, make_partitioners, make_passes
from executorch.exir import to_edge_transform_and_lower
from harness.execution.program import Program
from harness.pipeline import speed

speed.install()  # three lowerings
found = {}
for name in ("int4", "mxfp8", "nvfp4"):
    model = torch.nn.Sequential(torch.nn.Embedding(16, 64), torch.nn.Linear(64, 32)).eval()
    weights = quantization.AFFINE.get(name) or getattr(quantization, name)
    model = weights(model.requires_grad_(False))
    exported = torch.export.export(model, (torch.zeros(2, 3, dtype=torch.long),))
    lowered = to_edge_transform_and_lower(
        exported,
        transform_passes=make_passes(),
        partitioner=make_partitioners(),
        compile_config=make_edge_config(),
    )
    program = Program(bytes(lowered.to_executorch().buffer))
    graph = reader.load(program.delegates[0].data)
    found[name] = {
        "operators": [str(node.target) for node in exported.run_decompositions({}).graph.nodes],
        "delegates": len(program.delegates),
        "nodes": [
            [node.kind, {name: vars(node).get(name) for name in ("mode", "bits", "group_size")}]
            for node in graph.chains[graph.main]
        ],
    }
print(json.dumps(found))
"""


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(32, 64)
        self.inner = torch.nn.Linear(64, 64)
        self.head = torch.nn.Linear(64, 32, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        projected: torch.Tensor = self.head(self.inner(self.embed(tokens)))
        return projected


def linear() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    layer = torch.nn.Linear(64, 32, bias=False)
    with torch.no_grad():
        layer.weight[:, 32:] *= 5  # no two blocks have the same scale
    return layer, (torch.randn(3, 64),)


def quantized(
    weight_format: MlxWeightFormat, precision: Precision | None = None, build: Any = linear
) -> Tester:
    """A case that was lowered with quantized weights."""
    recipe = Recipe(
        weight_format.name,
        precision or Precision(),
        quantize_weights=weight_format,
        partitioners=make_partitioners,
        transform_passes=make_passes,
        edge_config=make_edge_config,
    )
    tester = Tester(Case("quantized/linear", build), "mlx:fp32", recipe=recipe)
    return tester.quantize_weights().export().lower().to_executorch().serialize()


class Stored:
    """Contents of the program of :func:`linear`: codes, scales and the tensor's scale."""

    def __init__(self, tester: Tester) -> None:
        delegate = Program(tester.program).delegates[0]
        graph = reader.load(delegate.data)
        (node,) = [n for n in graph.chains[graph.main] if n.kind == "QuantizedMatmulNode"]
        found = reader.load_constants(graph, delegate.named_data)
        data = {constant.slot: numpy.frombuffer(constant.data, numpy.uint8) for constant in found}
        self.mode: str = node.mode
        self.codes = data[node.w].reshape(32, -1)
        self.scales = data[node.scales].reshape(32, -1)
        self.whole = 1.0
        for multiply in (n for n in graph.chains[graph.main] if n.kind == "MultiplyNode"):
            self.whole = float(data[multiply.b].view(numpy.float32)[0])

    def _arguments(self) -> tuple[mx.array, mx.array, mx.array | None]:
        codes = mx.array(numpy.ascontiguousarray(self.codes).view(numpy.uint32))
        if self.mode != "affine":
            return codes, mx.array(self.scales), None
        scales = mx.array(numpy.ascontiguousarray(self.scales).view(numpy.float32))
        return codes, scales, scales * -8

    def decoded(self) -> numpy.ndarray:
        """The weight, as MLX decodes it."""
        options = OPTIONS["int4" if self.mode == "affine" else self.mode]
        decoded = mx.dequantize(*self._arguments(), dtype=mx.float32, **options)
        return numpy.array(decoded * self.whole)

    def product(self, x: torch.Tensor) -> torch.Tensor:
        """The layer's result, as MLX computes it."""
        options = OPTIONS["int4" if self.mode == "affine" else self.mode]
        result = mx.quantized_matmul(mx.array(x.numpy()), *self._arguments(), **options)
        return torch.from_numpy(numpy.array(result * self.whole))


def used(tester: Tester, result: torch.Tensor) -> float:
    """Return the share of the bound that a result uses."""
    reference = tester.reference
    error = (result.double() - reference.oracle[0][0]).abs()
    return float((error / reference.bound[0][0]).max())


def weight_of(weight_format: MlxWeightFormat) -> Any:
    """The same weight as the tester quantizes."""
    module = Case("quantized/linear", linear).make(0).module
    return weight_format(module).weight


def test_a_fresh_process_lowers_them_to_quantized_instructions() -> None:
    ran = sessions.script(FRESH)
    assert ran.returncode == 0, ran.stderr
    for name, found in json.loads(ran.stdout.splitlines()[-1]).items():
        assert found["operators"].count(f"torchao.{OPERATORS[name]}.default") == 2
        assert found["delegates"] == 1
        nodes = dict(found["nodes"])
        assert nodes["QuantizedMatmulNode"] == OPTIONS[name]
        assert nodes["DequantizeNode"] == OPTIONS[name]
        taken = [kind for kind, _ in found["nodes"]].count("TakeNode")
        assert taken == (3 if name == "int4" else 2)


def test_int4_stores_torchaos_codes() -> None:
    weight, stored = weight_of(int4), Stored(quantized(int4))
    codes = numpy.stack([stored.codes & 15, stored.codes >> 4], -1).reshape(32, 64)
    assert numpy.array_equal(codes.astype(int) - 8, weight.qdata.numpy())
    assert not weight.zero_point.any()
    assert numpy.array_equal(stored.scales.view(numpy.float32), weight.scale.numpy())


@pytest.mark.parametrize("weight_format", [mxfp8, nvfp4])
def test_block_floats_store_torchaos_codes(weight_format: MlxWeightFormat) -> None:
    weight, stored = weight_of(weight_format), Stored(quantized(weight_format))
    assert numpy.array_equal(stored.codes, weight.qdata.view(torch.uint8).numpy())
    assert numpy.array_equal(stored.scales, weight.scale.view(torch.uint8).numpy())
    assert stored.whole == (weight.per_tensor_scale.item() if weight_format is nvfp4 else 1)


def test_mlx_quantizes_to_the_same_nvfp4() -> None:
    """Scales bit for bit, codes but for the sign of zeros. mxfp8 has no such test: torchao rounds
    the exponent of a scale down, as the OCP specification does, and MLX to the nearest."""
    stored = Stored(quantized(nvfp4))
    weight = Case("quantized/linear", linear).make(0).module.get_parameter("weight").numpy()
    codes, scales = mx.quantize(
        mx.array(weight), mode="nvfp4", global_scale=mx.array(numpy.abs(weight).max())
    )
    assert numpy.array_equal(numpy.array(scales), stored.scales)
    again = mx.dequantize(codes, scales, mode="nvfp4", dtype=mx.float32) * stored.whole
    assert numpy.array_equal(numpy.array(again), stored.decoded())


@pytest.mark.parametrize("weight_format", FORMATS, ids=lambda f: f.name)
def test_mlx_and_the_oracle_decode_the_same_values(weight_format: MlxWeightFormat) -> None:
    tester = quantized(weight_format)
    graph = tester.reference_module
    (node,) = [n for n in graph.graph.nodes if str(n.target).startswith("torchao.dequantize")]
    state = dict(graph.named_parameters())
    blocks = GENERIC_SEMANTICS.decode(
        node.target,
        torch.fx.map_arg(node.args, lambda n: state[n.target]),
        dict(node.kwargs),
    )
    assert blocks is not None
    oracle, found = blocks.values().numpy(), Stored(tester).decoded().astype(numpy.float64)
    if weight_format is mxfp8:
        assert numpy.array_equal(found, oracle)
    # Two roundings of terms as large as 15 scales, or one of the result.
    largest = 15 * blocks.scale.max().item() if weight_format is int4 else numpy.abs(oracle)
    assert (numpy.abs(found - oracle) <= 2 * 2.0**-24 * largest).all()


@pytest.mark.parametrize("weight_format", FORMATS, ids=lambda f: f.name)
def test_mlxs_product_is_within_the_bound(weight_format: MlxWeightFormat) -> None:
    tester = quantized(weight_format).compute_reference()
    assert 0 < used(tester, Stored(tester).product(tester.built.inputs[0])) < 0.5
    assert tester.run().compare().verdict.passed
    assert 5 < (tester.verdict.numerics[0].model_sqnr_db or 0) < 60


def _one_code(stored: Stored) -> None:
    stored.codes = stored.codes.copy()
    stored.codes[3, 5] ^= 1


def _swapped_halves(stored: Stored) -> None:
    stored.codes = stored.codes >> 4 | stored.codes << 4


def _neighbours_scale(stored: Stored) -> None:
    size = 4 if stored.mode == "affine" else 1
    stored.scales = numpy.roll(stored.scales, size, axis=1)


def _one_scale_bit(stored: Stored) -> None:
    stored.scales = stored.scales.copy()
    stored.scales[7, 2 if stored.mode == "affine" else 0] ^= 1


def _no_second_scale(stored: Stored) -> None:
    stored.whole = 1.0


@pytest.mark.parametrize(
    ("weight_format", "fault"),
    [
        *[(f, fault) for f in FORMATS for fault in (_one_code, _neighbours_scale, _one_scale_bit)],
        (int4, _swapped_halves),
        (nvfp4, _swapped_halves),
        (nvfp4, _no_second_scale),
    ],
    ids=lambda item: item.name if isinstance(item, MlxWeightFormat) else item.__name__,
)
def test_a_wrong_weight_exceeds_the_bound(
    weight_format: MlxWeightFormat, fault: Callable[[Stored], None]
) -> None:
    tester = quantized(weight_format, Precision(block_roundings=33)).compute_reference()
    stored = Stored(tester)
    fault(stored)
    assert used(tester, stored.product(tester.built.inputs[0])) > 1.5


def test_the_bound_holds_for_separately_summed_terms() -> None:
    """As Metal's kernel for few rows does: ``scale · Σ x·code + offset · Σ x`` for 16 at a time.

    Nearly all weights are tiny, so both terms are far larger than their sum.
    """

    def build() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
        layer = torch.nn.Linear(64, 32, bias=False)
        with torch.no_grad():
            layer.weight *= torch.where(torch.arange(64) % 32 == 0, 1.0, 0.1)
        return layer, (torch.rand(1, 64) + 0.5,)

    tester = quantized(int4, Precision(block_roundings=33), build).compute_reference()
    stored = Stored(tester)
    codes = numpy.stack([stored.codes & 15, stored.codes >> 4], -1).reshape(32, 64)
    scales = stored.scales.view(numpy.float32)
    x = tester.built.inputs[0][0].numpy()
    total = numpy.zeros(32, numpy.float32)
    for start in range(0, 64, 16):
        products, plain = numpy.zeros(32, numpy.float32), numpy.float32(0)
        for place in range(start, start + 16):
            products += x[place] * codes[:, place].astype(numpy.float32)
            plain += x[place]
        scale = scales[:, start // 32]
        total += scale * products + numpy.float32(-8) * scale * plain
    assert 0 < used(tester, torch.from_numpy(total)[None]) < 0.5


@pytest.mark.parametrize("weight_format", FORMATS, ids=lambda f: f.name)
def test_a_shared_weight_stays_shared(weight_format: MlxWeightFormat) -> None:
    module = weight_format(Tied().requires_grad_(False))
    assert module.get_submodule("head").weight is module.get_submodule("embed").weight
    tester = quantized(
        weight_format,
        build=lambda: (Tied(), (torch.randint(0, 32, (2, 5)),)),
    )
    assert tester.run().compare().verdict.passed
    graph = reader.load(Program(tester.program).delegates[0].data)
    nodes = graph.chains[graph.main]
    head = [node for node in nodes if node.kind == "QuantizedMatmulNode"][-1]
    looked_up = [node.x for node in nodes if node.kind == "TakeNode"]
    assert looked_up[:2] == [head.w, head.scales]


@pytest.mark.parametrize(
    ("weight_format", "names"), [(int4, ["1.weight"]), (mxfp8, ["1.weight"]), (nvfp4, [])]
)
def test_weights_that_do_not_fit_stay_floating_point(
    weight_format: MlxWeightFormat, names: list[str]
) -> None:
    attention = torch.nn.MultiheadAttention(64, 4)
    module = torch.nn.Sequential(torch.nn.Linear(40, 64), torch.nn.Linear(64, 17), attention)
    weight_format(module)
    changed = [n for n, p in module.named_parameters() if type(p.data) is not torch.Tensor]
    assert changed == names


def test_a_recipe_names_cases_that_it_does_not_quantize() -> None:
    case = Case("plain/relu", lambda: (torch.nn.ReLU(), (torch.randn(3),)))
    for weight_format in FORMATS:
        reason = weight_format.unsupported(case, case.make())
        assert reason is not None
        assert weight_format.name in reason
        fitting = Case("quantized/linear", linear)
        assert weight_format.unsupported(fitting, fitting.make()) is None
    half = Case("half/linear", lambda: (torch.nn.Linear(64, 32).half(), (torch.randn(3).half(),)))
    assert int4.unsupported(half, half.make()) is None
    assert "float16" in (nvfp4.unsupported(half, half.make()) or "")


def test_packed_experts_are_quantized() -> None:
    def build() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
        from executorch.backends.mlx.llm.switch import SwitchLinear

        experts = SwitchLinear(64, 48, 3)
        experts.pack()
        return experts, (torch.randn(5, 1, 64), torch.tensor([2, 0, 1, 1, 2]))

    tester = quantized(int4, build=build)
    graph = reader.load(Program(tester.program).delegates[0].data)
    (node,) = [n for n in graph.chains[graph.main] if n.kind == "GatherQmmNode"]
    assert {name: vars(node)[name] for name in OPTIONS["int4"]} == OPTIONS["int4"]
    verdict = tester.run().compare().verdict
    assert verdict.passed
    assert 10 < (verdict.numerics[0].model_sqnr_db or 0) < 40
    experts = Case("experts", build)
    assert mxfp8.unsupported(experts, experts.make()) is not None
