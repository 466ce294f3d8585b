"""The runtime's log of a failure is in the error, and names the instruction."""

from __future__ import annotations

import os

import pytest
import torch

from harness import Case, run_cell
from harness.errors import ProgramError
from harness.execution.execute import run_native
from harness.execution.native.runtime_log import (
    capture_runtime_log,
    find_instruction,
    format_instruction,
)
from harness.pipeline.tester import Tester


class Convolved(torch.nn.Module):
    """The runtime has no kernel for the second operator with inputs of this rank."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv3d(2, 3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.convolution(x + 1)


CASE = Case("log/convolution", lambda: (Convolved(), (torch.randn(1, 2, 3, 3, 3),)))


def test_an_error_has_the_words_of_the_runtime() -> None:
    tester = Tester(CASE, "portable:fp32").export().lower().to_executorch().serialize()
    with pytest.raises(RuntimeError, match=r"error 0x12; the runtime says: .*3-D or 4-D") as failed:
        run_native(tester.program, [tuple(tester.built.tensors)])
    assert find_instruction(failed.value) is not None
    assert "cpuinfo" not in str(failed.value)


@pytest.mark.parametrize("target", ["portable:fp32", "xnnpack:fp32"])
def test_a_failing_cell_names_its_node(target: str) -> None:
    cell = run_cell(CASE, target)
    found = cell.first_divergence
    assert cell.stage == "run"
    assert found is not None
    assert (found.op, found.module, found.fails) == ("aten.convolution.out", "convolution", True)
    assert "self.convolution(x + 1)" in found.source
    assert str(found).endswith("fails to execute")
    assert type(cell).from_json(cell.to_json()).first_divergence == found


def test_only_the_runtimes_output_is_captured_and_the_stream_is_restored(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def fails() -> None:
        os.write(2, b"noise\n[cpuinfo_utils.cpp:71] Reading file\n[op.cpp:50] Check failed (x): \n")
        os.write(2, b"[method.cpp:1493] arg 0 with type id 1\n")
        raise ProgramError("wrong")

    assert capture_runtime_log(fails) == "Check failed (x):  (op.cpp:50)"
    os.write(2, b"after")
    assert capfd.readouterr().err == "after"


def test_an_instruction_may_be_in_a_note() -> None:
    error = ProgramError("wrong")
    assert find_instruction(error) is None
    error.add_note(format_instruction(17))
    assert find_instruction(error) == 17
