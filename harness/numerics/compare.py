"""Compare outputs with a reference: structure first, then values against the bound.

Every metric is defined for every tensor (docs/numerics.md has the table): a metric never
raises and never hides a NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.execution.interface import Interface, Place
from harness.execution.program import TensorSpec
from harness.numerics.bounds import attained
from harness.numerics.oracle import Reference, numbers
from harness.numerics.telling import telling
from harness.record.cell import Numerics


@dataclass(frozen=True)
class Verdict:
    """Whether all outputs conform, why not, and the numbers of each."""

    passed: bool
    problem: str | None
    numerics: list[Numerics]


def compare(
    actual: Sequence[Sequence[Any]],
    reference: Reference,
    *,
    interface: Interface | None = None,
    declared: Sequence[TensorSpec | None] | None = None,
) -> Verdict:
    """Judge what a program returned for a sequence of calls.

    Args:
        actual: per call the flat values: tensors, numbers, None.
        reference: what they should be, the bound, and the steps of quantized outputs.
        interface: what each value is, and the program's tree of outputs; by default they are all
            outputs, in the reference's order.
        declared: what the program declares about the values; its dim order is checked.
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
            row = _compare_value(
                values[found], reference, call, index, place, declared[found] if declared else None
            )
            numerics += [row] if row is not None else []
            if row is not None and row.problem:
                problems.append(f"call {call} {place}: {row.problem}")
    return Verdict(not problems, "; ".join(problems) or None, numerics)


def _outputs(values: Sequence[Any]) -> list[Place]:
    return [Place("output", index, f"[{index}]") for index in range(len(values))]


def _compare_value(
    actual: Any,
    reference: Reference,
    call: int,
    index: int,
    place: Place,
    spec: TensorSpec | None,
) -> Numerics | None:
    """The record of one value; None for one without numbers that is as expected."""
    eager, bound = reference.eager[call][index], reference.bound[call][index]
    if bound is None:
        is_same = type(actual) is type(eager) and actual == eager
        return None if is_same else unlike(actual, call, place, f"{actual!r}, expected {eager!r}")
    is_output = place.role == "output"
    models = reference.model[call] if reference.model is not None and is_output else ()
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
) -> Numerics:
    """Judge one tensor or number.

    Args:
        actual: what the target returned.
        oracle: float64 (or exact integer) reference, same shape.
        bound: float64, the shape of the oracle's numbers; largest error that conforms, per element.
        eager: eager output in the recipe's dtype; gives the expected dtype.
        others: further values that conform (:func:`harness.numerics.bounds.alternatives`).
        spec: what the program declares about this output.
        model: the float model's output, for quantized recipes.
        step: quantization step of the output, in its unit.
        call: number of the call, for the record.
        place: what the value is, for the record.
    """
    if problem := structure_problem(actual, eager, spec):
        return unlike(actual, call, place, problem)
    dtype, shape = kind_name(actual), list(getattr(actual, "shape", ()))
    actual, oracle, eager, model = (numbers(item) for item in (actual, oracle, eager, model))
    assert actual is not None
    assert oracle is not None
    assert eager is not None
    error, within = errors(actual, oracle, bound, eager, others)
    used = _used(error, bound, within)
    worst = int(used.argmax()) if used.numel() else None
    exceeding = int((~within).sum())
    flat_bound = bound.flatten()
    return Numerics(
        call=call,
        output=place.index,
        role=place.role,
        dtype=dtype,
        shape=shape,
        max_abs=_max(error),
        mean_abs=float(error.mean()) if error.numel() else 0.0,
        max_ulp=max_ulp(actual, oracle, error),
        sqnr_db=sqnr_db(actual, oracle),
        rel_fro=relative_frobenius(actual, oracle),
        cosine=cosine(actual, oracle),
        bound=float(flat_bound[worst]) if worst is not None else 0.0,
        bound_used=_max(used),
        exceeding=exceeding,
        elements=actual.numel(),
        worst_index=_unravel(worst, actual.shape) if worst is not None else None,
        worst_actual=float(actual.flatten()[worst]) if worst is not None else None,
        worst_expected=float(oracle.flatten()[worst]) if worst is not None else None,
        eager_max_abs=_max(errors(actual, eager.double(), bound, eager)[0]),
        eager_sqnr_db=sqnr_db(actual, eager),
        model_sqnr_db=None if model is None else sqnr_db(actual, model),
        max_steps=None if step is None else _max(error) / step,
        telling=telling(oracle, bound),
        problem=None
        if exceeding == 0
        else f"{exceeding} of {actual.numel()} elements exceed the bound "
        f"(worst {_max(used):.3g} times it, max abs error {_max(error):.3g})",
    )


def errors(
    actual: torch.Tensor,
    oracle: torch.Tensor,
    bound: torch.Tensor,
    eager: torch.Tensor,
    others: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Absolute errors (float64) and which elements conform.

    Two finite values conform when they differ by at most the bound. A non-finite value
    conforms when it is the same infinity, or also NaN, in the oracle rounded to the output's
    dtype or in eager: an intermediate may overflow in the dtype although the result would not.
    Its error is then 0; any other error with a non-finite value is infinite.

    Integers and bools conform when they are the oracle's or one of ``others``, and so do infinities
    among these; beyond 2^53, where float64 has no difference, an error is 1.
    """
    if not actual.is_floating_point():
        error = (actual.double() - oracle.double()).abs()
        error = torch.where(actual == oracle, 0.0, error.clamp_min(1.0))
        return error, attained(actual, oracle, others)
    value = actual.double()
    truth = oracle.double()
    rounded = truth.to(actual.dtype).double()
    error = (value - truth).abs()
    finite = value.isfinite() & truth.isfinite()
    same = _same_nonfinite(value, rounded) | _same_nonfinite(value, eager.double())
    if others is not None:
        same |= value.isinf() & attained(value, truth, others)
    error = torch.where(finite, error, math.inf)
    error = torch.where(same, 0.0, error)
    return error, (finite & (error <= bound)) | same


def sqnr_db(actual: torch.Tensor, reference: torch.Tensor) -> float:
    """Signal to quantization noise ratio, 10·log10(Σr² / Σ(a-r)²), in dB.

    Equal tensors (empty ones too) give inf; a zero reference that is not met gives -inf.
    Elements where both are the same non-finite value are left out; any other non-finite
    value gives -inf.
    """
    a, r = _comparable(actual, reference)
    if a is None or r is None:
        return -math.inf
    noise, signal = float((a - r).square().sum()), float(r.square().sum())
    if noise == 0:
        return math.inf
    return -math.inf if signal == 0 else 10 * math.log10(signal / noise)


def relative_frobenius(actual: torch.Tensor, reference: torch.Tensor) -> float:
    """‖a-r‖ / ‖r‖; 0 when equal, inf when only the reference is zero."""
    a, r = _comparable(actual, reference)
    if a is None or r is None:
        return math.inf
    noise, signal = float((a - r).norm()), float(r.norm())
    if noise == 0:
        return 0.0
    return math.inf if signal == 0 else noise / signal


def cosine(actual: torch.Tensor, reference: torch.Tensor) -> float:
    """Cosine similarity of the flattened tensors; 1 when both are zero or empty, 0 when one
    is zero or holds a non-finite value that the other does not."""
    a, r = _comparable(actual, reference)
    if a is None or r is None:
        return 0.0
    na, nr = float(a.norm()), float(r.norm())
    if na == 0 and nr == 0:
        return 1.0
    if na == 0 or nr == 0:
        return 0.0
    return max(-1.0, min(1.0, float((a / na) @ (r / nr))))


def max_ulp(actual: torch.Tensor, oracle: torch.Tensor, error: torch.Tensor) -> float | None:
    """Largest error in units of the last place of the oracle in the output's dtype.

    None for integer and bool outputs, where the notion is empty. Below the normal range the
    unit is that of the smallest normal number.
    """
    if not actual.is_floating_point():
        return None
    if actual.numel() == 0:
        return 0.0
    finfo = torch.finfo(actual.dtype)
    size = oracle.double().abs().nan_to_num(nan=1.0, posinf=finfo.max).clamp_min(finfo.tiny)
    unit = torch.exp2(size.log2().floor()) * finfo.eps
    return float((error / unit).max())


def structure_problem(actual: Any, eager: Any, spec: TensorSpec | None = None) -> str | None:
    """How type, shape, dtype or dim order of a value are wrong, or None.

    Args:
        actual: what the target returned.
        eager: what eager returned.
        spec: what the program declares about it.
    """
    if not (isinstance(actual, torch.Tensor) and isinstance(eager, torch.Tensor)):
        same = type(actual) is type(eager)
        return None if same else f"{kind_name(actual)}, expected {kind_name(eager)}"
    if actual.shape != eager.shape:
        return f"shape {tuple(actual.shape)}, expected {tuple(eager.shape)}"
    if actual.dtype != eager.dtype:
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
        problem=problem,
    )


def _used(error: torch.Tensor, bound: torch.Tensor, within: torch.Tensor) -> torch.Tensor:
    """error / bound, flat; 0 / 0 is 0, and anything beyond a zero bound is infinite."""
    ratio = torch.where(error == 0, 0.0, error / bound)
    ratio = torch.where(ratio.isnan(), math.inf, ratio)
    return torch.where(within, ratio.clamp_max(1.0), ratio).flatten()


def _same_nonfinite(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.isnan() & b.isnan()) | (a.isinf() & (a == b))


def _comparable(
    actual: torch.Tensor, reference: torch.Tensor
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    a, r = actual.double().flatten(), reference.double().flatten()
    if a.shape != r.shape:
        return None, None
    if actual.is_floating_point():
        r = torch.where(r.abs() > torch.finfo(actual.dtype).max, r.sign() * math.inf, r)
    both = ~_same_nonfinite(a, r)
    a, r = a[both], r[both]
    if not bool(a.isfinite().all() and r.isfinite().all()):
        return None, None
    return a, r


def _max(values: torch.Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0


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
