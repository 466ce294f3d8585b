"""Defects that were found on devices: a case is red when the rule that avoids its defect is
removed.

For a rule of the contract, the test removes the rule and lets the kernel or memory behave as the
runtime's does, which gives a wrong result.
"""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
import torch
from executorch.backends.apple.metal.passes.decompose_linear_pass import DecomposeLinearPass
from executorch.exir.pass_base import PassResult

from backends.metal import delegate
from backends.metal.contract import FUNCTIONS, layout
from backends.metal.contract.memory import MISSING
from backends.metal.contract.rule import CONV_STRIDES, PACKED_COPIES, STALE_VIEWS, ContractRule
from backends.metal.fallbacks import IMPLEMENTATIONS
from backends.metal.generation.generate import generate
from backends.metal.machine import memory
from backends.metal.tests.programs import partition
from harness import Status, run_cell
from suites.metal import convolution, matmul, views

CASES = {case.name: case for module in (convolution, matmul, views) for case in module.CASES}
PREFIX = "aoti_torch_"
ADDMM, CONV, VIEW = (
    PREFIX + name for name in ("mps_addmm_out", "mps_convolution", "_reinterpret_tensor")
)
LINEARS = ("linear/encoder_2d", "linear/encoder_2d_one_row", "linear/encoder_3d_batch_1")
CHANNELS_LAST = "convolution/2d_channels_last_inside"


def run(name):
    return run_cell(CASES[name], "metal:fp32")


@pytest.fixture
def rules(monkeypatch):
    """Replace the rules of a function by a selection of its rules."""

    def replace(function, keep, *more):
        row = FUNCTIONS[function]
        kept = (*(rule for rule in row.rules if keep(rule)), *more)
        monkeypatch.setitem(FUNCTIONS, function, dataclasses.replace(row, rules=kept))

    return replace


@pytest.fixture
def undecomposed(monkeypatch):
    """Linear layers as they are exported."""
    monkeypatch.setattr(DecomposeLinearPass, "call", lambda _, graph: PassResult(graph, False))


@pytest.fixture
def calls(monkeypatch):
    """The kernels of the runtime that were called, by name."""
    made = []
    for name, kernel in IMPLEMENTATIONS.items():

        def record(*args, name=name, kernel=kernel):
            made.append(name)
            return kernel(*args)

        monkeypatch.setitem(IMPLEMENTATIONS, name, record)
    return made


@pytest.mark.parametrize("name", LINEARS)
def test_linear_does_not_become_addmm(name, rules, calls):
    rules(ADDMM, lambda rule: False, MISSING)
    assert run(name).status is Status.PASSED
    assert calls == [PREFIX + "mps_mm_out"]


@pytest.mark.usefixtures("undecomposed")
@pytest.mark.parametrize("name", LINEARS)
def test_linear_becomes_addmm_without_its_pass(name, rules, calls):
    # This release has addmm, and its bias is no longer expanded with strides of zero.
    assert run(name).status is Status.PASSED
    assert calls == [ADDMM]
    # The releases before it had none.
    rules(ADDMM, lambda rule: False, MISSING)
    cell = run(name)
    assert (cell.status, cell.stage) == (Status.FAILED, "lower")
    assert f"{ADDMM}: does nothing but throw [missing]" in cell.error


def test_convolution_that_ignores_strides(rules, monkeypatch):
    cell = run(CHANNELS_LAST)
    assert (cell.status, cell.stage) == (Status.FAILED, "lower")
    assert "mps_convolution: input strides (144, 1, 18, 3) are not contiguous" in cell.error

    for function in (CONV, "assert_size_stride"):
        rules(function, lambda rule: rule.link != CONV_STRIDES)
    assert run(CHANNELS_LAST).status is Status.PASSED
    honest = IMPLEMENTATIONS[CONV]

    def blind(source, weight, *rest):
        (expected,) = honest(source, weight, *rest)
        source, weight = (
            tensor.as_strided(tensor.shape, layout.row_major(tensor.shape))
            for tensor in (source, weight)
        )
        (result,) = honest(source, weight, *rest)
        # The code that follows finds the row-major result with the strides it was compiled for.
        memory_order = expected.as_strided((expected.numel(),), (1,))
        memory_order.copy_(result.contiguous().flatten())
        return (expected,)

    monkeypatch.setitem(IMPLEMENTATIONS, CONV, blind)
    cell = run(CHANNELS_LAST)
    assert (cell.status, cell.stage) == (Status.MISMATCH, "compare")


@pytest.mark.parametrize(
    "name", ["mm/second_rows_of_result", "topk/chunk_columns_of_result", "mm/chunk_into_mm"]
)
def test_views_that_begin_later(name, rules, monkeypatch):
    cell = run(name)
    assert (cell.status, cell.stage) == (Status.FAILED, "lower")
    assert "into memory of this run" in cell.error

    rules(VIEW, lambda rule: rule.link != STALE_VIEWS)
    assert run(name).status is Status.PASSED
    honest = memory.Tensor.view

    def stale(self, sizes, strides, offset=0):
        found = honest(self, sizes, strides, offset)
        if not offset or self.origin != "buffer":
            return found
        # The GPU has written nothing yet when the view's own buffer is made.
        return memory.empty(sizes, found.strides, self.dtype)

    monkeypatch.setattr(memory.Tensor, "view", stale)
    cell = run(name)
    assert (cell.status, cell.stage) == (Status.MISMATCH, "compare")


@pytest.mark.parametrize("name", ["topk/second_rows_of_input", "mm/rows_of_weight"])
def test_views_of_inputs_may_have_an_offset(name):
    assert run(name).status is Status.PASSED


def test_views_with_strides_of_zero(rules):
    case = "convolution/expanded_rows_of_result"
    assert run(case).status is Status.PASSED

    def zero(call):
        strides = call.integers("strides")
        return f"{strides}" if 0 in strides else None

    # The releases before this one refused them.
    rules(VIEW, lambda rule: True, ContractRule("strides", "none of 0", "have a 0", zero))
    cell = run(case)
    assert (cell.status, cell.stage) == (Status.FAILED, "lower")
    assert "strides (0, 4, 1) have a 0 [refusal]" in cell.error


def test_parts_of_a_cat_are_filled_through_views(rules):
    cell = run("cat/of_pools")
    assert (cell.status, cell.stage) == (Status.FAILED, "lower")
    assert "index a dense copy of the view" in cell.error

    # The copy is made here as well, so that the kernel misses it.
    for function in (VIEW, PREFIX + "mps_set_arg_tensor"):
        rules(function, lambda rule: rule.link not in (PACKED_COPIES, STALE_VIEWS))
    cell = run("cat/of_pools")
    assert (cell.status, cell.stage) == (Status.FAILED, "run"), cell.error
    assert "OutOfBounds" in cell.error


def test_mm_has_no_requirement_for_its_result():
    code = generate(partition(torch.nn.Linear(5, 3, bias=False), torch.randn(4, 5)))
    delegate.make_machine(code).run([torch.randn(4, 5)])
    wrong = code.wrapper.replace("{4L, 3L}", "{3L, 4L}").replace("{3L, 1L}", "{4L, 1L}")
    assert wrong != code.wrapper
    changed = delegate.make_machine(msgspec.structs.replace(code, wrapper=wrong))
    with pytest.raises(Exception, match=r"out shape \(3, 4\) is not \(4, 3\)"):
        changed.run([torch.randn(4, 5)])
