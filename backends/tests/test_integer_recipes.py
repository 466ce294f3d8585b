"""Integer recipes quantize and reject the right operators, and catch wrong programs."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from executorch.backends.arm._passes.decompose_var_pass import DecomposeVarPass
from executorch.backends.xnnpack.quantizer import xnnpack_quantizer_utils
from torchao.quantization.pt2e import quantize_pt2e

from harness import Case, LowerOptions, Status, Tester, Verdict, run_cell
from harness.numerics.compare import compare
from harness.pipeline import stages
from harness.pipeline.speed import patterns
from suites.build import nn_case, op, randn, values

STATIC = ("xnnpack:int8", "xnnpack:int8_per_tensor", "tosa:int")
PER_CHANNEL = ("xnnpack:int8", "tosa:int")
TARGETS = (*STATIC, "xnnpack:int8_dynamic")
SEEDS = (1, 2)


def names(tester: Tester) -> set[str]:
    graph = tester.export().quantize().quantized.graph
    return {str(node.target) for node in graph.nodes if node.op == "call_function"}


def linear() -> Case:
    return nn_case("linear/quantized", lambda: torch.nn.Linear(16, 8), randn(3, 16))


def test_weights_have_a_scale_each_channel_or_one() -> None:
    def decoded_per_channel(target: str) -> bool:
        return any("dequantize_per_channel" in name for name in names(Tester(linear(), target)))

    assert decoded_per_channel("xnnpack:int8")
    assert decoded_per_channel("xnnpack:int8_dynamic")
    assert not decoded_per_channel("xnnpack:int8_per_tensor")


def test_only_the_dynamic_recipe_chooses_scales_when_it_runs() -> None:
    for target in TARGETS:
        chosen = any("choose_qparams" in name for name in names(Tester(linear(), target)))
        assert chosen == (target == "xnnpack:int8_dynamic")


@pytest.mark.parametrize("target", ["xnnpack:int8", "xnnpack:int8_per_tensor"])
def test_a_static_chain_is_one_delegate_from_float_to_float(target: str) -> None:
    case = nn_case(
        "chain",
        lambda: torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.ReLU(), torch.nn.Linear(6, 4)),
        randn(2, 8),
    )
    cell = run_cell(case, target)
    assert cell.status is Status.PASSED
    assert (cell.delegation.delegates, cell.delegation.undelegated_nodes) == (1, 0)


def test_each_dynamically_quantized_layer_is_a_delegate() -> None:
    case = nn_case(
        "chain",
        lambda: torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.Linear(6, 4)),
        randn(2, 8),
    )
    cell = run_cell(case, "xnnpack:int8_dynamic")
    assert cell.status is Status.PASSED
    assert (cell.delegation.delegates, cell.delegation.undelegated_nodes) == (2, 0)


@pytest.mark.parametrize("target", [name for name in TARGETS if "xnnpack" in name])
def test_nothing_to_quantize_is_unsupported_with_the_reason(target: str) -> None:
    cell = run_cell(op("sigmoid/alone", torch.sigmoid, randn(3)), target)
    assert cell.status is Status.UNSUPPORTED
    assert cell.stage == "quantize"
    assert "XNNPACK's quantizer quantizes nothing" in (cell.error or "")


@pytest.mark.parametrize("target", STATIC)
def test_infinities_cannot_be_calibrated_with(target: str) -> None:
    case = op("add/infinite", lambda x: x + x, values([1.0, float("inf")], 4))
    cell = run_cell(case, target)
    assert cell.status is Status.UNSUPPORTED
    assert "calibrated" in (cell.error or "")


def test_kept_patterns_are_those_that_upstream_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    patterns.install(monkeypatch.setattr)  # other tests of this process undo all parts
    kept: Any = xnnpack_quantizer_utils._get_aten_graph_module_for_pattern
    inputs = (torch.randn(1, 1, 3), torch.randn(1, 1, 1), torch.randn(1))

    def pattern(function: Callable[..., torch.Tensor], relu: bool) -> Any:
        def run(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> Any:
            out = function(x, weight, bias)
            return (torch.relu(out) if relu else out), {"input": x}

        return xnnpack_quantizer_utils.WrapperModule(run)

    convolutions = (torch.nn.functional.conv1d, torch.nn.functional.conv_transpose1d)
    code = set()
    for function in convolutions:
        for relu in (False, True):
            upstream = kept.__wrapped__(pattern(function, relu), inputs)
            for _ in range(2):
                found = kept(pattern(function, relu), inputs)
                assert found.code == upstream.code
                found.graph.erase_node(found.graph.output_node())  # as matching edits it
            code.add(upstream.code)
    assert len(code) == 4, "the closure distinguishes a pattern from the others"


class Layer(torch.nn.Module):
    """A layer whose bias cancels the mean of a sum of positive products, so that an error common to
    the products is many steps of the result. Its relu shares a scale with its argument, so that the
    range does not clamp."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(64, 8)
        with torch.no_grad():
            self.layer.weight.uniform_(0.5, 1.5).mul_(torch.linspace(1, 2, 8).unsqueeze(1))
            self.layer.bias.copy_(-0.75 * self.layer.weight.sum(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.layer(x)
        return torch.relu(hidden) + hidden


CASE = Case("planted", lambda: (Layer(), (torch.rand(6, 64) / 2 + 0.5,)))


def nodes(graph: torch.fx.GraphModule, name: str) -> list[torch.fx.Node]:
    return [node for node in graph.graph.nodes if name in str(node.target)]


def weight_scale(graph: torch.fx.GraphModule, edit: Callable[[Any], Any]) -> None:
    """Edit the scale of the only weight: a tensor per channel, a number per tensor."""
    for node in nodes(graph, "dequantize_per_channel"):
        tensor: torch.Tensor = getattr(graph, str(node.args[1].target))
        tensor.copy_(edit(tensor))
        return
    weight = next(
        node for node in nodes(graph, "dequantize_per_tensor") if node.args[0].op == "get_attr"
    )
    weight.update_arg(1, edit(weight.args[1]))


def off_by_a_128th(graph: torch.fx.GraphModule) -> None:
    weight_scale(graph, lambda scale: scale * (1 + 1 / 128))
    # Arm's bias is in the accumulator's unit; a scale of its own would not change it.
    for bias in nodes(graph, "dequantize_per_channel")[1:]:
        codes: torch.Tensor = getattr(graph, str(bias.args[0].target))
        codes.copy_(codes / (1 + 1 / 128))


def permuted_scales(graph: torch.fx.GraphModule) -> None:
    weight_scale(graph, lambda scale: scale.roll(1))


def no_bias(graph: torch.fx.GraphModule) -> None:
    (layer,) = nodes(graph, "aten.linear")
    layer.args = layer.args[:2]


def no_relu(graph: torch.fx.GraphModule) -> None:
    (relu,) = nodes(graph, "aten.relu")
    relu.replace_all_uses_with(relu.args[0])
    graph.graph.erase_node(relu)


def input_step(graph: torch.fx.GraphModule) -> float:
    step = nodes(graph, ".quantize_per_tensor")[0].args[1]
    assert isinstance(step, float)
    return step


@functools.cache
def honest(target: str) -> Tester:
    return Tester(CASE, target).export().quantize().compute_reference()


def run(
    target: str,
    edit: Callable[[torch.fx.GraphModule], None] = lambda graph: None,
    given: Callable[[torch.Tensor, float], torch.Tensor] | None = None,
) -> Verdict:
    """Execute an edited program or edited inputs; compare with the unedited graph."""
    tester = honest(target)
    graph = copy.deepcopy(tester.quantized)
    edit(graph)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    recipe = tester.recipe
    options = LowerOptions(recipe.partitioners(), (), recipe.edge_config())
    lowered = stages.lower(stages.export(graph, tester.built.inputs), options)
    program = stages.serialize(stages.to_executorch(lowered))
    (x,) = tester.built.inputs
    shown = x if given is None else given(x, input_step(tester.quantized))
    outputs: Sequence[Sequence[torch.Tensor]] = tester.backend.execute(program, [(shown,)]).outputs
    return compare(outputs, tester.reference)


FAULTS = {
    "scale off by 1/128": off_by_a_128th,
    "missing bias": no_bias,
}


@pytest.mark.one_of(3)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("target", TARGETS)
def test_a_wrong_constant_is_caught(target: str, fault: str) -> None:
    verdict = run(target, FAULTS[fault])
    assert not verdict.passed, verdict.numerics
    steps = verdict.numerics[0].max_steps
    assert (steps is None) == (target == "xnnpack:int8_dynamic")
    assert steps is None or steps > 2


@pytest.mark.parametrize("target", [*PER_CHANNEL, "xnnpack:int8_dynamic"])
def test_permuted_scales_are_caught(target: str) -> None:
    assert not run(target, permuted_scales).passed


@pytest.mark.parametrize("target", PER_CHANNEL)
def test_a_missing_relu_is_caught(target: str) -> None:
    assert not run(target, no_relu).passed


# Inputs are decoded with a wrong zero point, or were quantized with one.
@pytest.mark.parametrize(
    "given",
    [
        pytest.param(lambda x, step: x - step, id="zero_point_off_by_one"),
        pytest.param(lambda x, step: (x / step).trunc() * step, id="rounded_toward_zero"),
    ],
)
@pytest.mark.parametrize("target", PER_CHANNEL)
def test_a_wrong_encoding_of_the_input_is_caught(
    target: str, given: Callable[[torch.Tensor, float], torch.Tensor]
) -> None:
    verdict = run(target, given=given)
    assert not verdict.passed, verdict.numerics


@pytest.mark.one_of(2)
@pytest.mark.parametrize("target", TARGETS)
def test_the_same_program_without_the_fault_passes(target: str) -> None:
    verdict = run(target)
    assert verdict.passed, verdict.numerics
    for seed in SEEDS:
        cell = run_cell(CASE, target, seed=seed)
        assert cell.status is Status.PASSED, cell.error


def test_a_variance_that_arms_passes_rewrite_is_compared_with_the_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Plant a fault: ``keepdim`` takes the value of ``unbiased``."""
    case = op(
        "var/kept_dimension",
        lambda x: torch.ops.aten.var.dim(x, [1], False, True),
        randn(2, 5, 6),
    )
    cell = run_cell(case, "tosa:int")
    assert cell.status is Status.PASSED, cell.error
    form, _ = cell.intermediates
    assert form.name == "rewritten"
    assert not form.identical
    assert 0 < form.numerics[0].bound_used < 1
    honest: Any = DecomposeVarPass.call_operator

    def call_operator(self: Any, function: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        if function == torch.ops.aten.var.dim:
            args = (*args[:3], args[2])
        return honest(self, function, args, kwargs, meta)

    monkeypatch.setattr(DecomposeVarPass, "call_operator", call_operator)
    cell = run_cell(case, "tosa:int")
    assert (cell.status, cell.stage) == (Status.FAILED, "quantize")
    assert cell.error is not None
    assert "rewriting changed the module" in cell.error
    assert "output 0: shape (2, 6), expected (2, 1, 6)" in cell.error


class Masked(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(6, 6)
        self.register_buffer("mask", torch.full((6, 6), -torch.inf).triu(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.linear(x) + self.mask, -1)


@pytest.mark.parametrize("target", ["tosa:int", "xnnpack:int8"])
def test_a_quantizer_that_writes_to_the_callers_mask_is_red(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = quantize_pt2e._fuse_conv_bn_

    def fuse(graph: torch.fx.GraphModule) -> None:
        for buffer in graph.buffers():
            buffer.data.nan_to_num_(neginf=255.0)
        honest(graph)

    monkeypatch.setattr(quantize_pt2e, "_fuse_conv_bn_", fuse)
    cell = run_cell(Case("masked", lambda: (Masked(), (torch.randn(1, 6, 6),))), target)
    assert (cell.status, cell.stage) == (Status.FAILED, "quantize")
    assert cell.error == "AlteredByCall: prepare changed what it was given: buffer mask"
    assert cell.side_effects == ["buffer mask"]
