"""Programs run by whoever executes their delegates."""

from __future__ import annotations

import copy

import pytest
import torch

import harness
from harness import ProgramError
from harness.backend_api import LoadsDelegates
from harness.errors import InputError
from harness.execution import foreign_programs
from harness.execution.any_program import bind_inputs, run
from harness.execution.any_program.delegate_runtimes import (
    find_delegate_runtime,
    list_executable_delegates,
)
from harness.execution.any_program.tests.programs import CHAIN, emitted, mixed, nested
from harness.model import registry

pytestmark = pytest.mark.filterwarnings("ignore")  # vendors' own


@pytest.mark.one_of(5)
@pytest.mark.parametrize(
    ("target", "runtime"),
    [
        ("portable:fp32", "native"),
        ("xnnpack:fp32", "native"),
        ("tosa:fp", "reference"),
        ("mlx:fp32", "emulated"),
        pytest.param("metal:fp32", "emulated", marks=pytest.mark.nightly),
    ],
)
def test_a_program_of_any_backend_runs_and_keeps_its_state(target: str, runtime: str) -> None:
    program = emitted(target)
    built = CHAIN.make()
    calls = [built.inputs, (torch.randn(3, 8),)]
    expected = [built.module(*inputs) for inputs in calls]
    outputs = harness.execute(program, calls)
    torch.testing.assert_close([call[-1] for call in outputs], expected, rtol=1e-4, atol=1e-5)
    parsed = run.load_method(program)
    assert run.run_method(program, parsed, calls).runtime == runtime


@pytest.mark.nightly
def test_delegates_of_several_backends_run_in_one_program() -> None:
    program, module = mixed()[0], copy.deepcopy(mixed()[1])
    ids = [payload.id for payload in run.load_method(program).delegates]
    assert {"XnnpackBackend", "MLXBackend"} == set(ids)
    assert len(ids) > 2
    calls = [(torch.randn(rows, 8),) for rows in (3, 6, 2)]
    outputs = harness.execute(program, calls)
    expected = [[module(*inputs)] for inputs in calls]
    torch.testing.assert_close(outputs, expected, rtol=1e-4, atol=1e-5)


def test_nested_inputs_and_a_method_that_is_not_forward() -> None:
    x = torch.randn(3, 8)
    parsed = run.load_method(nested())
    assert parsed.plan.name == "nested"
    flat = bind_inputs.flatten_inputs(parsed, (x, True), {"mask": {"m": torch.ones(8)}})
    ((total, scaled, three),) = run.run_method(nested(), parsed, [flat]).outputs
    assert torch.equal(total, x + 1)
    assert torch.equal(scaled, x * 2)
    assert three == 3
    assert harness.execute(nested(), [()], method="get_max") == [[7]]
    assert len(harness.execute(nested(), [flat])[0]) == 3


def renamed(program: bytes, delegate: str) -> bytes:
    """The program with another delegate's name, of the same length."""
    (known,) = {payload.id for payload in run.load_method(program).delegates}
    assert len(known) == len(delegate)
    return program.replace(known.encode(), delegate.encode())


def test_an_unknown_delegate_is_named_with_the_known_ones() -> None:
    program = renamed(emitted("mlx:fp32"), "NoBackends")
    with pytest.raises(ProgramError, match=r"knows delegate 'NoBackends'") as caught:
        harness.execute(program, [(torch.randn(3, 8),)])
    assert "MLXBackend (emulated)" in str(caught.value)
    assert "XnnpackBackend (native)" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(
    registry.backend("openvino").availability().available, reason="OpenVINO is installed here"
)
def test_a_delegate_that_the_runtime_cannot_use_is_not_executable() -> None:
    found = find_delegate_runtime("OpenvinoBackend")
    assert found.runtime == "none"
    assert found.reason
    assert not any("Openvino" in one for one in list_executable_delegates())


def test_inputs_that_do_not_fit_are_refused_before_anything_runs() -> None:
    with pytest.raises(InputError, match=r"input 0 is float32 \(3, 9\)"):
        harness.execute(emitted("xnnpack:fp32"), [(torch.randn(3, 9),)])


@pytest.mark.nightly
def test_the_runtimes_log_is_in_the_message() -> None:
    """A runtime whose exceptions contain only numbers."""
    with pytest.raises(ProgramError, match=r"0x12; .*Expected 1, but got 2") as caught:
        foreign_programs.execute("", emitted("portable:fp32"), [(torch.randn(3, 8),) * 2])
    assert "\n" not in str(caught.value)
    assert str(caught.value).count("Expected 1, but got 2") == 1


@pytest.mark.nightly
def test_a_program_that_ends_its_process_is_one_line() -> None:
    program = renamed(emitted("mlx:fp32"), "QnnBackend")  # which crashes on bytes of others
    with pytest.raises(ProgramError, match=r"was ended by|error: 0x") as caught:
        harness.execute(program, [(torch.randn(3, 8),)])
    assert "\n" not in str(caught.value)
    assert len(harness.execute(emitted("portable:fp32"), [(torch.randn(3, 8),)])) == 1


def test_a_kernel_that_is_missing_is_named() -> None:
    program = emitted("portable:fp32").replace(b"aten::sin", b"aten::s0n")
    with pytest.raises(ProgramError, match=r"no kernel aten::s0n\.out"):
        harness.execute(program, [(torch.randn(3, 8),)])


def test_delegates_are_declared_once() -> None:
    delegates = {
        backend.delegate
        for backend in map(registry.backend, registry.BUILT_IN)
        if isinstance(backend, LoadsDelegates)
    }
    assert delegates == {
        "TOSABackend", "MLXBackend", "MetalBackend", "CoreMLBackend", "VgfBackend",
    }  # fmt: skip
    assert set(registry.backends_by_delegate()) == {
        *delegates, "XnnpackBackend", "OpenvinoBackend",
    }  # fmt: skip
