"""The calls of overloads: complete, reproducible, and red where a backend computes another one."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable
from typing import Any

import pytest
import torch

from harness import Case, Status, run_cell
from suites.overloads.calls import APART, CASES
from suites.overloads.choose import CHOSEN
from suites.overloads.claims import EXCLUDED, find_operators, find_overloads
from suites.overloads.generate import MOST, find_refusal, make_calls
from suites.overloads.program import Build, Overload, parse_call

CALLS: dict[str, list[str]] = json.loads(CHOSEN.read_text(encoding="utf-8"))


def test_every_overload_that_is_claimed_has_calls() -> None:
    claimed = find_operators()
    assert {"core", "xnnpack", "mlx", "tosa", "metal", "portable"} == set().union(*claimed.values())
    assert set(find_overloads(claimed)) == set(CALLS)
    assert all(1 <= len(calls) <= MOST for calls in CALLS.values())


def test_every_exclusion_excludes_an_overload() -> None:
    names = {
        f"{name}.{overload}"
        for name in find_operators()
        for overload in getattr(torch.ops.aten, name).overloads()
    }
    for globs in EXCLUDED:
        for glob in globs.split("|"):
            assert fnmatch.filter(names, glob), glob


@pytest.mark.parametrize("name", sorted(CALLS)[::40])
def test_calls_are_reproducible(name: str) -> None:
    assert make_calls(name).calls == CALLS[name]


def test_overloads_apart_exist() -> None:
    assert set(CALLS) >= APART
    assert "overloads/mean.dim/call_0" in {case.name for case in CASES}


def test_a_call_is_parsed_into_tensors_and_arguments() -> None:
    call = parse_call("f32.pos(2, 3), [-1, None], torch.float16, keepdim=True, end=-inf")
    assert call.tensors[0].spec.shape == (2, 3)
    assert call.args[1:] == ([-1, None], torch.float16)
    assert call.kwargs == {"keepdim": True, "end": float("-inf")}
    with pytest.raises(ValueError, match="no kind of tensor"):
        parse_call("f32.strange(2)")


def test_buffers_are_no_inputs_and_inputs_are_kept() -> None:
    module = Overload("add_.Tensor", ("f32(2, 3), f32.buffer(3)",))
    (x,) = module.make_inputs()
    before = x.clone()
    (result,) = module(x).values()
    assert torch.equal(result, before + module.buffer_1)
    assert torch.equal(x, before)


def test_eager_refuses_wrong_calls() -> None:
    assert "IndexError" in find_refusal("sum.dim_IntList", "f32(2), [3]")
    assert not find_refusal("sum.dim_IntList", "f32(2), [0]")


def _run(name: str, call: str, target: str) -> Any:
    return run_cell(Case("overloads/altered", Build(name, (call,))), target)


def _lose_last_part(call: Callable[..., Any]) -> Callable[..., Any]:
    def altered(self: Any, graph_module: torch.fx.GraphModule) -> Any:
        for node in graph_module.graph.nodes:
            if node.target in self.split_ops:
                parts = sorted(node.users, key=lambda user: user.args[1])
                parts[-1].args = (node, parts[0].args[1])
        return call(self, graph_module)

    return altered


@pytest.mark.parametrize("size", [2, 5])
def test_a_lost_part_of_a_split_is_red(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    from executorch.backends.arm._passes.convert_split_to_slice import ConvertSplitToSlicePass

    altered = _lose_last_part(ConvertSplitToSlicePass.call)
    monkeypatch.setattr(ConvertSplitToSlicePass, "call", altered)
    cell = _run("split.Tensor", f"f32(4, 5), {size}, -1", "tosa:fp")
    assert cell.status.is_red is (size == 2), cell.error  # of size 5 there is one part


def test_swapped_operands_of_pow_scalar_are_red(monkeypatch: pytest.MonkeyPatch) -> None:
    from executorch.exir.passes import ToOutVarPass

    call = ToOutVarPass.call

    def altered(self: Any, graph_module: torch.fx.GraphModule) -> Any:
        for node in graph_module.graph.nodes:
            if "pow.Scalar" in str(node.target):
                from executorch.exir.dialects._ops import ops

                node.target = ops.edge.aten.pow.Tensor_Scalar
                node.args = (node.args[1], node.args[0])
        return call(self, graph_module)

    assert _run("pow.Scalar", "2.5, f32(3, 4)", "xnnpack:fp32").status is Status.PASSED
    monkeypatch.setattr(ToOutVarPass, "call", altered)
    assert _run("pow.Scalar", "2.5, f32(3, 4)", "xnnpack:fp32").status is Status.MISMATCH
