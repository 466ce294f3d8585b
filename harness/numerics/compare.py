"""Compare outputs with a reference: structure first, then values against the bound."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.execution.interface import Interface, Place
from harness.execution.program import TensorSpec
from harness.numerics.metrics.conclusiveness import telling, vacuity
from harness.numerics.metrics.differences import Difference, Tally, largest_error
from harness.numerics.metrics.error_patterns import pattern
from harness.numerics.metrics.severity import severity
from harness.numerics.oracle import Reference
from harness.numerics.unperturbed import numbers
from harness.record import severity as severities
from harness.record.cell import Numerics
from harness.record.number_text import apart
from harness.record.severity import Severity

Narrowed = Mapping[str, str]
_NOTHING: Narrowed = {}


@dataclass(frozen=True)
class Verdict:
    """Whether all outputs conform, why not, and the numbers of each.

    ``severity`` is that of the worst output; what is wrong with the structure of the outputs, such
    as their number, is critical. None where all conform.
    """

    passed: bool
    problem: str | None
    numerics: list[Numerics]
    severity: Severity | None = None

    @classmethod
    def of(cls, numerics: list[Numerics], problems: list[str]) -> Verdict:
        """The verdict on some outputs.

        Args:
            numerics: a row for each output that was compared.
            problems: what is wrong, in words; each that is of an output is in its row, too.
        """
        of_outputs = sum(row.problem is not None for row in numerics)
        other = Severity.CRITICAL if len(problems) > of_outputs else None
        found = severities.worst([other, *(row.severity for row in numerics)])
        return cls(not problems, "; ".join(problems) or None, numerics, found)


def compare(
    actual: Sequence[Sequence[Any]],
    reference: Reference,
    *,
    interface: Interface | None = None,
    declared: Sequence[TensorSpec | None] | None = None,
    narrowed: Narrowed = _NOTHING,
) -> Verdict:
    """Judge what a program returned for a sequence of calls.

    Args:
        actual: per call the flat values: tensors, numbers, None.
        reference: what they should be, the bound, and the steps of quantized outputs.
        interface: what each value is, and the program's tree of outputs; by default they are all
            outputs, in the reference's order.
        declared: what the program declares about the values; its dim order is checked.
        narrowed: as :attr:`harness.model.recipe.Recipe.narrowed`.
    """
    numerics: list[Numerics] = []
    problems: list[str] = []
    if len(actual) != len(reference.oracle):
        problems.append(f"results of {len(actual)} calls, expected {len(reference.oracle)}")
    for call, values in enumerate(actual[: len(reference.oracle)]):
        expected = reference.places[call] if reference.places else _outputs(reference.oracle[call])
        returned = interface.places if interface is not None else expected
        if interface is not None and (problem := interface.difference(reference.specs[call])):
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
    return Verdict.of(numerics, problems)


def _outputs(values: Sequence[Any]) -> list[Place]:
    return [Place("output", index, f"[{index}]") for index in range(len(values))]


def _compare_value(
    actual: Any,
    reference: Reference,
    call: int,
    index: int,
    place: Place,
    spec: TensorSpec | None,
    narrowed: Narrowed,
) -> Numerics | None:
    """The record of one value; None for one without numbers that is as expected."""
    eager, bound = reference.eager[call][index], reference.bound[call][index]
    is_output = place.role == "output"
    models = reference.model[call] if reference.model is not None and is_output else ()
    if bound is None:
        wanted = models[place.index] if place.index < len(models) else eager
        if isinstance(wanted, torch.Tensor):
            problem = structure_problem(actual, wanted) or "the quantized graph returns no tensor"
            return unlike(actual, call, place, problem)
        is_same = type(actual) is type(wanted) and actual == wanted
        return None if is_same else unlike(actual, call, place, f"{actual!r}, expected {wanted!r}")
    steps = reference.steps if is_output else ()
    return compare_output(
        actual,
        reference.oracle[call][index],
        bound,
        eager,
        others=reference.alternatives[call][index] if reference.alternatives else None,
        spec=spec,
        model=models[place.index] if place.index < len(models) else None,
        step=steps[place.index] if place.index < len(steps) else None,
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
    others: torch.Tensor | None = None,
    spec: TensorSpec | None = None,
    model: Any = None,
    step: float | None = None,
    call: int = 0,
    place: Place = Place("output", 0),  # noqa: B008  (frozen)
    narrowed: Narrowed = _NOTHING,
) -> Numerics:
    """Judge one tensor or number.

    Args:
        actual: what the target returned.
        oracle: float64 (or exact integer) reference, same shape.
        bound: float64, the shape of the oracle's numbers; largest error that conforms, per element.
        eager: eager output in the recipe's dtype; gives the expected dtype where there is no
            ``model``.
        others: further values that conform (:attr:`harness.numerics.bounds.Spread.alternatives`).
        spec: what the program declares about this output.
        model: the float model's output, for quantized recipes; gives the expected type, shape and
            dtype.
        step: quantization step of the output, in its unit.
        call: number of the call, for the record.
        place: what the value is, for the record.
        narrowed: as :attr:`harness.model.recipe.Recipe.narrowed`.
    """
    if problem := structure_problem(actual, eager if model is None else model, spec, narrowed):
        return unlike(actual, call, place, problem)
    # The program is as the module is; the graph that it is compared with by value may not be.
    shape, of_graph = (getattr(each, "shape", None) for each in (actual, eager))
    if shape != of_graph:
        problem = f"the quantized graph returns shape {of_graph}, expected {shape}"
        return unlike(actual, call, place, problem)
    dtype, sizes = kind_name(actual), list(shape or ())
    actual, oracle, eager, model = (numbers(item) for item in (actual, oracle, eager, model))
    assert actual is not None
    assert oracle is not None
    assert eager is not None
    tally = Tally.of(actual, oracle, bound, eager, others)
    truth, native = Difference.of(actual, oracle, bound), Difference.of(actual, eager, bound)
    worst = tally.worst
    at = None if worst is None else _unravel(worst, actual.shape)
    got, wanted, limit = (
        None if worst is None else float(each.flatten()[worst]) for each in (actual, oracle, bound)
    )
    share = telling(oracle, bound)
    likeness = pattern(actual, oracle, bound, eager, others) if tally.exceeding else ""
    return Numerics(
        call=call,
        output=place.index,
        role=place.role,
        dtype=dtype,
        shape=sizes,
        max_abs=tally.max_abs,
        mean_abs=tally.mean_abs,
        max_ulp=tally.max_ulp,
        sqnr_db=truth.sqnr_db,
        rel_fro=truth.relative_frobenius,
        cosine=truth.cosine,
        bound=limit or 0.0,
        bound_used=tally.used,
        exceeding=tally.exceeding,
        elements=tally.elements,
        worst_index=at,
        worst_actual=got,
        worst_expected=wanted,
        worst_error=None if worst is None else tally.worst_error,
        eager_max_abs=largest_error(actual, eager),
        eager_sqnr_db=native.sqnr_db,
        model_sqnr_db=None if model is None else Difference.of(actual, model).sqnr_db,
        max_steps=None if step is None else tally.max_abs / step,
        telling=share,
        vacuous=vacuity(oracle, bound, share),
        name=place.path if "'" in place.path else "",
        severity=severity(actual, oracle, bound, eager, others, step) if tally.exceeding else None,
        problem=_problem(tally, limit, at, got, wanted, likeness) if tally.exceeding else None,
        pattern=likeness,
    )


def _problem(
    tally: Tally,
    limit: float | None,
    at: list[int] | None,
    got: float | None,
    wanted: float | None,
    likeness: str,
) -> str:
    """What is wrong with the values of a tensor: how many, how much, where, and like what. All
    figures but the count are of the element that exceeds its bound by the largest factor."""
    parts = [
        f"{tally.exceeding} of {tally.elements} elements exceed the bound "
        f"(worst {tally.used:.3g} times it: error {tally.worst_error:.3g}, bound {limit or 0:.3g})"
    ]
    if at is not None and got is not None and wanted is not None:
        shown, expected = apart(got, wanted)
        parts.append(f"at {at} got {shown}, expected {expected}")
    if likeness:
        parts.append(f"looks {likeness}")
    return ", ".join(parts)


def structure_problem(
    actual: Any, eager: Any, spec: TensorSpec | None = None, narrowed: Narrowed = _NOTHING
) -> str | None:
    """How type, shape, dtype or dim order of a value are wrong, or None.

    Args:
        actual: what the target returned.
        eager: what eager returned.
        spec: what the program declares about it.
        narrowed: as :attr:`harness.model.recipe.Recipe.narrowed`.
    """
    if not (isinstance(actual, torch.Tensor) and isinstance(eager, torch.Tensor)):
        same = type(actual) is type(eager)
        return None if same else f"{kind_name(actual)}, expected {kind_name(eager)}"
    if actual.shape != eager.shape:
        return f"shape {tuple(actual.shape)}, expected {tuple(eager.shape)}"
    if actual.dtype != eager.dtype and narrowed.get(_name(eager.dtype)) != _name(actual.dtype):
        return f"dtype {_name(actual.dtype)}, expected {_name(eager.dtype)}"
    if spec is None or actual.numel() == 0:
        return None
    # Compared through strides: with a dimension of size 1 several orders are the same.
    wanted = _effective(actual.shape, spec.strides_of(actual.shape))
    if _effective(actual.shape, actual.stride()) != wanted:
        return f"dim order {tuple(actual.dim_order())}, the program declares {spec.dim_order}"
    return None


def _effective(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    return [stride for size, stride in zip(shape, strides, strict=True) if size != 1]


def unlike(actual: Any, call: int, place: Place, problem: str) -> Numerics:
    """The record of a value that is not even of the kind that was expected."""
    elements = actual.numel() if isinstance(actual, torch.Tensor) else 1
    return Numerics(
        call=call,
        output=place.index,
        role=place.role,
        dtype=kind_name(actual),
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


def kind_name(value: Any) -> str:
    """The name of a tensor's dtype, or of a value's type."""
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
