"""Compute the float64 oracle of a module and the bound on a target's error.

Both come from running the module itself under a dispatch mode that keeps every floating tensor in
float64. The oracle is the unperturbed run (:mod:`harness.numerics.unperturbed`). For the bound, the
run is repeated with each operation's result perturbed by the error that the target's arithmetic may
make there (Monte Carlo arithmetic: Parker 1997). The spread of the outputs is the error that a
correct backend may have, conditioning and cancellation included. docs/numerics.md derives the
amplitudes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.execution.interface import ValuePosition
from harness.model.case import CallInputs
from harness.model.precision import Precision
from harness.model.seeding import restore_generators
from harness.numerics.bounds import BoundEstimator
from harness.numerics.formats.joint_errors import JointErrors
from harness.numerics.formats.semantics import GENERIC_SEMANTICS, OperatorSemantics
from harness.numerics.kernels.control_flow import compilation_disabled
from harness.numerics.kernels.threads import one_thread
from harness.numerics.module_runs import CallResult, EagerRuns, Float64State, run_calls_in_float64
from harness.numerics.perturbation import PerturbedMode
from harness.numerics.requantization import RequantizedMode
from harness.numerics.unperturbed import (
    UnperturbedRuns,
    as_real_tensor,
    collect_values,
    run_unperturbed,
)
from harness.vendors.torch import TreeSpec

# A statistic of a whole tensor needs fewer runs than the spread of each element.
_RUNS_PER_REQUANTIZED_RUN = 4


@dataclass(frozen=True)
class Reference:
    """The expected values of a program: per call, the leaves of the outputs, then changed inputs.

    Attributes:
        oracle: float64 for floating tensors, complex128 for complex ones; integer tensors, numbers
            and other values as eager returned them.
        bound: float64, the shape of :func:`as_real_tensor` of the value; largest error that the
            target's arithmetic explains. None for a value without numbers.
        eager: eager in the recipe's own dtype.
        steps: per output of a quantized graph, the step that it was quantized with; None for an
            output without one.
        places: the place of each value; empty for outputs in their order.
        specs: the tree of the outputs of each call; empty where it is not compared.
        model: the outputs of the float model, where the reference is a quantized graph. They have
            the expected types, shapes and dtypes.
        alternatives: other values that conform (``BoundEstimator.alternatives``).
        joint: of each floating output of a quantized graph, the limit of its errors together,
            where the rounding model of the target has one.
    """

    oracle: list[list[Any]]
    bound: list[list[torch.Tensor | None]]
    eager: list[list[Any]]
    steps: Sequence[float | None] = ()
    places: Sequence[Sequence[ValuePosition]] = ()
    specs: Sequence[TreeSpec] = ()
    model: Sequence[Sequence[Any]] | None = None
    alternatives: Sequence[Sequence[torch.Tensor | None]] = ()
    joint: Sequence[Sequence[JointErrors | None]] = ()


def compute_reference(
    module: torch.nn.Module,
    calls: Sequence[CallInputs],
    precision: Precision,
    seed: int,
    semantics: OperatorSemantics = GENERIC_SEMANTICS,
    *,
    changed: Collection[int] = (),
    model: torch.nn.Module | None = None,
    runs: EagerRuns | None = None,
) -> Reference:
    """Compute oracle, bound and eager outputs of a module for a sequence of calls.

    The module is not changed: mutable buffers are cloned, and persist over the calls. The global
    random number generators are restored.

    Args:
        module: the float module, or the quantized graph for quantized recipes.
        calls: inputs of each call, in the recipe's dtype.
        precision: rounding model of the target.
        seed: seeds the perturbations, so that a bound is the same on every run.
        semantics: meaning of operators that are not plain tensor arithmetic.
        changed: positions of flat inputs that the program declares as changed. Inputs that eager
            changes are added.
        model: the float module, where ``module`` is a graph that was made of it. The program should
            return its tree of outputs and its leaves that are no tensors.
        runs: eager runs with the same seed; reused, and completed by the runs made here.

    Raises:
        NotDeterministic: two runs differ.
    """
    wide = Float64State(module, calls)
    exact = run_unperturbed(
        module, calls, seed, semantics, changed=changed, model=model, runs=runs, wide=wide
    )
    return add_bounds(exact, module, calls, precision, seed, semantics, wide)


@one_thread()
def add_bounds(
    exact: UnperturbedRuns,
    module: torch.nn.Module,
    calls: Sequence[CallInputs],
    precision: Precision,
    seed: int,
    semantics: OperatorSemantics = GENERIC_SEMANTICS,
    wide: Float64State | None = None,
) -> Reference:
    """Complete unperturbed runs to a reference: compute the bound for a target's arithmetic.

    Args:
        exact: the runs of this module for these calls, with this seed and these semantics.
        module: as for :func:`compute_reference`.
        calls: as for :func:`compute_reference`.
        precision: rounding model of the target.
        seed: as for :func:`compute_reference`.
        semantics: as for :func:`compute_reference`.
        wide: state and inputs in float64, if they exist already.
    """
    wide = Float64State(module, calls) if wide is None else wide
    estimators = [
        [make_estimator(*pair, exact.number_dtype) for pair in zip(*values, strict=True)]
        for values in zip(exact.natives, exact.truths, strict=True)
    ]
    joint = _make_joint_errors(exact) if precision.requantization else []
    joint_runs = precision.samples // _RUNS_PER_REQUANTIZED_RUN
    exact.record.sums.forget_magnitudes()
    with compilation_disabled(), restore_generators():
        for sample in range(precision.samples):
            mode = PerturbedMode(precision, seed, sample, exact.record, semantics)
            run = run_calls_in_float64(module, calls, mode, seed, exact.changed, wide)
            add_run(run, estimators)
            if not mode.has_requantized:
                joint = []
            elif sample < joint_runs:
                _add_joint_run(run, joint, JointErrors.add_steps)
        for sample in range(joint_runs if joint else 0):
            mode = RequantizedMode(precision, seed, sample, exact.record, semantics)
            run = run_calls_in_float64(module, calls, mode, seed, exact.changed, wide)
            _add_joint_run(run, joint, JointErrors.add)
    bound = []
    for places, call_estimators in zip(exact.places, estimators, strict=True):
        outputs = sum(place.role == "output" for place in places)
        steps = [*exact.steps[:outputs], *[None] * len(call_estimators)]
        bound.append(
            [
                None if estimator is None else estimator.compute_bound(precision, step)
                for estimator, step in zip(call_estimators, steps, strict=False)
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
            [None if estimator is None else estimator.alternatives for estimator in call_estimators]
            for call_estimators in estimators
        ],
        joint=joint,
    )


def _make_joint_errors(exact: UnperturbedRuns) -> list[list[JointErrors | None]]:
    """Make what :attr:`Reference.joint` holds."""
    return [
        [
            JointErrors(truth, step, exact.record.quantized.get(truth))
            if isinstance(truth, torch.Tensor) and truth.dtype == torch.float64
            else None
            for truth, step in zip(values, exact.steps, strict=False)
        ]
        for values in exact.truths
    ]


def _add_joint_run(
    run: Sequence[CallResult],
    joint: Sequence[Sequence[JointErrors | None]],
    add: Callable[[JointErrors, torch.Tensor], None],
) -> None:
    for call, errors in zip(run, joint, strict=False):
        for each, value in zip(errors, collect_values(call), strict=False):
            if each is not None:
                add(each, value)


def make_estimator(native: Any, truth: Any, number_dtype: torch.dtype) -> BoundEstimator | None:
    """Make the estimator for the bound of a value; None for a value without numbers."""
    value, exact = as_real_tensor(native), as_real_tensor(truth)
    if value is None or exact is None:
        return None
    if isinstance(native, torch.Tensor):
        return BoundEstimator(exact, value.dtype)
    dtype = number_dtype if value.is_floating_point() else value.dtype
    return BoundEstimator(exact, dtype, is_constant=True)


def add_run(
    run: Sequence[CallResult], estimators: Sequence[Sequence[BoundEstimator | None]]
) -> None:
    """Add the values of a perturbed run to the estimators."""
    for call, call_estimators in zip(run, estimators, strict=True):
        for estimator, value in zip(call_estimators, collect_values(call), strict=True):
            if estimator is not None and (numbers := as_real_tensor(value)) is not None:
                estimator.add(numbers)
