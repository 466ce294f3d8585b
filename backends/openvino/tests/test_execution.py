"""Programs run natively in a child process, and bad bytes end in errors."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest
import torch

from backends.openvino import BACKEND
from backends.openvino.listing import describe_payload, read_header
from backends.openvino.recipes import make_partitioners
from backends.openvino.tests.installed import needs_openvino
from harness import Case, ProgramError, Status, Tester, run_cell
from harness.backend_api import DelegatePayload, Program

pytestmark = needs_openvino


class Adds(torch.nn.Module):
    """Has state."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add_(x)
        return self.seen * 2


def emit(module: torch.nn.Module, inputs: tuple[Any, ...], target: str = "openvino:fp32") -> bytes:
    case = Case.from_module("emitted", module, inputs)
    return Tester(case, target).export().lower().to_executorch().serialize().program


def test_state_persists_between_calls_and_the_environment_stays() -> None:
    before = dict(os.environ)
    program = emit(Adds(), (torch.ones(3),))
    execution = BACKEND.execute(program, [(torch.ones(3),), (torch.ones(3),)])
    assert execution.runtime == "native"
    assert [call[-1].tolist() for call in execution.outputs] == [[2.0] * 3, [4.0] * 3]
    assert dict(os.environ) == before


def test_float32_is_float32_and_the_default_is_recorded() -> None:
    torch.manual_seed(0)
    layer, x = torch.nn.Linear(256, 64).eval(), torch.randn(8, 256)
    with torch.no_grad():
        expected = layer.double()(x.double())
    layer.float()
    errors = {}
    for target in ("openvino:fp32", "openvino:default"):
        program = emit(layer, (x,), target)
        (output,) = BACKEND.execute(program, [(x,)]).outputs[0]
        errors[target] = float((output.double() - expected).abs().max())
    assert errors["openvino:fp32"] < 1e-5
    chosen = BACKEND.availability().tools.rpartition(" ")[2]
    assert chosen in ("f32", "bf16", "f16")
    assert (errors["openvino:default"] > 1e-4) == (chosen != "f32")


def test_the_compile_spec_of_a_recipe_does_not_change_the_payload() -> None:
    from executorch.exir import to_edge_transform_and_lower

    class Shift(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x - 1)

    exported = torch.export.export(Shift(), (torch.randn(3, 5),))
    payloads = []
    for limit in ("", "AVX512_CORE_VNNI"):
        edge = to_edge_transform_and_lower(exported, partitioner=make_partitioners(limit))
        payloads.append(Program(bytes(edge.to_executorch().buffer)).delegates[0])
    assert len(payloads[0].data) == len(payloads[1].data)
    assert list(payloads[0].compile_specs) == ["device"]
    assert list(payloads[1].compile_specs) == ["device", "OV_CPU_MAX_ISA"]


def test_a_listing_names_the_kernels_and_the_sources() -> None:
    program = emit(torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.GELU()), (torch.ones(2, 8),))
    lines = list(BACKEND.describe(Program(program).delegates[0]))
    assert lines[0].startswith("OpenVINO 20")
    (layer,) = (line for line in lines if "FullyConnected" in line)
    assert "[2,4]" in layer
    assert "aten_addmm_default" in layer


def test_damaged_payloads_are_refused() -> None:
    payload = Program(emit(torch.nn.Linear(8, 4), (torch.ones(2, 8),))).delegates[0]
    for data in (b"", b"x" * 300, payload.data[:15], payload.data[:300],
                 payload.data[:400] + bytes(200) + payload.data[600:]):  # fmt: skip
        with pytest.raises(ProgramError):
            list(describe_payload(replace(payload, data=data)))


def test_a_damaged_program_ends_in_an_error() -> None:
    program = emit(torch.nn.Linear(8, 4), (torch.ones(2, 8),))
    data = Program(program).delegates[0].data
    start = program.index(data[:64]) + 200
    damaged = program[:start] + bytes(300) + program[start + 300 :]
    with pytest.raises(ProgramError, match="failed to import model"):
        BACKEND.execute(damaged, [(torch.ones(2, 8),)])
    (output,) = BACKEND.execute(program, [(torch.ones(2, 8),)]).outputs[0]  # another child, or not
    assert output.shape == (2, 4)


def test_operators_outside_of_its_table_stay_in_the_program() -> None:
    case = Case("kept/atan2", lambda: (Angle(), (torch.randn(3, 7), torch.randn(3, 7))))
    cell = run_cell(case, "openvino:fp32")
    assert cell.status is Status.PASSED, cell.error
    assert "aten.atan2.default" in cell.delegation.undelegated_ops
    assert cell.delegation.reasons["aten.atan2.default"] == {
        "OpenVINO's OperatorSupport does not list this operator": 1
    }


class Angle(torch.nn.Module):
    """Has an operator that OpenVINO does not support."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.atan2(x * 2, y) + 1


def test_a_header_without_its_text_is_refused() -> None:
    payload = DelegatePayload("OpenvinoBackend", b"RR_UPCVO" + bytes(40), {}, {})
    with pytest.raises(ProgramError, match="no model of OpenVINO"):
        read_header(payload.data)
