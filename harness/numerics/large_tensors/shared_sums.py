"""What the runs of one module have in common, so that large sums are computed once.

A sum whose terms nothing rounded is the same in every run. The magnitude that any other sum's error
is relative to differs between runs by no more than the noise itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

from harness.model.trees import leaves
from harness.numerics.error_model.magnitudes import Reduction
from harness.numerics.large_tensors.attention import Evaluated
from harness.numerics.large_tensors.deviations import Kept, Linear, Narrow
from harness.vendors.torch import _storage_Use_Count

# Below, computing again costs less than remembering.
_LARGE = 2**16
# Bytes that are kept for all sums together.
_KEPT = 2**30


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
        exact: its result in the run without noise, where that is of use.
        given: the only argument of it that is not settled; None where all are.
        reduction: terms and magnitudes, from the first run that errs.
        memory: of the copy that a run was given.
        found: of attention, what else came of it.
    """

    operator: Any
    shapes: list[torch.Size]
    exact: Kept | None = None
    given: Kept | None = None
    reduction: Reduction | None = None
    memory: torch.UntypedStorage | None = None
    found: Evaluated | None = None

    def result(self) -> torch.Tensor | None:
        """A copy of the result, if all terms are settled and it is there still.

        Copies take turns in one memory as long as no run holds on to one: the system clears what it
        hands out, which takes longer than to copy.
        """
        exact = None if self.exact is None or self.given is not None else self.exact.value
        if exact is None:
            return None
        if self.memory is None or _holders(self.memory) > 1:
            copy = exact.clone()
            self.memory = copy.untyped_storage() if copy.stride() == exact.stride() else None
            return copy
        copy = exact.new_empty(0).set_(self.memory, 0, exact.shape, exact.stride())
        return copy.copy_(exact)


class Sums:
    """The large sums of a run, in order; and the weights of a quantized graph, decoded."""

    def __init__(self) -> None:
        self._all: list[Sum] = []
        self._narrow = Narrow()
        self._decoded: dict[Any, tuple[list[Kept], Kept]] = {}
        self._kept = 0

    def decoded(self, args: tuple[Any, ...], decode: Callable[[], torch.Tensor]) -> torch.Tensor:
        """What decoding makes of codes that are the same in every run: the same tensor for all
        runs, as long as none writes to it and there is room.

        Args:
            args: of the operator.
            decode: runs it.
        """
        tensors = list(_tensors(args))
        plain = [item for item in leaves(args) if not isinstance(item, torch.Tensor)]
        key = (*map(_place, tensors), *map(repr, plain))
        given, known = self._decoded.get(key, ([], None))
        result = None if known is None else known.value
        if result is None or any(each.value is None for each in given):
            result = decode()
            if known is not None or self._fits(result.nbytes):
                self._decoded[key] = list(map(Kept.of, tensors)), Kept.of(result)
        return result

    def note(
        self,
        operator: Any,
        args: tuple[Any, ...],
        result: torch.Tensor,
        *,
        settled: bool = False,
        given: torch.Tensor | None = None,
        found: Evaluated | None = None,
    ) -> None:
        """Count a sum of the run without noise.

        Args:
            operator: the overload that computes it.
            args: its arguments.
            result: what came of it.
            settled: all arguments are.
            given: the only argument that is not, where the sum is linear in it.
            found: of attention, what else came of it.
        """
        noted = Sum(operator, _shapes(args))
        # A settled result is copied.
        if settled and self._fits(2 * result.nbytes):
            noted.exact = Kept.of(result)
        elif given is not None and self._fits(given.nbytes + result.nbytes):
            noted.exact, noted.given = Kept.of(result), Kept.of(given)
        if found is not None and self._fits(2 * result.nbytes):
            noted.found = found
        self._all.append(noted)

    def beside(self, known: Sum, call: Linear) -> torch.Tensor | None:
        """The result of a call whose other arguments are settled, from what is known of the sum."""
        given = None if known.given is None else known.given.value
        exact = None if known.exact is None else known.exact.value
        if given is None or exact is None:
            return None
        factor = self._narrow.of(call.factor)
        return call.beside(given, exact, factor)

    def at(self, number: int, operator: Any, args: tuple[Any, ...]) -> Sum | None:
        """The sum of that number, if the same operator computes it of arguments of such shapes."""
        known = self._all[number] if number < len(self._all) else None
        if known is None or known.operator is not operator or known.shapes != _shapes(args):
            return None
        return known

    def keep(self, known: Sum, reduction: Reduction) -> None:
        """Remember the magnitudes of a sum, as far as there is room."""
        if self._fits(_size(reduction)):
            known.reduction = reduction

    def forget_magnitudes(self) -> None:
        """They are those of the first run that errs, and other errors begin."""
        for known in self._all:
            if known.reduction is not None:
                self._kept -= _size(known.reduction)
                known.reduction = None

    def _fits(self, size: int) -> bool:
        if self._kept + size > _KEPT:
            return False
        self._kept += size
        return True


def is_large(func: Any, args: tuple[Any, ...]) -> bool:
    """Whether a reduction is worth remembering: its arguments are large, and it writes to none."""
    if func._schema.is_mutable or len(func._schema.returns) != 1:
        return False
    return sum(tensor.numel() for tensor in _tensors(args)) >= _LARGE


def _holders(memory: torch.UntypedStorage) -> int:
    return int(_storage_Use_Count(memory._cdata))


def _size(reduction: Reduction) -> int:
    return sum(magnitude.nbytes for magnitude in reduction.magnitudes or [])


def _place(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Where a tensor is in memory, and how it is laid out."""
    return tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()


def _shapes(tree: Any) -> list[torch.Size]:
    return [tensor.shape for tensor in _tensors(tree)]


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in leaves(tree) if isinstance(leaf, torch.Tensor))
