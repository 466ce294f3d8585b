"""Choose the rounding model of a cell's reference from its recipe and its delegation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch

from harness.model.precision import RUNTIME_FLOAT32_SUMS, Precision
from harness.model.recipe import Recipe
from harness.numerics.error_model.rules import base_name, contains_reduction
from harness.numerics.formats.semantics import GENERIC_SEMANTICS, OperatorSemantics
from harness.record.cell import Delegation

# More perturbed runs for a program that chooses scales at run time: every element may be off by a
# quantization step.
_RUNS_WITH_CHOSEN_SCALES = 16
# Runs of a reference that judges errors a little beyond their bound; docs/numerics.md derives it.
_RUNS_OF_A_RECHECK = 32


def choose_precision(
    recipe: Recipe, delegation: Delegation | None, module: torch.nn.Module | None = None
) -> Precision:
    """The rounding model of a program.

    A 16-bit sum is assumed to accumulate in float32 if its delegate does, or if the runtime's
    kernel does for a fallback node. An operator that is both delegated and not, or that lowering
    decomposed, must do so in both.

    Args:
        recipe: the target's recipe.
        delegation: delegated and fallback operators; None if the program is not lowered.
        module: the module of the reference.
    """
    precision = recipe.precision
    operators = _list_operators(module)
    if any(name.startswith("choose_qparams") for name in operators):
        precision = replace(precision, samples=max(precision.samples, _RUNS_WITH_CHOSEN_SCALES))
    if delegation is None:
        return precision
    left, taken = map(_base_names, (delegation.undelegated_ops, delegation.delegated_ops))
    if not any(map(contains_reduction, left)):
        return precision
    wide = {
        name
        for name in precision.float32_sums | RUNTIME_FLOAT32_SUMS
        if (name in precision.float32_sums or name in left - taken)
        and (name in RUNTIME_FLOAT32_SUMS or name in taken - left)
    }
    return replace(precision, float32_sums=frozenset(wide))


def _base_names(operators: Iterable[str]) -> set[str]:
    """``mm`` for ``aten.mm.default``; empty for targets without a schema, as of size arithmetic."""
    return {name.partition(".")[2].partition(".")[0] for name in operators}


def choose_float_precision(recipe: Recipe) -> Precision:
    """The rounding model of the float program of a recipe that quantizes activations.

    It is the recipe's model with the default safety factor and number of runs: the recipe's own
    values are for errors of a quantization step.
    """
    usual = Precision()
    return replace(recipe.precision, safety=usual.safety, samples=usual.samples)


def add_runs(precision: Precision) -> Precision:
    """The same model with more runs, by which errors a little beyond their bound are judged."""
    return replace(precision, samples=max(precision.samples, _RUNS_OF_A_RECHECK))


def _list_operators(module: torch.nn.Module | None) -> set[str]:
    """Return the base names of the operators that a graph calls; empty for other modules."""
    if not isinstance(module, torch.fx.GraphModule):
        return set()
    return {
        base_name(node.target)
        for node in module.graph.nodes
        if getattr(node.target, "_schema", None) is not None
    }


def get_semantics(recipe: Recipe) -> OperatorSemantics:
    """The recipe's semantics of operators that are not tensor arithmetic."""
    return GENERIC_SEMANTICS if recipe.semantics is None else recipe.semantics()
