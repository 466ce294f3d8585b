"""The float64 oracle and the bound on what a target may deviate from it.

Both come from running the module itself under a dispatch mode that holds every floating
tensor in float64. The oracle is the plain run. For the bound the run is repeated with each
operation's result perturbed by as much as the target's arithmetic may be wrong there (Monte
Carlo arithmetic: Parker 1997); how far the outputs spread is how far a correct backend may be
off, conditioning and cancellation included. docs/numerics.md derives the amplitudes.

Eager and the plain run are made twice, with other random numbers: a module whose runs differ has
no outputs that one could expect, and is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_map

from harness.arithmetic import Float64Mode, PerturbedMode
from harness.bounds import limits
from harness.case import Inputs, seeded_with
from harness.dequantize import Whole
from harness.determinism import Draws, refuse_difference
from harness.interface import Place, output_paths
from harness.precision import Precision
from harness.steps import output_steps


@dataclass(frozen=True)
class Returned:
    """What one call of a module returned.

    Attributes:
        spec: the tree of its outputs.
        outputs: its leaves, tensors copied; numbers, None and the like as they are.
        inputs: the flat inputs after the call, by position, of those that were watched.
    """

    spec: TreeSpec
    outputs: list[Any]
    inputs: dict[int, torch.Tensor]


@dataclass(frozen=True)
class Reference:
    """What a program should return: the leaves of its outputs, then the inputs that it changes.

    Attributes:
        oracle: per call, per value: float64 for floating tensors, complex128 for complex ones, else
            what eager returned.
        bound: per call, per value: float64, same shapes; largest error that the target's arithmetic
            explains. None for what is neither a tensor nor a number.
        eager: per call, per value: eager in the recipe's own dtype.
        steps: per output of a quantized graph, the step that it was quantized with; None for one
            without.
        places: per call, what each value is; empty for outputs in their order.
        specs: per call, the tree of the outputs; empty where nobody compares it.
        model: per call, the outputs of the float model, where the reference is a quantized graph.
    """

    oracle: list[list[Any]]
    bound: list[list[torch.Tensor | None]]
    eager: list[list[Any]]
    steps: Sequence[float | None] = ()
    places: Sequence[Sequence[Place]] = ()
    specs: Sequence[TreeSpec] = ()
    model: Sequence[Sequence[Any]] | None = None


def refer(
    module: torch.nn.Module,
    calls: Sequence[Inputs],
    precision: Precision,
    seed: int,
    *,
    changed: Collection[int] = (),
    model: torch.nn.Module | None = None,
) -> Reference:
    """Compute oracle, bound and eager outputs of a module for a sequence of calls.

    The module is left as it was: mutable buffers are cloned, and persist over the calls. So are the
    global generators of random numbers.

    Args:
        module: the float module, or the quantized graph for quantized recipes.
        calls: inputs of each call, in the recipe's dtype.
        precision: rounding model of the target.
        seed: seeds the perturbations, so that a bound is the same on every run.
        changed: positions of flat inputs that the program says it changes; those that eager changes
            are found.
        model: the float module, where ``module`` is a graph that was made of it: what the outputs
            are besides tensors, and their tree, is the model's.

    Raises:
        NotDeterministic: two runs differ.
    """
    with seeded_with(seed):
        eager = run_calls(module, calls, watched=None)
    watched = [sorted({*changed, *call.inputs}) for call in eager]
    exact, again = (_run64(module, calls, Float64Mode(), seed + n, watched) for n in (0, 1))
    refuse_difference(_leaves(exact), _leaves(again), [], "in float64")
    runs = [
        _run64(module, calls, PerturbedMode(precision, seed, sample, encoded), seed, watched)
        for encoded in [exact.encoded]
        for sample in range(precision.samples)
    ]
    ...
