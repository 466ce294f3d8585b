"""Compare outputs with a reference: structure first, then values against the bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.execution.interface import Interface, ValuePosition
from harness.execution.program import TensorSpec
from harness.numerics.formats.joint_errors import JointErrors
from harness.numerics.metrics.conclusiveness import compute_conclusive_share, find_vacuous_reason
from harness.numerics.metrics.differences import Difference, ErrorSummary, compute_largest_error
from harness.numerics.metrics.error_patterns import describe_pattern
from harness.numerics.metrics.severity import classify_severity
from harness.numerics.oracle import Reference
from harness.numerics.unperturbed import as_real_tensor
from harness.record import severity as severities
from harness.record.cell import Numerics
from harness.record.evidence import is_conclusive
from harness.record.number_text import format_apart
from harness.record.severity import Severity

Narrowed = Mapping[str, str]
_NOTHING: Narrowed = {}

# Errors below this multiple of the bound are judged again by a bound from more runs. Beyond it, the
# runs would have to underestimate the spread by the same factor.
_RECHECK_BELOW = 3.0


@dataclass(frozen=True)
class Verdict:
    """Whether all outputs conform, why not, and the figures of each.

    ``severity`` is the severity of the worst output, None where all conform. A wrong structure of
    the outputs, such as their number, is critical.
    """

    passed: bool
    problem: str | None
    numerics: list[Numerics]
    severity: Severity | None = None

    @classmethod
    def from_rows(cls, numerics: list[Numerics], problems: list[str]) -> Verdict:
        """Make the verdict on some outputs.

        Args:
            numerics: a row for each output that was compared.
            problems: one text per problem; a problem of an output is in its row, too.
        """
        of_outputs = sum(row.problem is not None for row in numerics)
        other = Severity.CRITICAL if len(problems) > of_outputs else None
        found = severities.find_worst([other, *(row.severity for row in numerics)])
        return cls(not problems, "; ".join(problems) or None, numerics, found)

    @property
    def is_close(self) -> bool:
        """Whether values alone are wrong, by so little that the estimate of the bound may be the
        cause."""
        wrong = [row for row in self.numerics if row.problem]
        return bool(wrong) and all(1 < row.bound_used < _RECHECK_BELOW for row in wrong)


def compare(
    actual: Sequence[Sequence[Any]],
    reference: Reference,
    *,
    interface: Interface | None = None,
    declared: Sequence[TensorSpec | None] | None = None,
    narrowed: Narrowed = _NOTHING,
    refine: Callable[[], Reference] | None = None,
) -> Verdict:
    """Compare the outputs of a program for a sequence of calls with a reference.

    Args:
        actual: per call the flat values: tensors, numbers, None.
        reference: expected values, their bound, and the steps of quantized outputs.
        interface: the place of each value, and the program's tree of outputs; by default all are
            outputs, in the reference's order.
        declared: the program's declaration of each value; its dim order is checked.
        narrowed: as :attr:`harness.model.recipe.Recipe.narrowed`.
        refine: computes the reference with more runs. It decides where values exceed their bounds
            by so little that the estimate of the bound may be the cause.
    """
    verdict = _compare_calls(actual, reference, interface, declared, narrowed)
    if refine is None or not verdict.is_close:
        return verdict
    return _compare_calls(actual, refine(), interface, declared, narrowed)


def _compare_calls(
    actual: Sequence[Sequence[Any]],
    reference: Reference,
    interface: Interface | None,
    declared: Sequence[TensorSpec | None] | None,
    narrowed: Narrowed,
) -> Verdict:
    numerics: list[Numerics] = []
    problems: list[str] = []
    if len(actual) != len(reference.oracle):
        problems.append(f"results of {len(actual)} calls, expected {len(reference.oracle)}")
    for call, values in enumerate(actual[: len(reference.oracle)]):
        expected = reference.places[call] if reference.places else _outputs(reference.oracle[call])
        returned = interface.positions if interface is not None else expected
        if interface is not None and (
            problem := interface.find_tree_difference(reference.specs[call])
        ):
            problems.append(f"call {call}: {problem}")
            continue
        if len(values) != len(returned):
            problems.append(f"call {call}: {len(values)} outputs, expected {len(returned)}")
            continue
        at = {place.key: index for index, place in enumerate(returned)}
        for index, place in enumerate(expected):
            if place.key not in at:
                problems.append(f"call {call}: eager changes input {place.index}, the program not")
                continue
            found = at[place.key]
            spec = declared[found] if declared else None
            row = _compare_value(values[found], reference, call, index, place, spec, narrowed)
            numerics += [row] if row is not None else []
            if row is not None and row.problem:
                problems.append(f"call {call} {place}: {row.problem}")
    return Verdict.from_rows(numerics, problems)


def _outputs(values: Sequence[Any]) -> list[ValuePosition]:
    return [ValuePosition("output", index, f"[{index}]") for index in range(len(values))]


def _compare_value(
    actual: Any,
    reference: Reference,
    call: int,
    index: int,
    place: ValuePosition,
    spec: TensorSpec | None,
    narrowed: Narrowed,
) -> Numerics | None:
    """Return the row of one value; None for an expected value without numbers."""
    eager, bound = reference.eager[call][index], reference.bound[call][index]
    is_output = place.role == "output"
    models = reference.model[call] if reference.model is not None and is_output else ()
    if bound is None:
        wanted = models[place.index] if place.index < len(models) else eager
        if isinstance(wanted, torch.Tensor):
            problem = (
                find_structure_problem(actual, wanted) or "the quantized graph returns no tensor"
            )
            return make_mismatch_row(actual, call, place, problem)
        if type(actual) is type(wanted) and actual == wanted:
            return None
        return make_mismatch_row(actual, call, place, f"{actual!r}, expected {wanted!r}")
    steps = reference.steps if is_output else ()
    joint = reference.joint[call] if reference.joint and is_output else ()
    return compare_output(
        actual,
        reference.oracle[call][index],
        bound,
        eager,
        alternatives=reference.alternatives[call][index] if reference.alternatives else None,
        spec=spec,
        model=models[place.index] if place.index < len(models) else None,
        step=steps[place.index] if place.index < len(steps) else None,
        joint=joint[place.index] if place.index < len(joint) else None,
        call=call,
        place=place,
        narrowed=narrowed,
    )


def compare_output(
    actual: Any,
    oracle: Any,
    bound: torch.Tensor,
    eager: Any,
    *,
    alternatives: torch.Tensor | None = None,
    spec: TensorSpec | None = None,
    model: Any = None,
    step: float | None = None,
    joint: JointErrors | None = None,
    call: int = 0,
    place: ValuePosition = ValuePosition("output", 0),  # noqa: B008  (frozen)
    narrowed: Narrowed = _NOTHING,
) -> Numerics:
    """Compare one tensor or number with its reference.

    Args:
        actual: output of the target.
        oracle: float64 (or exact integer) reference, same shape.
        bound: float64, the shape of the oracle's numbers; largest error that conforms, per element.
        eager: eager output in the recipe's dtype; gives the expected dtype where there is no
            ``model``.
        alternatives: further values that conform
            (:attr:`harness.numerics.bounds.BoundEstimator.alternatives`).
        spec: the program's declaration of this output.
        model: the float model's output, for quantized recipes; gives the expected type, shape and
            dtype.
        step: quantization step of the output, in its unit.
        joint: limit of the errors of all its elements together.
        call: number of the call, for the record.
        place: place of the value, for the record.
        narrowed: as :attr:`harness.model.recipe.Recipe.narrowed`.
    """
    if problem := find_structure_problem(actual, eager if model is None else model, spec, narrowed):
        return make_mismatch_row(actual, call, place, problem)
    # The program has the module's structure, but the quantized graph with the values may differ.
    shape, graph_shape = (getattr(each, "shape", None) for each in (actual, eager))
    if shape != graph_shape:
        problem = f"the quantized graph returns shape {graph_shape}, expected {shape}"
        return make_mismatch_row(actual, call, place, problem)
    dtype, sizes = get_kind_name(actual), list(shape or ())
    actual, oracle, eager, model = map(as_real_tensor, (actual, oracle, eager, model))
    assert actual is not None
    assert oracle is not None
    assert eager is not None
    errors = ErrorSummary.from_tensors(actual, oracle, bound, eager, alternatives)
    to_oracle = Difference.from_tensors(actual, oracle, bound)
    to_eager = Difference.from_tensors(actual, eager, bound)
    worst, is_beyond = errors.worst, errors.exceeding > 0
    size, limit_of_size, _ = (0.0, 1.0, "") if joint is None else joint.measure(actual)
    is_wrong = is_beyond or size > limit_of_size
    at = None if worst is None else _unravel(worst, actual.shape)
    got, wanted, limit = (
        None if worst is None else float(each.flatten()[worst]) for each in (actual, oracle, bound)
    )
    share = compute_conclusive_share(oracle, bound)
    if joint is not None and not is_conclusive(share, oracle.numel()) and joint.rejects_constants():
        share = 1.0  # no constant passes, although one is within the bound of most elements
    likeness = describe_pattern(actual, oracle, bound, eager, alternatives) if is_beyond else ""
    problem = None
    if is_beyond:
        problem = _describe_problem(errors, limit, at, got, wanted, likeness)
    elif joint is not None and is_wrong:
        problem = joint.describe(actual)
        bound = torch.zeros_like(bound)  # the errors together are wrong: every one counts
    return Numerics(
        call=call,
        output=place.index,
        role=place.role,
        dtype=dtype,
        shape=sizes,
        max_abs=errors.max_abs,
        mean_abs=errors.mean_abs,
        max_ulp=errors.max_ulp,
        sqnr_db=to_oracle.sqnr_db,
        rel_fro=to_oracle.relative_frobenius,
        cosine=to_oracle.cosine,
        bound=limit or 0.0,
        bound_used=max(errors.bound_used, size / limit_of_size),
        exceeding=errors.exceeding,
        elements=errors.elements,
        worst_index=at,
        worst_actual=got,
        worst_expected=wanted,
        worst_error=None if worst is None else errors.worst_error,
        eager_max_abs=compute_largest_error(actual, eager),
        eager_sqnr_db=to_eager.sqnr_db,
        model_sqnr_db=None if model is None else Difference.from_tensors(actual, model).sqnr_db,
        max_steps=None if step is None else errors.max_abs / step,
        rms_steps=None if joint is None else size,
        rms_steps_limit=None if joint is None else limit_of_size,
        conclusive_share=share,
        vacuous=find_vacuous_reason(oracle, bound, share),
        name=place.path if "'" in place.path else "",
        severity=classify_severity(actual, oracle, bound, eager, alternatives, step)
        if is_wrong
        else None,
        problem=problem,
        pattern=likeness,
    )


def _describe_problem(
    errors: ErrorSummary,
    limit: float | None,
    at: list[int] | None,
    got: float | None,
    wanted: float | None,
    likeness: str,
) -> str:
    """Describe wrong values: how many, by how much, where, and their pattern. All figures but the
    count belong to the element that exceeds its bound by the largest factor."""
    parts = [
        f"{errors.exceeding} of {errors.elements} elements exceed the bound "
        f"(worst {errors.bound_used:.3g} times it: error {errors.worst_error:.3g}, "
        f"bound {limit or 0:.3g})"
    ]
    if at is not None and got is not None and wanted is not None:
        shown, expected = format_apart(got, wanted)
        parts.append(f"at {at} got {shown}, expected {expected}")
    if likeness:
        parts.append(f"looks {likeness}")
    return ", ".join(parts)


def find_structure_problem(
    actual: Any, eager: Any, spec: TensorSpec | None = None, narrowed: Narrowed = _NOTHING
) -> str | None:
    """Return a wrong type, shape, dtype or dim order of a value as text, or None.

    Args:
        actual: output of the target.
        eager: output of eager.
        spec: the program's declaration of the output.
        narrowed: as :attr:`harness.model.recipe.Recipe.narrowed`.
    """
    if not (isinstance(actual, torch.Tensor) and isinstance(eager, torch.Tensor)):
        is_same = type(actual) is type(eager)
        return None if is_same else f"{get_kind_name(actual)}, expected {get_kind_name(eager)}"
    if actual.shape != eager.shape:
        return f"shape {tuple(actual.shape)}, expected {tuple(eager.shape)}"
    if actual.dtype != eager.dtype and narrowed.get(_name(eager.dtype)) != _name(actual.dtype):
        return f"dtype {_name(actual.dtype)}, expected {_name(eager.dtype)}"
    if spec is None or actual.numel() == 0:
        return None
    # Strides, as several dim orders are the same where a dimension has size 1.
    wanted = _effective(actual.shape, spec.compute_strides(actual.shape))
    if _effective(actual.shape, actual.stride()) != wanted:
        return f"dim order {tuple(actual.dim_order())}, the program declares {spec.dim_order}"
    return None


def _effective(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    return [stride for size, stride in zip(shape, strides, strict=True) if size != 1]


def make_mismatch_row(actual: Any, call: int, place: ValuePosition, problem: str) -> Numerics:
    """Make the row of a value with the wrong type, shape, dtype or dim order."""
    elements = actual.numel() if isinstance(actual, torch.Tensor) else 1
    return Numerics(
        call=call,
        output=place.index,
        role=place.role,
        dtype=get_kind_name(actual),
        shape=list(getattr(actual, "shape", ())),
        max_abs=math.inf,
        mean_abs=math.inf,
        max_ulp=None,
        sqnr_db=-math.inf,
        rel_fro=math.inf,
        cosine=0.0,
        bound=0.0,
        bound_used=math.inf,
        exceeding=elements,
        elements=elements,
        name=place.path if "'" in place.path else "",
        severity=Severity.CRITICAL,
        problem=problem,
    )


def get_kind_name(value: Any) -> str:
    """Return the name of a tensor's dtype, or of a value's type."""
    if isinstance(value, torch.Tensor):
        return _name(value.dtype)
    return "None" if value is None else type(value).__name__


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _unravel(index: int, shape: Sequence[int]) -> list[int]:
    position = []
    for size in reversed(shape):
        position.append(index % size)
        index //= size
    return position[::-1]
