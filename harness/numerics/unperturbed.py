"""The runs of a module that nothing perturbs: eagerly, and in float64.

They are the same whatever target is judged by them. Eager is run twice, and so is the plain run of
what is not large or draws, with other random numbers: a module whose runs differ has no outputs
that one could expect, and is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.errors import NotDeterministic
from harness.execution.interface import Place, output_paths
from harness.model.case import Given
from harness.numerics.arithmetic import Float64Mode, Trace
from harness.numerics.determinism import LARGE, Draws, agree
from harness.numerics.formats.semantics import GENERIC, Semantics
from harness.numerics.module_runs import (
    EagerRuns,
    Returned,
    Widened,
    coarsest_dtype,
    run_calls,
    run_calls_in_float64,
)
from harness.numerics.quantization_steps import output_steps
from harness.vendors.torch import TreeSpec


@dataclass(frozen=True)
class Exact:
    """What a module returns: per call, the leaves of the outputs, then changed inputs.

    Attributes:
        natives: as eager returned them, in the module's own dtype.
        truths: of the run in float64.
        trace: what that met, for the perturbed runs to compare theirs with.
        changed: positions of the flat inputs that are changed.
        number_dtype: what Python's numbers among the values count as.
        steps: as in ``Reference``, and so are ``places``, ``specs`` and ``model``.
        is_large: there are too many elements to hold them longer than needed.
    """

    natives: list[list[Any]]
    truths: list[list[Any]]
    trace: Trace
    changed: list[int]
    number_dtype: torch.dtype
    steps: Sequence[float | None]
    places: Sequence[Sequence[Place]]
    specs: Sequence[TreeSpec]
    model: Sequence[Sequence[Any]] | None
    is_large: bool


def run_exactly(
    module: torch.nn.Module,
    calls: Sequence[Given],
    seed: int,
    semantics: Semantics = GENERIC,
    *,
    changed: Collection[int] = (),
    model: torch.nn.Module | None = None,
    runs: EagerRuns | None = None,
    wide: Widened | None = None,
) -> Exact:
    """Run a module for a sequence of calls; the arguments are those of
    :func:`harness.numerics.oracle.refer`.

    Args:
        module: the float module, or the quantized graph.
        calls: inputs of each call.
        seed: seeds what the module draws.
        semantics: what operators mean that are no arithmetic of tensors.
        changed: positions of flat inputs that the program says it changes.
        model: the float module, where ``module`` is a graph that was made of it.
        runs: eager runs with the same seed that were made already, and those that are made here.
        wide: state and inputs in float64, where they are there already.

    Raises:
        NotDeterministic: two runs differ.
    """
    run_eagerly = runs or EagerRuns(seed)
    wide = Widened(module, calls) if wide is None else wide
    eager = run_eagerly(module, calls)
    models = None if model is None else run_eagerly(model, calls)
    returned = (*eager, *(models or ()))
    changed = sorted({*changed, *(position for call in returned for position in call.inputs)})
    if any(sorted(call.inputs) != changed for call in eager):
        eager = run_calls(module, calls, seed, changed)
    plain = Float64Mode(semantics)
    is_large = wide.elements + _elements(eager) > LARGE
    again = Draws() if is_large else None
    _must_agree(eager, run_calls(module, calls, seed + 1, changed, within=again), module, calls)
    exact = run_calls_in_float64(module, calls, plain, seed, changed, wide)
    if again is None or again.drew:
        mode = Float64Mode(semantics)
        second = run_calls_in_float64(module, calls, mode, seed + 1, changed, wide)
        _must_agree(exact, second, module, calls)
    natives: list[list[Any]] = []
    truths: list[list[Any]] = []
    for index, call in enumerate(eager):
        native, truth = values_of(call), values_of(exact[index])
        if models is not None and models[index].spec == call.spec:
            native, truth = (_beside_tensors(values, models[index]) for values in (native, truth))
        natives.append(native)
        truths.append(list(map(_exact, native, truth)))
    return Exact(
        natives,
        truths,
        plain.trace,
        changed,
        coarsest_dtype(module, calls),
        output_steps(module) if isinstance(module, torch.fx.GraphModule) else [],
        [places_of(call) for call in eager],
        [call.spec for call in models or eager],
        None if models is None else [call.outputs for call in models],
        is_large,
    )


def numbers(value: Any) -> torch.Tensor | None:
    """The numbers of a value as a real tensor: complex ones as pairs along a last dimension of 2, a
    Python number without dimensions. None for what has none."""
    if isinstance(value, torch.Tensor):
        return torch.view_as_real(value) if value.is_complex() else value
    if isinstance(value, (bool, int, float)):
        dtype = torch.float64 if isinstance(value, float) else None
        return torch.tensor(value, dtype=dtype)
    return None


def values_of(call: Returned) -> list[Any]:
    """The leaves of the outputs of a call, then the inputs that it changed."""
    return [*call.outputs, *call.inputs.values()]


def _beside_tensors(values: list[Any], model: Returned) -> list[Any]:
    """The values, with the model's own where it returns no tensor."""
    given = [*model.outputs, *values[len(model.outputs) :]]
    return [
        value if isinstance(other, torch.Tensor) else other
        for value, other in zip(values, given, strict=True)
    ]


def _exact(native: Any, truth: Any) -> Any:
    """Integers and bools are eager's; what counts in float64 may turn out otherwise there."""
    is_wide = isinstance(native, float) or (
        isinstance(native, torch.Tensor) and (native.is_floating_point() or native.is_complex())
    )
    if not is_wide or not isinstance(truth, torch.Tensor):
        return truth if is_wide else native
    return truth.to(torch.complex128 if native.is_complex() else torch.float64)


def places_of(call: Returned) -> list[Place]:
    """What each of :func:`values_of` is."""
    outputs = [Place("output", index, path) for index, path in enumerate(output_paths(call.spec))]
    return outputs + [Place("input", position) for position in call.inputs]


def _elements(run: Sequence[Returned]) -> int:
    found = (numbers(value) for call in run for value in values_of(call))
    return sum(value.numel() for value in found if value is not None)


def _must_agree(
    first: Sequence[Returned],
    second: Sequence[Returned],
    module: torch.nn.Module,
    calls: Sequence[Given],
) -> None:
    """Hold two runs, with other random numbers, against each other.

    Raises:
        NotDeterministic: the outputs differ.
    """
    for index, (one, other) in enumerate(zip(first, second, strict=True)):
        if not agree(values_of(one), values_of(other)):
            with Draws() as draws:
                run_calls(module, calls)
            raise NotDeterministic(
                f"the module is not deterministic: two runs of call {index} on the same "
                f"inputs differ; {draws.cause}"
            )
