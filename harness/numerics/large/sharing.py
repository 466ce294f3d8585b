"""What the runs of one module have in common, so that large sums are computed once.

A sum whose terms nothing rounded is the same in every run. The magnitude that any other sum's error
is relative to differs between runs by no more than the noise itself.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from harness.numerics.error_model.magnitudes import Reduction

# Below, computing again costs less than remembering.
_LARGE = 2**16
# Elements that are kept for all sums together: a gigabyte.
_KEPT = 2**27


class Settled:
    """Tensors that are the same in every run: inputs, weights, and what exact operations make of
    them."""

    def __init__(self) -> None:
        self._versions: MutableMapping[torch.Tensor, int] = WeakIdKeyDictionary()

    def add(self, tree: Any) -> None:
        """Count the tensors of a tree, as they are now."""
        for tensor in _tensors(tree):
            self._versions[tensor] = tensor._version

    def hold(self, tree: Any) -> bool:
        """Whether all tensors of a tree count, and nothing has written to them since."""
        return all(self._versions.get(tensor) == tensor._version for tensor in _tensors(tree))


@dataclass
class Sum:
    """One large sum.

    Attributes:
        operator: the overload that computes it.
        shapes: of its arguments.
        exact: its result in the run without noise, if its terms are settled.
        version: of that result, which whoever writes to it changes.
        reduction: terms and magnitudes, from the first run that errs.
    """

    operator: Any
    shapes: list[torch.Size]
    exact: torch.Tensor | None
    version: int
    reduction: Reduction | None = None

    def result(self) -> torch.Tensor | None:
        """A copy of the result, if it is there still."""
        if self.exact is None or self.exact._version != self.version:
            return None
        return self.exact.clone()


class Sums:
    """The large sums of a run, in order."""

    def __init__(self) -> None:
        self._all: list[Sum] = []
        self._kept = 0

    def note(
        self, operator: Any, args: tuple[Any, ...], result: torch.Tensor, *, settled: bool
    ) -> None:
        """Count a sum of the run without noise."""
        exact = result if settled and self._fits(result.numel()) else None
        self._all.append(Sum(operator, _shapes(args), exact, result._version))

    def at(self, number: int, operator: Any, args: tuple[Any, ...]) -> Sum | None:
        """The sum of that number, if the same operator computes it of arguments of such shapes."""
        known = self._all[number] if number < len(self._all) else None
        if known is None or known.operator is not operator or known.shapes != _shapes(args):
            return None
        return known

    def keep(self, known: Sum, reduction: Reduction) -> None:
        """Remember the magnitudes of a sum, as far as there is room."""
        magnitudes = reduction.magnitudes or []
        if self._fits(sum(magnitude.numel() for magnitude in magnitudes)):
            known.reduction = reduction

    def _fits(self, elements: int) -> bool:
        if self._kept + elements > _KEPT:
            return False
        self._kept += elements
        return True


def is_large(func: Any, args: tuple[Any, ...]) -> bool:
    """Whether a reduction is worth remembering: its arguments are large, and it writes to none."""
    if func._schema.is_mutable or len(func._schema.returns) != 1:
        return False
    return sum(tensor.numel() for tensor in _tensors(args)) >= _LARGE


def _shapes(tree: Any) -> list[torch.Size]:
    return [tensor.shape for tensor in _tensors(tree)]


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor))
