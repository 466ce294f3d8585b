"""Run a module without perturbations, in eager and in float64.

The results do not depend on the target. Eager runs twice with different random numbers. The
float64 run is repeated as well, unless the tensors are large and eager drew no random numbers. A
module whose runs differ has no expected outputs and is rejected.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.errors import NotDeterministic
from harness.execution.interface import ValuePosition, list_output_paths
from harness.model.case import CallInputs
from harness.numerics.arithmetic import Float64Mode
from harness.numerics.determinism import LARGE, RandomDraws, outputs_agree
from harness.numerics.formats.quantization_steps import output_steps
from harness.numerics.formats.semantics import GENERIC_SEMANTICS, OperatorSemantics
from harness.numerics.module_runs import (
    CallResult,
    EagerRuns,
    Float64State,
    find_coarsest_dtype,
    run_calls,
    run_calls_in_float64,
)
from harness.numerics.pairing import RunRecord
from harness.vendors.torch import TreeSpec


@dataclass(frozen=True)
class UnperturbedRuns:
    """Results of the eager and the float64 run: per call, output leaves, then changed inputs.

    Attributes:
        natives: values as eager returned them, in the module's own dtype.
        truths: values of the float64 run.
        record: intermediates of the float64 run, for the perturbed runs to compare with.
        changed: positions of the flat inputs that the module changes.
        number_dtype: dtype that Python numbers among the values count as.
        steps: as in ``Reference``, like ``places``, ``specs`` and ``model``.
        is_large: there are too many elements to hold them longer than needed.
    """

    natives: list[list[Any]]
    truths: list[list[Any]]
    record: RunRecord
    changed: list[int]
    number_dtype: torch.dtype
    steps: Sequence[float | None]
    places: Sequence[Sequence[ValuePosition]]
    specs: Sequence[TreeSpec]
    model: Sequence[Sequence[Any]] | None
    is_large: bool


def run_unperturbed(
    module: torch.nn.Module,
    calls: Sequence[CallInputs],
    seed: int,
    semantics: OperatorSemantics = GENERIC_SEMANTICS,
    *,
    changed: Collection[int] = (),
    model: torch.nn.Module | None = None,
    runs: EagerRuns | None = None,
    wide: Float64State | None = None,
) -> UnperturbedRuns:
    """Run a module for a sequence of calls.

    Arguments as for :func:`harness.numerics.oracle.compute_reference`.

    Args:
        module: the float module, or the quantized graph.
        calls: inputs of each call.
        seed: seeds the random numbers that the module draws.
        semantics: meaning of operators that are not plain tensor arithmetic.
        changed: positions of flat inputs that the program declares as changed.
        model: the float module, where ``module`` is a graph that was made of it.
        runs: eager runs with the same seed; reused, and completed by the runs made here.
        wide: state and inputs in float64, if they exist already.

    Raises:
        NotDeterministic: two runs differ.
    """
    run_eagerly = runs or EagerRuns(seed)
    wide = Float64State(module, calls) if wide is None else wide
    eager = run_eagerly(module, calls)
    models = None if model is None else run_eagerly(model, calls)
    returned = (*eager, *(models or ()))
    changed = sorted({*changed, *(position for call in returned for position in call.inputs)})
    eager = run_eagerly.with_inputs(module, calls, changed)
    plain = Float64Mode(semantics)
    is_large = wide.elements + _elements(eager) > LARGE
    draws = RandomDraws() if is_large else None
    again = run_calls(module, calls, seed + 1, changed, within=draws)
    # Kernels choose the order of a sum by the alignment of memory, too, and the difference grows
    # from layer to layer: where floats differ, float64 decides.
    _check_agreement(eager, again, module, calls, compare_floats=False)
    exact = run_calls_in_float64(module, calls, plain, seed, changed, wide)
    if draws is None or draws.has_drawn or _find_difference(eager, again) is not None:
        mode = Float64Mode(semantics)
        second = run_calls_in_float64(module, calls, mode, seed + 1, changed, wide)
        _check_agreement(exact, second, module, calls)
    natives: list[list[Any]] = []
    truths: list[list[Any]] = []
    for index, call in enumerate(eager):
        native, truth = collect_values(call), collect_values(exact[index])
        if models is not None and models[index].spec == call.spec:
            native, truth = (
                _take_constants_from(models[index], values) for values in (native, truth)
            )
        natives.append(native)
        truths.append(list(map(_to_truth, native, truth)))
    return UnperturbedRuns(
        natives,
        truths,
        plain.record,
        changed,
        find_coarsest_dtype(module, calls),
        output_steps(module) if isinstance(module, torch.fx.GraphModule) else [],
        [collect_places(call) for call in eager],
        [call.spec for call in models or eager],
        None if models is None else [call.outputs for call in models],
        is_large,
    )


def as_real_tensor(value: Any) -> torch.Tensor | None:
    """Return the numbers of a value as a real tensor; None for a value without numbers.

    Complex numbers become pairs along a last dimension of 2; a Python number has no dimensions.
    """
    if isinstance(value, torch.Tensor):
        return torch.view_as_real(value) if value.is_complex() else value
    if isinstance(value, (bool, int, float)):
        dtype = torch.float64 if isinstance(value, float) else None
        return torch.tensor(value, dtype=dtype)
    return None


def collect_values(call: CallResult) -> list[Any]:
    """Return the leaves of a call's outputs, then the inputs that it changed."""
    return [*call.outputs, *call.inputs.values()]


def _take_constants_from(model: CallResult, values: list[Any]) -> list[Any]:
    """Return the values, with the model's own where the model returns no tensor."""
    given = [*model.outputs, *values[len(model.outputs) :]]
    return [
        value if isinstance(other, torch.Tensor) else other
        for value, other in zip(values, given, strict=True)
    ]


def _to_truth(native: Any, truth: Any) -> Any:
    """Return the float64 value in a canonical dtype. Integers and bools are eager's: a decision in
    float64 may differ."""
    is_wide = isinstance(native, float) or (
        isinstance(native, torch.Tensor) and (native.is_floating_point() or native.is_complex())
    )
    if not is_wide or not isinstance(truth, torch.Tensor):
        return truth if is_wide else native
    return truth.to(torch.complex128 if native.is_complex() else torch.float64)


def collect_places(call: CallResult) -> list[ValuePosition]:
    """Return the place of each value of :func:`collect_values`."""
    outputs = [
        ValuePosition("output", index, path)
        for index, path in enumerate(list_output_paths(call.spec))
    ]
    return outputs + [ValuePosition("input", position) for position in call.inputs]


def _elements(run: Sequence[CallResult]) -> int:
    found = (as_real_tensor(value) for call in run for value in collect_values(call))
    return sum(value.numel() for value in found if value is not None)


def _find_difference(
    first: Sequence[CallResult], second: Sequence[CallResult], *, compare_floats: bool = True
) -> int | None:
    """Return the first call in which two runs differ; None if they agree."""
    for index, (one, other) in enumerate(zip(first, second, strict=True)):
        values = collect_values(one), collect_values(other)
        if not outputs_agree(*values, compare_floats=compare_floats):
            return index
    return None


def _check_agreement(
    first: Sequence[CallResult],
    second: Sequence[CallResult],
    module: torch.nn.Module,
    calls: Sequence[CallInputs],
    *,
    compare_floats: bool = True,
) -> None:
    """Check that two runs with different random numbers agree.

    Raises:
        NotDeterministic: the outputs differ.
    """
    index = _find_difference(first, second, compare_floats=compare_floats)
    if index is not None:
        with RandomDraws() as draws:
            run_calls(module, calls)
        raise NotDeterministic(
            f"the module is not deterministic: two runs of call {index} on the same "
            f"inputs differ; {draws.cause}"
        )
