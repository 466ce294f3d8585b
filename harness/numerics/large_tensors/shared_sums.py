"""Share large sums and decoded weights between the runs of a module.

A sum of exact terms is the same in every run. The magnitude that the error of any other sum is
relative to differs between runs by no more than the noise itself.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

from harness.model.trees import leaves
from harness.numerics.error_model.magnitudes import Reduction
from harness.numerics.large_tensors.attention import AttentionResult
from harness.numerics.large_tensors.deviations import Float32Copies, LinearCall, TensorSnapshot
from harness.vendors.torch import _storage_Use_Count

# Below, computing again costs less than storing.
_LARGE = 2**16
# Largest number of bytes stored for all sums together.
_MAX_BYTES = 2**30


class InvariantTensors:
    """Tensors that are the same in every run: inputs, weights, and results of exact operations on
    them."""

    def __init__(self) -> None:
        self._versions: MutableMapping[torch.Tensor, int] = WeakIdKeyDictionary()

    def add(self, tree: Any) -> None:
        """Add the tensors of a tree in their current version."""
        for tensor in _tensors(tree):
            self._versions[tensor] = tensor._version

    def contains(self, tree: Any) -> bool:
        """Whether all tensors of a tree were added, and nothing has written to them since."""
        return all(self._versions.get(tensor) == tensor._version for tensor in _tensors(tree))


@dataclass
class SharedSum:
    """One large sum.

    Attributes:
        shapes: shapes of its arguments.
        exact: its result in the unperturbed run, if stored.
        argument: its only argument that differs between runs; None where none does.
        reduction: terms and magnitudes, from the first perturbed run.
        memory: memory of the copy that a run received.
        attention: the result, where the sum is a call of attention.
    """

    shapes: list[torch.Size]
    exact: TensorSnapshot | None = None
    argument: TensorSnapshot | None = None
    reduction: Reduction | None = None
    memory: torch.UntypedStorage | None = None
    attention: AttentionResult | None = None

    def copy_result(self) -> torch.Tensor | None:
        """Return a copy of the result if it is the same in every run and stored, else None.

        Copies reuse one memory as long as no run holds one of them: the system clears new memory,
        which takes longer than to copy.
        """
        exact = None if self.exact is None or self.argument is not None else self.exact.value
        if exact is None:
            return None
        if self.memory is None or _count_owners(self.memory) > 1:
            copy = exact.clone()
            self.memory = copy.untyped_storage() if copy.stride() == exact.stride() else None
            return copy
        copy = exact.new_empty(0).set_(self.memory, 0, exact.shape, exact.stride())
        return copy.copy_(exact)


class SharedSums:
    """The large sums of a run, by operation, and the decoded weights of a quantized graph."""

    def __init__(self) -> None:
        self._sums: dict[Hashable, SharedSum] = {}
        self._float32 = Float32Copies()
        self._decoded: dict[Any, tuple[list[TensorSnapshot], TensorSnapshot]] = {}
        self._bytes = 0

    def decode_once(
        self, args: tuple[Any, ...], decode: Callable[[], torch.Tensor]
    ) -> torch.Tensor:
        """Decode codes that are the same in every run.

        All runs share the tensor as long as none writes to it and memory suffices.

        Args:
            args: arguments of the operator.
            decode: runs it.
        """
        tensors = list(_tensors(args))
        plain = [item for item in leaves(args) if not isinstance(item, torch.Tensor)]
        key = (*map(_get_location, tensors), *map(repr, plain))
        inputs, known = self._decoded.get(key, ([], None))
        result = None if known is None else known.value
        if result is None or any(each.value is None for each in inputs):
            result = decode()
            if known is not None or self._reserve(result.nbytes):
                snapshots = list(map(TensorSnapshot.from_tensor, tensors))
                self._decoded[key] = snapshots, TensorSnapshot.from_tensor(result)
        return result

    def add(
        self,
        node: Hashable,
        args: tuple[Any, ...],
        result: torch.Tensor,
        *,
        is_invariant: bool = False,
        argument: torch.Tensor | None = None,
        attention: AttentionResult | None = None,
    ) -> None:
        """Add a sum of the unperturbed run.

        Args:
            node: the name of its operation.
            args: its arguments.
            result: its result.
            is_invariant: all arguments are the same in every run.
            argument: the only argument that is not, where the sum is linear in it.
            attention: the result, where the sum is a call of attention.
        """
        added = SharedSum(_shapes(args))
        # Twice: runs receive a copy of an invariant result.
        if is_invariant and self._reserve(2 * result.nbytes):
            added.exact = TensorSnapshot.from_tensor(result)
        elif argument is not None and self._reserve(argument.nbytes + result.nbytes):
            added.exact = TensorSnapshot.from_tensor(result)
            added.argument = TensorSnapshot.from_tensor(argument)
        if attention is not None and self._reserve(2 * result.nbytes):
            added.attention = attention
        self._sums[node] = added

    def add_deviation(self, known: SharedSum, call: LinearCall) -> torch.Tensor | None:
        """Compute a linear call from the stored sum of the unperturbed run; None where the sum is
        not stored."""
        argument = None if known.argument is None else known.argument.value
        exact = None if known.exact is None else known.exact.value
        if argument is None or exact is None:
            return None
        factor = self._float32.get(call.factor)
        return call.add_deviation(argument, exact, factor)

    def find(self, node: Hashable, args: tuple[Any, ...]) -> SharedSum | None:
        """Return the sum of an operation if the shapes of its arguments match."""
        known = self._sums.get(node)
        return None if known is None or known.shapes != _shapes(args) else known

    def store_reduction(self, known: SharedSum, reduction: Reduction) -> None:
        """Store the magnitudes of a sum, as far as memory suffices."""
        if self._reserve(_count_bytes(reduction)):
            known.reduction = reduction

    def forget_magnitudes(self) -> None:
        """Drop the magnitudes before runs with another precision: they come from its first run."""
        for known in self._sums.values():
            if known.reduction is not None:
                self._bytes -= _count_bytes(known.reduction)
                known.reduction = None

    def _reserve(self, size: int) -> bool:
        if self._bytes + size > _MAX_BYTES:
            return False
        self._bytes += size
        return True


def is_large(func: Any, args: tuple[Any, ...]) -> bool:
    """Whether a reduction is worth storing: its arguments are large, and it writes to none."""
    if func._schema.is_mutable or len(func._schema.returns) != 1:
        return False
    return sum(tensor.numel() for tensor in _tensors(args)) >= _LARGE


def _count_owners(memory: torch.UntypedStorage) -> int:
    return int(_storage_Use_Count(memory._cdata))


def _count_bytes(reduction: Reduction) -> int:
    return sum(magnitude.nbytes for magnitude in reduction.magnitudes or [])


def _get_location(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Return the address and layout of a tensor."""
    return tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()


def _shapes(tree: Any) -> list[torch.Size]:
    return [tensor.shape for tensor in _tensors(tree)]


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in leaves(tree) if isinstance(leaf, torch.Tensor))
