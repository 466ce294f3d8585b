"""The arithmetic that a cell's reference supposes: its recipe's, as far as its delegates reach."""

from __future__ import annotations

from dataclasses import replace

import torch

from harness.numerics.error_model.rounding import base_name, sums
from harness.numerics.formats.semantics import GENERIC, Semantics
from harness.precision import Precision
from harness.recipe import Recipe
from harness.record.cell import Delegation

# Of a program that chooses scales as it runs: every element errs by a step, so that what the runs
# cancel has to be known better.
_RUNS_WITH_CHOSEN_SCALES = 16


def precision_of(
    recipe: Recipe, delegation: Delegation | None, module: torch.nn.Module | None = None
) -> Precision:
    """How the program rounds.

    Where a sum was left to the runtime no sum counts as wide: the portable kernels add up in the
    program's dtype (``accum`` in op_convolution.cpp), whatever the recipe's backend does.

    Args:
        recipe: what it was lowered by.
        delegation: what was left over; None for a program that is not lowered.
        module: what the reference is computed of.
    """
    precision = recipe.precision
    if isinstance(module, torch.fx.GraphModule) and any(map(_chooses_scale, module.graph.nodes)):
        precision = replace(precision, samples=max(precision.samples, _RUNS_WITH_CHOSEN_SCALES))
    left = () if delegation is None else delegation.undelegated_ops
    # "aten.mm.default"; what has no schema, like arithmetic of sizes, has a name alone.
    if any(sums(name.partition(".")[2].partition(".")[0]) for name in left):
        return replace(precision, float32_sums=frozenset())
    return precision


def float_precision(recipe: Recipe) -> Precision:
    """How the float program of a recipe that quantizes activations rounds where torch runs it: the
    recipe's own model, with the factor and the number of runs for rounding errors; a recipe states
    others for errors of a quantization step."""
    usual = Precision()
    return replace(recipe.precision, safety=usual.safety, samples=usual.samples)


def _chooses_scale(node: torch.fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and base_name(node.target).startswith("choose_qparams")


def semantics_of(recipe: Recipe) -> Semantics:
    """What operators mean that are no arithmetic of tensors."""
    return GENERIC if recipe.semantics is None else recipe.semantics()
