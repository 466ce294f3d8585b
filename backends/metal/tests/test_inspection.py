"""Text of ``conform show`` for a Metal cell."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
import torch

from backends.metal import inspection
from backends.metal.backend import BACKEND
from backends.metal.fallbacks import IMPLEMENTATIONS
from harness import Case, StageFailure, Target, Tester
from harness.pipeline.explain.inspection import inspect
from harness.pipeline.route import lower

pytestmark = pytest.mark.filterwarnings("ignore")  # vendors' own


class Chain(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.linear(x), -1)


class Strided(torch.nn.Module):
    """Two convolutions of inputs that are not contiguous, and in one an offset as well."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(2, 4, 3, bias=False)
        self.second = torch.nn.Conv2d(2, 4, 3, bias=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.first(x.transpose(2, 3)), self.second(x[:, :, 1:].transpose(2, 3))


CHAIN = Case("test/chain", lambda: (Chain(), (torch.randn(3, 8),)))
STRIDED = Case("test/strided", lambda: (Strided(), (torch.randn(1, 2, 8, 8),)))


def lowered(case: Case) -> Tester:
    tester = Tester(case, "metal:fp32")
    lower(tester)
    return tester


def test_wrapper_kernels_and_contract_are_shown() -> None:
    lines = list(inspect(CHAIN, Target.parse("metal:fp32")))
    assert lines[0] == "Metal delegate 0"
    assert any("aoti_torch_mps_mm_out(buf0: float32 [3, 16]" in line for line in lines)
    assert sum("kernel void generated_kernel(" in line for line in lines) >= 1
    assert not any("namespace c10" in line for line in lines)
    (contract,) = [line for line in lines if line.startswith("  contract: ")]
    assert contract.endswith("0 of them break a rule")
    verdicts = lines[lines.index(contract) + 1 :]
    assert len(verdicts) == int(contract.split()[1])
    assert all(line.startswith("    kept ") for line in verdicts)
    assert sum(" aoti_torch_mps_mm_out: " in line for line in verdicts) == 1


def test_every_violation_is_listed() -> None:
    tester = lowered(STRIDED)
    with pytest.raises(StageFailure):  # the cell itself stops at the first
        tester.run()
    lines = list(BACKEND.inspect(tester.attempt))
    broken = [at for at, line in enumerate(lines) if line.startswith("    broken ")]
    calls = [lines[at] for at in broken if "aoti_torch_mps_convolution" in lines[at]]
    assert len(calls) == 2
    assert all("[defect]" in lines[at + 1] or "[refusal]" in lines[at + 1] for at in broken)
    (contract,) = [line for line in lines if line.startswith("  contract: ")]
    assert contract.endswith(f"{len(broken)} of them break a rule")


def test_the_inspection_reports_where_execution_ends() -> None:
    def fail(*arguments: Any) -> Any:
        raise ValueError("planted")

    tester = lowered(CHAIN)
    with mock.patch.dict(IMPLEMENTATIONS, {"aoti_torch_mps_mm_out": fail}):
        lines = list(BACKEND.inspect(tester.attempt))
    assert lines[-1] == "  execution stopped here: ValueError: planted"
    assert "aoti_torch_mps_mm_out" in lines[-2]


def test_calls_of_a_sequence_are_counted() -> None:
    case = Case(
        "test/sequence",
        lambda: (torch.nn.ReLU(), (torch.randn(3),)),
        calls=lambda: [(torch.randn(3),)],
    )
    lines = list(BACKEND.inspect(lowered(case).attempt))
    assert any(line.endswith("(2 times)") for line in lines)


def test_the_inspection_reports_that_nothing_is_delegated() -> None:
    tester = Tester(CHAIN, "metal:fp32").export().lower(partitioners=[])
    tester.to_executorch().serialize()
    assert list(BACKEND.inspect(tester.attempt)) == ["nothing was delegated to MetalBackend"]


def test_the_inspection_reports_a_payload_of_another_kind() -> None:
    tester = lowered(CHAIN)
    with mock.patch.object(inspection, "read_code", side_effect=ValueError("no source")):
        lines = list(BACKEND.inspect(tester.attempt))
    assert lines == ["the program cannot be executed: ValueError: no source"]


def test_pasted_headers_are_omitted() -> None:
    source = (
        "#include <x>\nfloat f();\n    kernel void k(device float* a) {\n        *a = 1;\n    }\n"
    )
    assert inspection.strip_headers(source) == "kernel void k(device float* a) {\n    *a = 1;\n}"
    assert inspection.strip_headers("  no kernel") == "no kernel"
