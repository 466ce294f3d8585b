"""Descriptions of programs of any origin."""

from __future__ import annotations

import random

import msgspec
import pytest
import torch
from executorch.exir import ExecutorchBackendConfig, schema, to_edge

from harness.errors import ProgramError
from harness.execution.any_program.description import ProgramFacts, describe_program
from harness.execution.any_program.run import load_method
from harness.execution.any_program.tests.programs import emitted, mixed, nested
from harness.execution.tests.test_foreign_programs import enormous, flipped, rewritten

pytestmark = pytest.mark.filterwarnings("ignore")  # vendors' own


def test_a_program_without_delegates() -> None:
    found = describe_program(emitted("portable:fp32"))
    (method,) = found.methods
    assert (method.name, method.problem, method.delegates) == ("forward", "", [])
    assert [(value.dtype, value.shape) for value in method.inputs] == [("float32", [3, 8])]
    assert method.outputs[0].dim_order == [0, 1]
    assert {kernel.name for kernel in method.kernels} >= {"aten::addmm.out", "aten::sin.out"}
    assert all(kernel.here for kernel in method.kernels)
    assert sum(kernel.calls for kernel in method.kernels) == method.instructions
    assert found.constants.count >= 2
    assert found.constants.bytes >= 4 * (8 * 4 + 4)
    assert [memory.bytes for memory in method.memory] == load_method(
        emitted("portable:fp32")
    ).plan.non_const_buffer_sizes[1:]


def test_delegates_are_listed_with_payloads_and_runtimes() -> None:
    program, _ = mixed()
    (method,) = describe_program(program).methods
    for facts, payload in zip(method.delegates, load_method(program).delegates, strict=True):
        assert (facts.id, facts.bytes) == (payload.id, len(payload.data))
        assert facts.calls == 1
    runtimes = {facts.id: facts.runtime for facts in method.delegates}
    assert runtimes == {"XnnpackBackend": "native", "MLXBackend": "emulated"}
    assert method.inputs[0].dynamic
    assert not any(
        one.listing for one in describe_program(program, listings=False).methods[0].delegates
    )


@pytest.mark.parametrize(
    ("target", "lines"),
    [
        ("xnnpack:fp32", ["FullyConnected", "fp32[4, 8] 128 bytes", "input    v"]),
        ("xnnpack:int8", ["qcint8[4, 8]", "Convert"]),
        ("tosa:fp", ["TOSA 1.0", "CONV2D", "FP32[3, 8]"]),
        ("mlx:fp32", ["chain 0 (main)", "Sin", "f32[4, 8]"]),
        pytest.param("metal:fp32", ["mps_lib_0", "kernel void"], marks=pytest.mark.nightly),
    ],
)
def test_payloads_are_listed(target: str, lines: list[str]) -> None:
    (method,) = describe_program(emitted(target)).methods
    listed = "\n".join(line for one in method.delegates for line in one.listing)
    for line in lines:
        assert line in listed
    assert "cannot be read" not in listed


def test_methods_names_and_constants() -> None:
    found = {method.name: method for method in describe_program(nested()).methods}
    assert list(found) == ["nested", "get_max"]
    assert found["get_max"].outputs[0].value == 7
    assert [value.type for value in found["nested"].inputs] == ["tensor", "bool", "tensor"]
    assert found["nested"].inputs[2].name == "mask['m']"


def test_external_data_is_reported() -> None:
    exported = torch.export.export(torch.nn.Linear(8, 4), (torch.randn(3, 8),))
    config = ExecutorchBackendConfig(external_constants=True)
    found = describe_program(bytes(to_edge(exported).to_executorch(config).buffer))
    assert found.external == ["bias", "weight"]


def test_a_program_beyond_this_host_is_described_all_the_same() -> None:
    program = rewritten(emitted("portable:fp32"), enormous)
    (method,) = describe_program(program).methods
    assert "of this host's memory" in method.problem
    assert method.instructions


def test_a_kernel_that_the_runtime_lacks_is_marked() -> None:
    def rename(plan: schema.ExecutionPlan) -> None:
        plan.operators[0].name = "vendor::op"

    (method,) = describe_program(rewritten(emitted("portable:fp32"), rename)).methods
    assert [kernel.here for kernel in method.kernels if kernel.name.startswith("vendor")] == [False]


def test_facts_survive_json() -> None:
    found = describe_program(mixed()[0])
    assert msgspec.json.decode(msgspec.json.encode(found), type=ProgramFacts) == found


@pytest.mark.parametrize("target", ["portable:fp32", "xnnpack:fp32", "mlx:fp32", "tosa:fp"])
def test_changed_bytes_are_described_or_refused(target: str) -> None:
    draw = random.Random(target)
    outcomes = {"described": 0, "refused": 0}
    for number in range(150):
        changed = flipped(emitted(target), draw)
        try:
            msgspec.json.encode(describe_program(changed, listings=number % 10 == 0))
            outcomes["described"] += 1
        except ProgramError:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 3, outcomes
