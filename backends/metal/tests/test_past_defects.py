"""Results of the emulation after a call that breaks the runtime's contract."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

from backends.metal import contract
from backends.metal.cpp.tests.wrappers import copy, empty, launch, output, view, wrapper
from backends.metal.cpp.wrapper import Wrapper
from backends.metal.fallbacks import substitute
from backends.metal.machine.calls import MachineCall
from backends.metal.machine.machine import Machine
from backends.metal.machine.metadata import make_check
from harness import Case, Cell, CellOptions, Status, run_cell

SIX = torch.arange(6.0).reshape(2, 3)
#: Doubles a (2, 3) tensor whose rows are five elements apart, into a like one.
STRIDED = """
#include <metal_stdlib>
using namespace metal;
kernel void generated_kernel(
    device float* out_ptr0,
    constant float* in_ptr0,
    uint xindex [[thread_position_in_grid]]
) {
    int x0 = xindex;
    out_ptr0[5*(x0 / 3) + x0 % 3] = 2.0 * in_ptr0[x0];
}
"""


class Apply(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(*tensors)


class Vision(torch.nn.Module):
    """Three convolutions, a linear layer and two operators that the runtime does not have."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3)
        self.second = torch.nn.Conv2d(8, 8, 3, padding=1)
        self.head = torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.head(torch.relu(self.second(self.first(x))).mean((2, 3)))
        return hidden.cumsum(1) + torch.sort(hidden, 1).values


def run(module: Any, *inputs: torch.Tensor, **options: Any) -> Cell:
    torch.manual_seed(0)
    made = module() if isinstance(module, type) else Apply(module)
    return run_cell(Case.from_module("past/defects", made, inputs), "metal:fp32", **options)


def noting(body: str, *given: torch.Tensor, **options: Any) -> tuple[list[str], torch.Tensor]:
    """Run a wrapper, and continue after calls that break the contract."""
    found: list[str] = []

    def report(call: MachineCall, violation: contract.Violation) -> None:
        found.append(str(violation))

    shaders = options.pop("shaders", {})
    program = Wrapper.parse(wrapper(body, kernels=list(shaders), inputs=len(given)))
    machine = Machine(
        program,
        shaders,
        check=make_check(contract.Checker(), report),
        substitute=substitute,
        **options,
    )
    (got,) = machine.run(given)
    return found, got


def test_a_kernel_that_writes_a_view_with_gaps_changes_the_base() -> None:
    body = empty("buf0", "2L, 5L", "5L, 1L") + "aoti_torch_zero_(buf0);"
    body += view("part", "buf0", "2L, 3L", "5L, 1L", "0L")
    body += launch("mps_lib_0", "part", "arg0", "6L") + output("buf0")
    found, got = noting(body, SIX, shaders={"mps_lib_0": STRIDED})
    assert any("index a dense copy of the view" in text for text in found), found
    assert torch.equal(got[:, :3], SIX * 2)
    assert torch.equal(got[:, 3:], torch.zeros(2, 2))


def test_a_copy_into_a_view_with_gaps_changes_the_base() -> None:
    body = empty("buf0", "2L, 5L", "5L, 1L") + "aoti_torch_zero_(buf0);"
    body += view("part", "buf0", "2L, 3L", "5L, 1L", "2L") + copy("part", "arg0")
    found, got = noting(body + output("buf0"), SIX)
    assert found
    assert torch.equal(got[:, 2:], SIX)


def test_a_result_is_laid_out_as_the_code_asserts() -> None:
    body = 'assert_size_stride(arg0, {2L, 3L}, {1L, 2L}, "convolution");' + output("arg0")
    found, got = noting(body, SIX)
    assert "strides (3, 1) are not (1, 2)" in found[0]
    assert got.stride() == (1, 2)
    assert torch.equal(got, SIX)


def test_causal_attention_of_other_lengths_is_torchs() -> None:
    query, key, value = torch.randn(1, 2, 3, 64), *torch.randn(2, 1, 2, 5, 64)

    def attend(query: Any, key: Any, value: Any) -> Any:
        return functional.scaled_dot_product_attention(query, key, value, is_causal=True)

    cell = run(attend, query, key, value)
    assert cell.error is not None
    assert "is_causal with 3 queries and 5 keys" in cell.error
    assert cell.error.endswith("; 1 known defect; otherwise within bounds")


def _store(x: torch.Tensor, mask: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    copied = x.clone()
    copied[:, mask] = values
    return copied


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (lambda x: x.cumsum(1), [(3, 4)]),
        (lambda x: tuple(torch.sort(x, 0, descending=True)), [(3, 4)]),
        (lambda x, y: torch.cdist(x, y), [(3, 4), (5, 4)]),
        (lambda x, y: torch.baddbmm(x, x, y, beta=0.5, alpha=2.0), [(2, 3, 3), (2, 3, 3)]),
        (lambda x, y: x.scatter_reduce(0, torch.tensor([[0, 1, 0]]), y, "amax"), [(2, 3), (2, 3)]),
        (lambda x, y: _store(x, torch.tensor([True, False, True]), y), [(2, 3), (2, 2)]),
    ],
)
def test_kernels_that_the_runtime_does_not_have_are_atens(function: Any, inputs: Any) -> None:
    cell = run(function, *(torch.randn(shape) for shape in inputs))
    assert cell.status is Status.FAILED
    assert cell.error is not None
    assert cell.error.endswith("; otherwise within bounds")
    assert all("[missing]" in defect.error for defect in cell.defects), cell.defects


def test_arguments_of_c_functions_become_those_of_the_operator() -> None:
    values = torch.tensor([2.0, 1.0])
    summed = substitute("aoti_torch_mps_cumsum")
    ordered, filled = substitute("aoti_torch_mps_sort_stable"), substitute("aoti_torch_cpu_full")
    assert summed is not None
    assert ordered is not None
    assert filled is not None
    float64, float32, strided = 7, 6, 0
    assert summed(values, 0, float64).dtype is torch.float64
    assert [one.tolist() for one in ordered(values, None, -1, 1)] == [[2.0, 1.0], [0, 1]]
    made = filled((2, 3), 2, 1.5, float32, strided, 0, 0, None)
    assert torch.equal(made, torch.full((2, 3), 1.5))
    assert substitute("aoti_torch_mps_sinkhorn") is None
    assert substitute("aoti_torch_mps_mm_out") is None


def test_a_network_reports_all_its_defects_with_their_lines() -> None:
    cell = run(Vision, torch.randn(1, 3, 8, 8))
    assert (cell.status, cell.stage) == (Status.FAILED, "lower")
    assert cell.error is not None
    assert cell.error.startswith("MissingFallback: Method forward missing fallback kernels (2")
    assert cell.error.endswith(f"; {len(cell.defects)} known defects; otherwise within bounds")
    places = [(defect.op, defect.source.rpartition(": ")[2]) for defect in cell.defects]
    convolutions = "hidden = self.head(torch.relu(self.second(self.first(x))).mean((2, 3)))"
    end = "return hidden.cumsum(1) + torch.sort(hidden, 1).values"
    assert dict.fromkeys(places) == dict.fromkeys(
        [
            ("aten.conv2d.default", convolutions),
            ("aten.sort.default", end),
            ("aten.cumsum.default", end),
        ]
    )
    assert cell.numerics[0].bound_used < 1


def test_a_linear_layer_is_named_as_the_partition_names_it() -> None:
    # The left factor is transposed, and the runtime ignores its strides.
    layer = torch.nn.Linear(3, 4, bias=False)
    cell = run(lambda x: layer((x + 1).T.relu()), torch.randn(3, 5))
    for defect in cell.defects:
        assert defect.op == "aten.linear.default"
    first_defect = CellOptions(continue_past_defects=False)
    only_first = run(Vision, torch.randn(1, 3, 8, 8), options=first_defect)
    assert only_first.defects == []
    assert "known defect" not in (only_first.error or "")


def test_a_missing_function_is_reported() -> None:
    cell = run(lambda x: x.masked_scatter(x > 0, x), torch.randn(3, 4))
    assert cell.status is not Status.PASSED
    assert cell.defects
