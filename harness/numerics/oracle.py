"""The float64 oracle and the bound on what a target may deviate from it.

Both come from running the module itself under a dispatch mode that holds every floating
tensor in float64. The oracle is the plain run (:mod:`harness.numerics.unperturbed`). For the bound
the run is repeated with each operation's result perturbed by as much as the target's arithmetic may
be wrong there (Monte Carlo arithmetic: Parker 1997); how far the outputs spread is how far a
correct backend may be off, conditioning and cancellation included. docs/numerics.md derives the
amplitudes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.execution.interface import Place
from harness.model.case import Given
from harness.model.precision import Precision
from harness.model.seeding import restored
from harness.numerics.bounds import Spread
from harness.numerics.control_flow import uncompiled
from harness.numerics.formats.semantics import GENERIC, Semantics
from harness.numerics.kernels.threads import one_thread
from harness.numerics.module_runs import EagerRuns, Returned, Widened, run_calls_in_float64
from harness.numerics.perturbation import PerturbedMode
from harness.numerics.unperturbed import Exact, numbers, run_exactly, values_of
from harness.vendors.torch import TreeSpec


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
        model: the outputs of the float model, where the reference is a quantized graph: their
            types, shapes and dtypes are those to expect.
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
    wide = Widened(module, calls)
    exact = run_exactly(
        module, calls, seed, semantics, changed=changed, model=model, runs=runs, wide=wide
    )
    return bounded(exact, module, calls, precision, seed, semantics, wide)


@one_thread()
def bounded(
    exact: Exact,
    module: torch.nn.Module,
    calls: Sequence[Given],
    precision: Precision,
    seed: int,
    semantics: Semantics = GENERIC,
    wide: Widened | None = None,
) -> Reference:
    """The oracle with what a target's arithmetic explains; see :func:`refer`.

    Args:
        exact: the runs of this module for these calls, with this seed and these semantics.
        module: as there.
        calls: as there.
        precision: rounding model of the target.
        seed: as there.
        semantics: as there.
        wide: state and inputs in float64, where they are there already.
    """
    wide = Widened(module, calls) if wide is None else wide
    spreads = [
        [_spread(*pair, exact.number_dtype) for pair in zip(*values, strict=True)]
        for values in zip(exact.natives, exact.truths, strict=True)
    ]
    exact.trace.sums.forget_magnitudes()
    with uncompiled(), restored():
        for sample in range(precision.samples):
            mode = PerturbedMode(precision, seed, sample, exact.trace, semantics)
            run = run_calls_in_float64(module, calls, mode, seed, exact.changed, wide)
            _count(run, spreads)
    bound = []
    for places, call_spreads in zip(exact.places, spreads, strict=True):
        outputs = sum(place.role == "output" for place in places)
        known = [*exact.steps[:outputs], *[None] * len(call_spreads)]
        bound.append(
            [
                None if spread is None else spread.bound(precision, step)
                for spread, step in zip(call_spreads, known, strict=False)
            ]
        )
    return Reference(
        exact.truths,
        bound,
        exact.natives,
        exact.steps,
        places=exact.places,
        specs=exact.specs,
        model=exact.model,
        alternatives=[
            [None if spread is None else spread.alternatives for spread in call_spreads]
            for call_spreads in spreads
        ],
    )


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
        for spread, value in zip(call_spreads, values_of(call), strict=True):
            if spread is not None and (found := numbers(value)) is not None:
                spread.add(found)
