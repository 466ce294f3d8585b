"""Unusual but legal programs on the null backend, which executes everything: each verdict is
correct.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch.fx import GraphModule

from backends.null import BACKEND, SPOILED_BACKEND
from harness import Inputs, Limitation, run_cell
from harness.backend_api import Availability, Execution, Recipe
from harness.contract import SPECIMENS, Expected, Specimen, SpecimenKind, check_backend
from harness.contract.before_lowering import BEFORE_LOWERING_SPECIMENS
from harness.contract.check_backend import find_wrong_verdict
from harness.contract.dynamic_specimens import DYNAMIC_SPECIMENS
from harness.errors import StageFailure, UnsupportedProgram, UsageError
from harness.model import registry
from harness.pipeline.reference.tests.quantizers import Change, Rewriting
from harness.record.cell import Status

aten = torch.ops.aten

_STATUS = {
    Expected.CONFORMS: Status.PASSED,
    Expected.VACUOUS: Status.PASSED,
    Expected.DIFFERS: Status.MISMATCH,
    Expected.REFUSED: Status.FAILED,
}

# A call changes state that belongs to its caller.
_ALTERED = {
    "specimen/mask_overwritten": ["buffer mask"],
    "specimen/training_mode_left_on": ["training of the module"],
}


@pytest.mark.one_of(6)
@pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda one: one.case.name)
def test_the_verdict_is_right(specimen: Specimen) -> None:
    cell = run_cell(specimen.case, "null:eager")
    assert find_wrong_verdict(specimen, cell) is None, cell.error
    if specimen.case.name in _ALTERED:
        assert (cell.status, cell.side_effects) == (Status.FAILED, _ALTERED[specimen.case.name])
        return
    assert cell.status is _STATUS[specimen.expected], f"{cell.stage}: {cell.error}"


def test_a_backend_that_spoils_its_outputs_is_found() -> None:
    telling = [one for one in SPECIMENS if one.case.name in ("specimen/cond", "specimen/buffer")]
    with pytest.raises(AssertionError, match="2 verdicts are wrong"):
        check_backend(SPOILED_BACKEND, specimens=telling)
    assert [cell.status for cell in check_backend(BACKEND, specimens=telling)] == 2 * [
        Status.PASSED
    ]


class Narrow(type(BACKEND)):  # type: ignore[misc]
    """Executes programs for up to 4 rows, for any sizes that they were lowered for."""

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
    """Attributes a failure at run time to lowering."""

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        try:
            return super().execute(program, calls)
        except RuntimeError as error:
            raise StageFailure("lower", error) from error


def test_a_size_refused_in_lowering_is_attributed_to_lowering() -> None:
    (rows,) = (one for one in DYNAMIC_SPECIMENS if one.case.name == "specimen/dynamic_rows")
    cell = run_cell(rows.case, "null:eager", backend=Late())
    assert (cell.stage, cell.refused_call) == ("lower", 2)
    assert cell.error is not None
    assert "refuses inputs_0:0 = 9" in cell.error


@dataclass(frozen=True)
class Quantizing:
    """The null backend with one recipe, whose quantizer only rewrites the graph."""

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


@pytest.mark.one_of(3)
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
def test_faults_of_a_quantizer_are_reported_to_its_author(change: Change, found: set[str]) -> None:
    right = [one for one in BEFORE_LOWERING_SPECIMENS if one.expected is Expected.CONFORMS]
    with pytest.raises(AssertionError) as wrong:
        check_backend(Quantizing(change), specimens=right)
    named = re.findall(r"^specimen/(\w+)@", str(wrong.value), re.MULTILINE)
    assert set(named) == found, wrong.value
    assert set(re.findall(r" at (\w+), ", str(wrong.value))) == {"quantize"}


def test_a_correct_quantizer_passes() -> None:
    check_backend(Quantizing(lambda _: None), specimens=BEFORE_LOWERING_SPECIMENS)


class Raises(type(BACKEND)):  # type: ignore[misc]
    """Executes nothing."""

    error: type[Exception] = RuntimeError

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        raise self.error("not today")


class Refuses(Raises):
    """Executes nothing, and reports it as unsupported."""

    error = UnsupportedProgram


class Echoes(type(BACKEND)):  # type: ignore[misc]
    """Returns its inputs."""

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        return Execution([list(inputs) for inputs in calls], "native")


class Confuses(type(BACKEND)):  # type: ignore[misc]
    """Returns the outputs of the previous program."""

    before: Execution | None = None

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        now = super().execute(program, calls)
        Confuses.before, given = now, Confuses.before
        return now if given is None else given


# Some of each kind, because all of them take half a minute for each backend.
SOME = [one for kind in SpecimenKind for one in [x for x in SPECIMENS if x.kind is kind][:3]]


@pytest.mark.one_of(4)
@pytest.mark.parametrize("backend", [Raises(), Refuses(), Echoes(), Confuses()])
def test_a_backend_that_computes_nothing_is_found(backend: Any) -> None:
    with pytest.raises(AssertionError) as found:
        check_backend(backend, specimens=SOME)
    text = str(found.value)
    right = {one.case.name for one in SOME if one.expected is Expected.CONFORMS}
    assert "too few programs pass:" in text
    assert re.search(r"null:eager: [01] of \d\d conforming programs pass", text), text
    if isinstance(backend, Refuses):
        assert "verdicts are wrong" not in text
        reasons = r"^  (specimen/\w+)@null:eager: unsupported at run: \w+"
        assert set(re.findall(reasons, text, re.MULTILINE)) == right
        return
    named = set(re.findall(r"^(specimen/\w+)@", text, re.MULTILINE))
    assert len(right - named) <= 1, right - named
    for kind in {one.kind for one in SOME if one.expected is Expected.CONFORMS}:
        if not isinstance(backend, Confuses):  # its outputs are correct once
            assert f"programs about {kind} passes" in text


@pytest.mark.nightly
def test_wrong_declarations_of_unsupported_programs_are_reported() -> None:
    outputs = [one for one in SPECIMENS if one.kind is SpecimenKind.OUTPUTS]
    (cond,) = (one for one in SPECIMENS if one.case.name == "specimen/cond")

    with pytest.raises(AssertionError, match=r"declared unsupported \(no branches\); remove that"):
        check_backend(BACKEND, specimens=[*outputs, cond], unsupported={"cond": "no branches"})
    with pytest.raises(UsageError, match=r"unsupported=\{'con_': ...\} matches no program"):
        check_backend(BACKEND, specimens=outputs, unsupported={"con_": "no branches"})


class Finite(type(BACKEND)):  # type: ignore[misc]
    """Returns finite numbers for infinite ones."""

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        outputs = super().execute(program, calls).outputs
        return Execution([[torch.nan_to_num(one) for one in call] for call in outputs], "native")


def test_a_limitation_excuses_a_program_that_fails_as_it_predicts() -> None:
    names = ("log_at_its_ends", "sqrt_at_its_ends", "floor_wrong")
    given = [one for one in SPECIMENS if one.case.name.removeprefix("specimen/") in names]
    entry = Limitation(
        target="null:*",
        case="specimen/log_at_*|specimen/floor_wrong",
        reason="results are finite",
        stage="compare",
        error="expected -inf",
        outcome=Status.MISMATCH,
    )
    check = functools.partial(check_backend, specimens=given)

    cells = check(Finite(), limitations=[entry])
    assert [cell.status for cell in cells] == [Status.XFAILED, Status.PASSED, Status.MISMATCH]
    for limitations in ([], [replace(entry, error="expected nan")]):
        with pytest.raises(AssertionError, match=r"log_at_its_ends.*it is a correct program"):
            check(Finite(), limitations=limitations)
    with pytest.raises(AssertionError, match=r"log_at_its_ends.*its limitation no longer holds"):
        check(BACKEND, limitations=[entry])
    with pytest.raises(UsageError, match="matches no conforming program on null:eager"):
        check(BACKEND, limitations=[replace(entry, case="specimen/floor_wrong")])


# Programs that our backends cannot execute, with the reason.
_STRIDES = "the runtime takes contiguous or channels-last inputs only"
_BRANCHES = "Inductor generates no code for branches and loops in a partition"
_SYMBOLS = "a number that is made of data is a symbol, which the lowering does not take"
UNSUPPORTED: dict[str, dict[str, str]] = {
    "portable:fp32": {"transposed_input": _STRIDES},
    "xnnpack:fp32": {"transposed_input": _STRIDES},
    "tosa:fp": {
        "number_from_data": _SYMBOLS,
        "second_input_changed": "Arm's lowering fails with StopIteration on a sum of all elements",
        "sum_of_equal_terms": "Arm's lowering fails with StopIteration on a sum of all elements",
        "cond*": "Arm's lowering does not take the int64 that a comparison of a sum makes",
    },
    "mlx:fp32": {
        "number_from_data": _SYMBOLS,
        "inputs_that_are_no_tensors": "the delegate takes no constants as inputs",
    },
    "metal:fp32": {
        "number_from_data": _SYMBOLS,
        "declared_draws": "the runtime has no fallback kernel for randint.low_out",
        "complex_output": "the runtime has no fallback kernel for _fft_r2c",
        "rfft2": "the runtime has no fallback kernel for _fft_r2c",
        "cond*": _BRANCHES,
        "map": _BRANCHES,
        "scan": _BRANCHES,
        "acosh_at_its_ends": "Inductor's code for MPS has no acosh",
        "left_over_sort": "the runtime has no fallback kernel for sort.stable",
        "bfloat16_conv2d": "the runtime's convolution takes contiguous inputs only",
    },
}


QUANTIZING = ["xnnpack:int8", "tosa:int", "tosa:mxfp8_e4m3", "mlx:int4"]


@pytest.mark.nightly
@pytest.mark.parametrize("target", [*map(str, registry.default_targets()), *QUANTIZING])
def test_every_backend_judges_them_rightly(target: str) -> None:
    parsed = registry.Target.parse(target)
    backend = registry.backend(parsed.backend)
    check_backend(backend, recipes=[parsed.recipe], unsupported=UNSUPPORTED.get(target))
