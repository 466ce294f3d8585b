"""The TOSA delegate: memory order at the boundary, and payloads that are not TOSA."""

from __future__ import annotations

import pytest
import torch

from backends.tosa.reference import load
from harness import Case, ProgramError, Tester
from harness.backend_api import DelegatePayload, Program


def payload(data: bytes) -> DelegatePayload:
    return DelegatePayload("TOSABackend", data, {}, {})


def real_payload() -> bytes:
    case = Case("add/self", lambda: (Double(), (torch.randn(2, 3),)))
    tester = Tester(case, "tosa:fp").export().lower().to_executorch().serialize()
    return Program(tester.program).delegates[0].data


class Double(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


@pytest.mark.parametrize("data", [b"", b"TOSA", b"\0" * 64])
def test_a_payload_that_is_no_tosa_graph_is_refused(data: bytes) -> None:
    with pytest.raises(ProgramError, match="TOSA"):
        load(payload(data))


def test_a_call_with_other_arguments_is_refused() -> None:
    handle = load(payload(real_payload()))
    with pytest.raises(ProgramError, match="arguments"):
        handle([torch.zeros(2, 3)])


def test_the_graph_runs() -> None:
    handle = load(payload(real_payload()))
    x, out = torch.randn(2, 3), torch.zeros(2, 3)
    handle([x, out])
    assert torch.equal(out, x + x)
