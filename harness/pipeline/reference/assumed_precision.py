"""The arithmetic that a cell's reference supposes: its recipe's, as far as its delegates reach."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch

from harness.model.precision import RUNTIME_FLOAT32_SUMS, Precision
from harness.model.recipe import Recipe
from harness.numerics.error_model.rounding import base_name, sums
from harness.numerics.formats.semantics import GENERIC, Semantics
from harness.record.cell import Delegation

# Of a program that chooses scales as it runs: every element errs by a step, so that what the runs
# cancel has to be known better.
_RUNS_WITH_CHOSEN_SCALES = 16


def precision_of(
    recipe: Recipe, delegation: Delegation | None, module: torch.nn.Module | None = None
) -> Precision:
    """How the program rounds.

    A 16-bit sum accumulates in float32 where the delegate that took it does, or the runtime's
    kernel to which it was left. An operation that is found in both has to do so in both, and so has
    one that is found in neither because lowering decomposed it.

    Args:
        recipe: what it was lowered by.
        delegation: what was left over; None for a program that is not lowered.
        module: what the reference is computed of.
    """
    precision = recipe.precision
    if isinstance(module, torch.fx.GraphModule) and any(map(_chooses_scale, module.graph.nodes)):
        precision = replace(precision, samples=max(precision.samples, _RUNS_WITH_CHOSEN_SCALES))
    if delegation is None:
        return precision
    left, taken = map(_base_names, (delegation.undelegated_ops, delegation.delegated_ops))
    if not any(map(sums, left)):
        return precision
    wide = {
        name
        for name in precision.float32_sums | RUNTIME_FLOAT32_SUMS
        if (name in precision.float32_sums or name in left - taken)
        and (name in RUNTIME_FLOAT32_SUMS or name in taken - left)
    }
    return replace(precision, float32_sums=frozenset(wide))


def _base_names(operators: Iterable[str]) -> set[str]:
    """``mm`` for ``aten.mm.default``; what has no schema, like arithmetic of sizes, has none."""
    return {name.partition(".")[2].partition(".")[0] for name in operators}


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
