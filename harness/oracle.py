"""The float64 oracle and the bound on what a target may deviate from it.

Both come from running the module itself under a dispatch mode that holds every floating
tensor in float64. The oracle is the plain run. For the bound the run is repeated with each
operation's result perturbed by as much as the target's arithmetic may be wrong there (Monte
Carlo arithmetic: Parker 1997); how far the outputs spread is how far a correct backend may be
off, conditioning and cancellation included. docs/numerics.md derives the amplitudes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from harness.arithmetic import Float64Mode
from harness.bounds import alternatives, limits
from harness.case import Inputs
from harness.perturbation import PerturbedMode
from harness.precision import Precision
from harness.semantics import GENERIC, PreserveMeaning, Semantics
from harness.steps import output_steps


@dataclass(frozen=True)
class Reference:
    """What a program should return.

    Attributes:
        oracle: per call, per output: float64 for floating outputs, else the eager result.
        bound: same shapes, float64: largest error that the target's arithmetic explains.
        eager: per call, per output: eager in the recipe's own dtype.
        steps: per output of a quantized graph, the step that it was quantized with; None for one
            without.
    """

    oracle: list[list[torch.Tensor]]
    bound: list[list[torch.Tensor]]
    eager: list[list[torch.Tensor]]
    steps: Sequence[float | None] = ()
    alternatives: Sequence[Sequence[torch.Tensor | None]] = ()


def refer(
    module: torch.nn.Module,
    calls: Sequence[Inputs],
    precision: Precision,
    seed: int,
    semantics: Semantics = GENERIC,
) -> Reference:
    """Compute oracle, bound and eager outputs of a module for a sequence of calls.

    The module is left as it was: mutable buffers are cloned, and persist over the calls.

    Args:
        module: the float module, or the quantized graph for quantized recipes.
        calls: inputs of each call, in the recipe's dtype.
        precision: rounding model of the target.
        seed: seeds the perturbations, so that a bound is the same on every run.
        semantics: what operators mean that are no arithmetic of tensors.
    """
    eager = run_calls(module, calls)
    without_noise = Float64Mode(semantics)
    exact = _run64(module, calls, without_noise)
    trace = without_noise.trace
    runs = [
        _run64(module, calls, PerturbedMode(precision, seed, sample, trace, semantics))
        for sample in range(precision.samples)
    ]
    steps = output_steps(module) if isinstance(module, torch.fx.GraphModule) else []
    oracle: list[list[torch.Tensor]] = []
    bound: list[list[torch.Tensor]] = []
    others: list[list[torch.Tensor | None]] = []
    for call, outputs in enumerate(eager):
        oracle.append([])
        bound.append([])
        others.append([])
        for index, native in enumerate(outputs):
            truth = exact[call][index].double() if native.is_floating_point() else native
            perturbed = [run[call][index] for run in runs]
            step = steps[index] if index < len(steps) else None
            oracle[-1].append(truth)
            bound[-1].append(limits(truth, perturbed, native.dtype, precision, step))
            others[-1].append(alternatives(truth, perturbed, native.dtype))
    return Reference(oracle, bound, eager, steps, others)


def run_calls(module: torch.nn.Module, calls: Sequence[Inputs]) -> list[list[torch.Tensor]]:
    """Run a module eagerly for each call; its buffers persist over the calls and are restored
    after."""
    state, fresh = tree_map(
        lambda item: item.clone() if isinstance(item, torch.Tensor) else item,
        (_state(module), list(calls)),
    )
    return _run(module, state, fresh)


def _run64(
    module: torch.nn.Module, calls: Sequence[Inputs], mode: Float64Mode
) -> list[list[torch.Tensor]]:
    state = _state(module)
    for tensor in _tensors((calls, state)):
        mode.observe_dtype(tensor.dtype)
    wide_state, wide_calls = tree_map(_widen_copy, (state, list(calls)))
    mode.inputs = _tensors(wide_calls)
    default = torch.get_default_dtype()
    mode.observe_dtype(default)
    # Integers promote to the default dtype; that must not round the oracle.
    torch.set_default_dtype(torch.float64)
    try:
        with PreserveMeaning(mode.semantics), mode:
            return _run(module, wide_state, wide_calls)
    finally:
        torch.set_default_dtype(default)


def _run(
    module: torch.nn.Module, state: dict[str, torch.Tensor], calls: Sequence[Inputs]
) -> list[list[torch.Tensor]]:
    results = []
    with torch.no_grad():
        for inputs in calls:
            out = torch.func.functional_call(module, state, inputs)
            # Cloned: a module may return its input, or a buffer that the next call changes.
            results.append([tensor.detach().clone() for tensor in _tensors(out)])
    return results


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _state(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _widen_copy(item: Any) -> Any:
    if isinstance(item, torch.Tensor):
        return item.to(torch.float64 if item.is_floating_point() else item.dtype, copy=True)
    return item
