"""The float64 oracle and the bound on what a target may deviate from it.

Both come from running the module itself under a dispatch mode that holds every floating
tensor in float64. The oracle is the plain run. For the bound the run is repeated with each
operation's result perturbed by as much as the target's arithmetic may be wrong there (Monte
Carlo arithmetic: Parker 1997); how far the outputs spread is how far a correct backend may be
off, conditioning and cancellation included. docs/numerics.md derives the amplitudes.

Eager is run twice, and so is the plain run of what is not large or draws, with other random
numbers: a module whose runs differ has no outputs that one could expect, and is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import TreeSpec

from harness.case import Given
from harness.errors import NotDeterministic
from harness.execution.interface import Place, output_paths
from harness.numerics.arithmetic import Float64Mode
from harness.numerics.bounds import Spread
from harness.numerics.determinism import LARGE, Draws, agree
from harness.numerics.eager import (
    EagerRuns,
    Returned,
    Widened,
    coarsest_dtype,
    run_calls,
    run_calls_in_float64,
)
from harness.numerics.formats.semantics import GENERIC, Semantics
from harness.numerics.perturbation import PerturbedMode
from harness.numerics.steps import output_steps
from harness.precision import Precision


@dataclass(frozen=True)
class Reference:
    """What a program should return: per call, the leaves of the outputs, then changed inputs.

    Attributes:
        oracle: float64 for floating tensors, complex128 for complex ones; integer tensors, numbers
            and other values as eager returned them.
        bound: float64, the shape of :func:`numbers` of the value; largest error that the target's
            arithmetic explains. None for what has no numbers.
        eager: eager in the recipe's own dtype.
        steps: per output of a quantized graph, the step that it was quantized with; None for one
            without.
        places: what each value is; empty for outputs in their order.
        specs: the tree of the outputs of each call; empty where nobody compares it.
        model: the outputs of the float model, where the reference is a quantized graph.
        alternatives: other values that conform (``Spread.alternatives``).
    """

    oracle: list[list[Any]]
    bound: list[list[torch.Tensor | None]]
    eager: list[list[Any]]
    steps: Sequence[float | None] = ()
    places: Sequence[Sequence[Place]] = ()
    specs: Sequence[TreeSpec] = ()
    model: Sequence[Sequence[Any]] | None = None
    alternatives: Sequence[Sequence[torch.Tensor | None]] = ()


def refer(
    module: torch.nn.Module,
    calls: Sequence[Given],
    precision: Precision,
    seed: int,
    semantics: Semantics = GENERIC,
    *,
    changed: Collection[int] = (),
    model: torch.nn.Module | None = None,
    runs: EagerRuns | None = None,
) -> Reference:
    """Compute oracle, bound and eager outputs of a module for a sequence of calls.

    The module is left as it was: mutable buffers are cloned, and persist over the calls. So are the
    global generators of random numbers.

    Args:
        module: the float module, or the quantized graph for quantized recipes.
        calls: inputs of each call, in the recipe's dtype.
        precision: rounding model of the target.
        seed: seeds the perturbations, so that a bound is the same on every run.
        semantics: what operators mean that are no arithmetic of tensors.
        changed: positions of flat inputs that the program says it changes; those that eager changes
            are found here.
        model: the float module, where ``module`` is a graph that was made of it. Its tree of
            outputs, and what is no tensor in it, is what the program should return.
        runs: eager runs with the same seed that were made already, and those that are made here.

    Raises:
        NotDeterministic: two runs differ.
    """
    run_eagerly = runs or EagerRuns(seed)
    eager = run_eagerly(module, calls)
    changed = sorted({*changed, *(position for call in eager for position in call.inputs)})
    if any(sorted(call.inputs) != changed for call in eager):
        eager = run_calls(module, calls, seed, changed)
    plain, wide = Float64Mode(semantics), Widened(module, calls)
    is_large = wide.elements + _elements(eager) > LARGE
    again = Draws() if is_large else None
    _must_agree(eager, run_calls(module, calls, seed + 1, changed, within=again), module, calls)
    exact = run_calls_in_float64(module, calls, plain, seed, changed, wide)
    if again is None or again.drew:
        mode = Float64Mode(semantics)
        second = run_calls_in_float64(module, calls, mode, seed + 1, changed, wide)
        _must_agree(exact, second, module, calls)
    steps = output_steps(module) if isinstance(module, torch.fx.GraphModule) else []
    models = None if model is None else run_eagerly(model, calls)
    number_dtype = coarsest_dtype(module, calls)
    natives: list[list[Any]] = []
    truths: list[list[Any]] = []
    for index, call in enumerate(eager):
        native, truth = _values(call), _values(exact[index])
        if models is not None and models[index].spec == call.spec:
            native, truth = (_beside_tensors(values, models[index]) for values in (native, truth))
        natives.append(native)
        truths.append(list(map(_exact, native, truth)))
    del exact
    spreads = [
        [_spread(*pair, number_dtype) for pair in zip(*values, strict=True)]
        for values in zip(natives, truths, strict=True)
    ]
    for sample in range(precision.samples):
        mode = PerturbedMode(precision, seed, sample, plain.trace, semantics)
        _count(run_calls_in_float64(module, calls, mode, seed, changed, wide), spreads)
    bound = []
    for call, call_spreads in zip(eager, spreads, strict=True):
        known = [*steps[: len(call.outputs)], *[None] * len(call_spreads)]
        bound.append(
            [
                None if spread is None else spread.bound(precision, step)
                for spread, step in zip(call_spreads, known, strict=False)
            ]
        )
    return Reference(
        truths,
        bound,
        natives,
        steps,
        places=[_places(call) for call in eager],
        specs=[call.spec for call in models or eager],
        model=None if models is None else [call.outputs for call in models],
        alternatives=[
            [None if spread is None else spread.alternatives for spread in call_spreads]
            for call_spreads in spreads
        ],
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


def _values(call: Returned) -> list[Any]:
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


def _spread(native: Any, truth: Any, number_dtype: torch.dtype) -> Spread | None:
    """Where the perturbed runs of a value are summed up; None for one without numbers."""
    value, exact = numbers(native), numbers(truth)
    if value is None or exact is None:
        return None
    if isinstance(native, torch.Tensor):
        return Spread(exact, value.dtype)
    dtype = number_dtype if value.is_floating_point() else value.dtype
    return Spread(exact, dtype, is_constant=True)


def _count(run: Sequence[Returned], spreads: Sequence[Sequence[Spread | None]]) -> None:
    """Sum a perturbed run up; nothing of it is held beyond that."""
    for call, call_spreads in zip(run, spreads, strict=True):
        for spread, value in zip(call_spreads, _values(call), strict=True):
            if spread is not None and (found := numbers(value)) is not None:
                spread.add(found)


def _places(call: Returned) -> list[Place]:
    outputs = [Place("output", index, path) for index, path in enumerate(output_paths(call.spec))]
    return outputs + [Place("input", position) for position in call.inputs]


def _elements(run: Sequence[Returned]) -> int:
    found = (numbers(value) for call in run for value in _values(call))
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
        if not agree(_values(one), _values(other)):
            with Draws() as draws:
                run_calls(module, calls)
            raise NotDeterministic(
                f"the module is not deterministic: two runs of call {index} on the same "
                f"inputs differ; {draws.cause}"
            )
