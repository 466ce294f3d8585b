"""Shaders from other generators run in a child process, and duplicate indices are no race."""

from __future__ import annotations

import msgspec
import pytest
import torch
from executorch.exir._serialize._program import deserialize_pte_binary, serialize_pte_binary

from backends.metal.backend import BACKEND
from backends.metal.generation import generated, own
from harness import Case, ProgramError, Status, Tester, run_cell
from harness.backend_api import Program
from harness.execution import foreign_programs
from harness.pipeline.route import lower

pytestmark = pytest.mark.skipif(
    not BACKEND.availability().available, reason=BACKEND.availability().reason
)
X = torch.tensor([0.5, -2.0, 7.25, 1e-3])


class Twice(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


@pytest.fixture(scope="session")
def program() -> bytes:
    tester = Tester(Case("test/twice", lambda: (Twice(), (X,))), "metal:fp32")
    lower(tester)
    return tester.program


def with_shader(program: bytes, statement: str) -> bytes:
    """The program with a statement at the start of its kernel."""
    file = deserialize_pte_binary(program)
    (delegate,) = Program(program).delegates
    key = delegate.data.decode().split("\n")[0]
    code = generated.decode(delegate.named_data[key], b"")
    place = "int x0 = xindex;"
    assert place in code.wrapper
    changed = msgspec.structs.replace(
        code, wrapper=code.wrapper.replace(place, f"{place} {statement}")
    )
    assert file.named_data is not None
    entry = file.named_data.pte_data[key]
    file.named_data.buffers[entry.buffer_index] = generated.encode(changed)
    return bytes(serialize_pte_binary(file))


def test_our_own_payload_runs_here(program: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("an own payload was sent to the child")

    monkeypatch.setattr(foreign_programs, "execute", refuse)
    ((output,),) = BACKEND.execute(program, [(X,)]).outputs
    assert torch.equal(output, X * 2)


def test_a_payload_of_another_process_runs_in_a_child(
    program: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own, "_OWN", set())
    monkeypatch.setattr(BACKEND, "emulate", None)
    execution = BACKEND.execute(program, [(X,), (-X,)])
    assert execution.runtime == "emulated"
    for (output,), given in zip(execution.outputs, (X, -X), strict=True):
        assert torch.equal(output, given * 2)


@pytest.mark.nightly
def test_a_shader_that_crashes_is_an_error(program: bytes) -> None:
    foul = with_shader(program, "__builtin_trap();")
    with pytest.raises(ProgramError, match=r"was ended by SIG(ILL|TRAP|ABRT)"):
        BACKEND.execute(foul, [(X,)])
    harmless = with_shader(program, "(void)x0;")
    ((output,),) = BACKEND.execute(harmless, [(X,)]).outputs
    assert torch.equal(output, X * 2)


def test_defects_of_a_foreign_shader_are_reported(program: bytes) -> None:
    with pytest.raises(ProgramError, match=r"out_ptr0.* which has 4 elements"):
        BACKEND.execute(with_shader(program, "out_ptr0[x0 + 1000] = 0;"), [(X,)])


VALUES, INDICES = torch.arange(1.0, 5), torch.tensor([0, 1, 1, 0])


class Put(torch.nn.Module):
    def forward(self, x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.index_put(x, (i,), v)


class Scatter(torch.nn.Module):
    def forward(self, x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.scatter(x, 0, i, v)


@pytest.mark.parametrize("module", [Put, Scatter])
def test_duplicate_indices_are_no_race(module: type[torch.nn.Module]) -> None:
    case = Case("test/duplicates", lambda: (module(), (torch.zeros(5), INDICES, VALUES)))
    cell = run_cell(case, "metal:fp32")
    assert cell.status is Status.PASSED, cell.error
