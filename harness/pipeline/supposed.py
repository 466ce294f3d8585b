"""The arithmetic that a cell's reference supposes: its recipe's, as far as its delegates reach."""

from __future__ import annotations

from dataclasses import replace

from harness.backend import Recipe
from harness.numerics.error_model.rounding import sums
from harness.numerics.formats.semantics import GENERIC, Semantics
from harness.precision import Precision
from harness.record.cell import Delegation


def precision_of(recipe: Recipe, delegation: Delegation | None) -> Precision:
    """How the program rounds.

    Where a sum was left to the runtime no sum counts as wide: the portable kernels add up in the
    program's dtype (``accum`` in op_convolution.cpp), whatever the recipe's backend does.

    Args:
        recipe: what it was lowered by.
        delegation: what was left over; None for a program that is not lowered.
    """
    left = () if delegation is None else delegation.undelegated_ops
    # "aten.mm.default"; what has no schema, like arithmetic of sizes, has a name alone.
    if any(sums(name.partition(".")[2].partition(".")[0]) for name in left):
        return replace(recipe.precision, float32_sums=frozenset())
    return recipe.precision


def semantics_of(recipe: Recipe) -> Semantics:
    """What operators mean that are no arithmetic of tensors."""
    return GENERIC if recipe.semantics is None else recipe.semantics()
