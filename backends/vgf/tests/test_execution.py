"""Payloads execute in a child process; damaged payloads and wrong calls end in ProgramError."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from backends.vgf import emulation, payload
from backends.vgf.backend import BACKEND, DELEGATE
from backends.vgf.spirv import read_operators
from backends.vgf.tests.requirements import needs_runtime
from harness import Case, ProgramError, Status, Tester, run_cell
from harness.backend_api import DelegatePayload, Program

pytestmark = needs_runtime


class TwoOutputs(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x - y, torch.relu(x) * y


INPUTS = (torch.randn(2, 5), torch.randn(2, 5))


@pytest.fixture(scope="module")
def data() -> bytes:
    return lower(TwoOutputs(), INPUTS)


def lower(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> bytes:
    tester = Tester(Case("vgf/lowered", lambda: (module, inputs)), "vgf:fp")
    program = tester.export().lower().to_executorch().serialize().program
    return Program(program).delegates[0].data


def wrap(data: bytes) -> DelegatePayload:
    return DelegatePayload(DELEGATE, data, {}, {})


def call(data: bytes, *inputs: torch.Tensor) -> list[torch.Tensor]:
    outputs = [torch.full((2, 5), torch.nan) for _ in range(2)]
    emulation.load(wrap(data))([*inputs, *outputs])
    return outputs


def test_a_payload_executes_again_and_in_another_child(data: bytes) -> None:
    handle = emulation.load(wrap(data))
    for end_child in (False, False, True):
        if end_child:
            emulation.get_child().close()
        x, y = torch.randn(2, 5), torch.randn(2, 5)
        difference, product = torch.zeros(2, 5), torch.zeros(2, 5)
        handle([x, y, difference, product])
        torch.testing.assert_close(difference, x - y, rtol=0, atol=0)
        torch.testing.assert_close(product, torch.relu(x) * y, rtol=0, atol=0)


def test_a_child_drops_payloads_and_loads_them_again(
    data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = emulation.load(wrap(data))
    for number in range(18):  # more than a child holds
        module = torch.nn.Hardtanh(-1.0, number + 1.0)
        out = torch.zeros(3)
        emulation.load(wrap(lower(module, (torch.randn(3),))))([torch.full((3,), 99.0), out])
        assert out.tolist() == [number + 1.0] * 3
        if not number:
            handle([*INPUTS, torch.zeros(2, 5), torch.zeros(2, 5)])
    outputs = torch.zeros(2, 5), torch.zeros(2, 5)
    handle([*INPUTS, *outputs])
    torch.testing.assert_close(outputs[0], INPUTS[0] - INPUTS[1], rtol=0, atol=0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([torch.zeros(2, 5)] * 3, "the VGF has 2 inputs and 2 outputs, the program passes 3"),
        ([torch.zeros(2, 5)] * 3 + [1.0], "takes and returns tensors only"),
        ([torch.zeros(5, 2)] * 4, r"argument 0 is torch.float32\[5, 2\] in memory order"),
        ([torch.zeros(2, 5, dtype=torch.float64)] * 4, "argument 0 is torch.float64"),
    ],
)
def test_a_wrong_call_is_refused(data: bytes, arguments: list[Any], words: str) -> None:
    with pytest.raises(ProgramError, match=words):
        emulation.load(wrap(data))(arguments)


@pytest.mark.parametrize("bad", [b"", b"VGF1", b"TOSA" * 64, b"VGF1" + bytes(600)])
def test_other_bytes_are_refused(bad: bytes) -> None:
    for read in (emulation.load, BACKEND.constants, lambda wrapped: [*BACKEND.describe(wrapped)]):
        with pytest.raises(ProgramError, match="VGF"):
            read(wrap(bad))


def test_damaged_payloads_are_refused_or_executed(data: bytes) -> None:
    """A crash of the child is a ProgramError too, and the next call starts another child."""
    draw = random.Random(0)
    refused = 0
    for number in range(40):
        damaged = bytearray(data)
        if number % 4 == 0:
            damaged = damaged[: draw.randrange(len(damaged))]
        for _ in range(number % 4):
            damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
        try:
            call(bytes(damaged), *INPUTS)
        except ProgramError:
            refused += 1
    assert refused >= 10
    torch.testing.assert_close(call(data, *INPUTS)[0], INPUTS[0] - INPUTS[1], rtol=0, atol=0)


def test_a_description_names_interface_and_operators(data: bytes) -> None:
    lines = list(BACKEND.describe(wrap(data)))
    assert lines[0].startswith("VGF 0.")
    assert "3 operators" in lines[0]
    text = "\n".join(lines)
    for words in ("input_0 R32_SFLOAT[2, 5]", "output_1 R32_SFLOAT[2, 5]", "SUB", "CLAMP", "MUL"):
        assert words in text, text


def test_constants_are_those_of_the_module() -> None:
    layer = torch.nn.Linear(16, 8)
    blobs = BACKEND.constants(wrap(lower(layer, (torch.randn(4, 16),)))).blobs
    assert layer.weight.detach().numpy().tobytes() in [bytes(blob) for blob in blobs]


def test_damaged_code_is_refused(data: bytes) -> None:
    (code,) = payload.read_parts(data, "--dump-spirv", [0])
    assert [operator.name for operator in read_operators(code)]
    with pytest.raises(ProgramError, match="not SPIR-V"):
        read_operators(code[4:])
    with pytest.raises(ProgramError, match="wrong length"):
        read_operators(code[:-8])


def test_an_integer_program_is_exact() -> None:
    case = Case("vgf/exact", lambda: (torch.nn.Linear(16, 8, bias=False), (torch.randn(4, 16),)))
    cell = run_cell(case, "vgf:int")
    assert cell.status is Status.PASSED, cell.error
    assert cell.numerics[0].max_abs < 1e-6
