"""Odd but legal programs on the null backend, which executes everything: each verdict is right."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
import torch
from torch.fx import GraphModule

from backends.null import BACKEND, WRONG
from harness import Availability, Execution, Inputs, Recipe, registry, run_cell
from harness.errors import StageFailure
from harness.pipeline.reference.tests.quantizers import Change, Rewriting
from harness.record.cell import Status
from harness.testing import SPECIMENS, Expected, Specimen, check_backend
from harness.testing.before_lowering import BEFORE_LOWERING
from harness.testing.contract import misjudged
from harness.testing.dynamic_specimens import DYNAMIC_SPECIMENS

aten = torch.ops.aten

_STATUS = {
    Expected.CONFORMS: Status.PASSED,
    Expected.UNTELLING: Status.PASSED,
    Expected.DIFFERS: Status.MISMATCH,
    Expected.REFUSED: Status.FAILED,
}

# A call changes what belongs to its caller.
_ALTERED = {
    "specimen/mask_overwritten": ["buffer mask"],
    "specimen/training_mode_left_on": ["training of the module"],
}


@pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda one: one.case.name)
def test_the_verdict_is_right(specimen: Specimen) -> None:
    cell = run_cell(specimen.case, "null:eager")
    assert misjudged(specimen, cell) is None, cell.error
    if specimen.case.name in _ALTERED:
        assert (cell.status, cell.altered) == (Status.FAILED, _ALTERED[specimen.case.name])
        return
    assert cell.status is _STATUS[specimen.expected], f"{cell.stage}: {cell.error}"


def test_a_backend_that_spoils_its_outputs_is_found() -> None:
    telling = [one for one in SPECIMENS if one.case.name in ("specimen/cond", "specimen/buffer")]
    with pytest.raises(AssertionError, match="2 verdicts are wrong"):
        check_backend(WRONG, specimens=telling)
    assert [cell.status for cell in check_backend(BACKEND, specimens=telling)] == 2 * [
        Status.PASSED
    ]


class Narrow(type(BACKEND)):  # type: ignore[misc]
    """Executes programs for up to 4 rows, whatever they were lowered for."""

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        if any(len(inputs[0]) > 4 for inputs in calls):
            raise RuntimeError("too many rows")
        return super().execute(program, calls)


def test_a_backend_that_refuses_a_size_that_it_lowered_for_is_found() -> None:
    rows = [one for one in DYNAMIC_SPECIMENS if one.case.name == "specimen/dynamic_rows"]
    with pytest.raises(
        AssertionError,
        match=r"failed at run, it was lowered for this size: SizeRefused: the program refuses "
        r"inputs_0:0 = 9 \(declared: 1 to 9; exported with 4\): RuntimeError: too many rows",
    ):
        check_backend(Narrow(), specimens=rows)


class Late(Narrow):
    """Finds while it runs that lowering did it."""

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        try:
            return super().execute(program, calls)
        except RuntimeError as error:
            raise StageFailure("lower", error) from error


def test_a_size_that_an_earlier_stage_is_to_blame_for_stays_with_that_stage() -> None:
    (rows,) = (one for one in DYNAMIC_SPECIMENS if one.case.name == "specimen/dynamic_rows")
    cell = run_cell(rows.case, "null:eager", backend=Late())
    assert (cell.stage, cell.refused_call) == ("lower", 2)
    assert cell.error is not None
    assert "refuses inputs_0:0 = 9" in cell.error


@dataclass(frozen=True)
class Quantizing:
    """The null backend with one recipe, whose quantizer only rewrites."""

    change: Change
    name: str = "null"

    @property
    def recipes(self) -> dict[str, Recipe]:
        return {"int": replace(BACKEND.recipes["eager"], quantizer=lambda: Rewriting(self.change))}

    def availability(self) -> Availability:
        return BACKEND.availability()

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        return BACKEND.execute(program, calls)


def _drop_factors(graph: GraphModule) -> None:
    for node in [node for node in graph.graph.nodes if node.target == aten.mul.Tensor]:
        node.replace_all_uses_with(node.args[0])


def _exchange_outputs(graph: GraphModule) -> None:
    output = graph.graph.output_node()
    output.args = (output.args[0][::-1],)


def _drop_dimensions(graph: GraphModule) -> None:
    for node in graph.graph.nodes:
        if node.target == aten.var.dim:
            node.args = node.args[:3]


def _return_float32(graph: GraphModule) -> None:
    output = graph.graph.output_node()
    with graph.graph.inserting_before(output):
        output.args = ([graph.graph.call_method("float", (one,)) for one in output.args[0]],)


def _write_mask(graph: GraphModule) -> None:
    for buffer in graph.buffers():
        buffer.data.zero_()


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (_drop_factors, {"scaled_softmax", "two_outputs_of_one_shape"}),
        (_exchange_outputs, {"two_outputs_of_one_shape"}),
        (_drop_dimensions, {"variance_keeps_its_dimension"}),
        (_return_float32, {"bfloat16_linear", "bfloat16_conv2d"}),
        (_write_mask, {"masked_softmax"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_author_of_a_quantizer_meets_its_faults(change: Change, found: set[str]) -> None:
    right = [one for one in BEFORE_LOWERING if one.expected is Expected.CONFORMS]
    with pytest.raises(AssertionError) as wrong:
        check_backend(Quantizing(change), specimens=right)
    named = re.findall(r"^specimen/(\w+)@", str(wrong.value), re.MULTILINE)
    assert set(named) == found, wrong.value
    assert set(re.findall(r" at (\w+), ", str(wrong.value))) == {"quantize"}


def test_an_honest_quantizer_is_found_nothing_wrong_with() -> None:
    check_backend(Quantizing(lambda _: None), specimens=BEFORE_LOWERING)


@pytest.mark.nightly
@pytest.mark.parametrize("target", registry.default_targets(), ids=str)
def test_every_backend_judges_them_rightly(target: registry.Target) -> None:
    backend = registry.backend(target.backend)
    if backend.recipes[target.recipe].quantizer is None:
        check_backend(backend, recipes=[target.recipe])
