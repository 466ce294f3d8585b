"""Checks on the operators and delegates of a graph. Each raises :class:`CheckFailure`.

Operators are given as overloads or by name (``aten.add.Tensor``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch

from harness.errors import CheckFailure
from harness.execution.operators import op_name
from harness.record.cell import Delegation

Calls = Sequence[torch.fx.Node]


class GraphChecks(ABC):
    """The checks as chained methods, on the latest graph."""

    @abstractmethod
    def _calls(self) -> Calls:
        """The function calls of the latest graph."""

    @property
    @abstractmethod
    def delegation(self) -> Delegation:
        """Delegates and fallback operators of the lowered program."""

    def check(self, operators: Sequence[Any]) -> Self:
        """Check that each operator (an overload, or its name ``aten.add.Tensor``) occurs."""
        counts = _counts(self._calls())
        missing = [name for name in map(_name, operators) if not counts[name]]
        if missing:
            raise CheckFailure(
                f"not in the graph: {', '.join(missing)}; {_describe_counts(counts)}"
            )
        return self

    def check_not(self, operators: Sequence[Any]) -> Self:
        """Check that none of the operators occurs."""
        counts = _counts(self._calls())
        present = [name for name in map(_name, operators) if counts[name]]
        if present:
            raise CheckFailure(f"in the graph, but must not be: {', '.join(present)}")
        return self

    def check_count(self, expected: Mapping[Any, int]) -> Self:
        """Check how often each operator occurs; a delegate is ``executorch_call_delegate``."""
        counts = _counts(self._calls())
        _compare({_name(key): (counts[_name(key)], n) for key, n in expected.items()}, counts)
        return self

    def check_node_count(self, expected: Mapping[Any, int]) -> Self:
        """Check how often each call target (compared by identity) occurs."""
        nodes = Counter(node.target for node in self._calls())
        found = {_name(target): (nodes[target], n) for target, n in expected.items()}
        _compare(found, _counts(self._calls()))
        return self

    def check_delegates(self, expected: int) -> Self:
        """Check the number of delegates of the lowered program."""
        found = self.delegation.delegates
        if found != expected:
            left = ", ".join(self.delegation.undelegated_ops) or "none"
            raise CheckFailure(
                f"{found} delegates, expected {expected}; fallback operators: {left}"
            )
        return self


def _compare(found: Mapping[str, tuple[int, int]], counts: Counter[str]) -> None:
    wrong = [
        f"{name} {count} times, expected {number}"
        for name, (count, number) in found.items()
        if count != number
    ]
    if wrong:
        raise CheckFailure(f"{'; '.join(wrong)}; {_describe_counts(counts)}")


def _counts(calls: Calls) -> Counter[str]:
    return Counter(op_name(node.target) for node in calls)


def _name(operator: Any) -> str:
    return operator if isinstance(operator, str) else op_name(operator)


def _describe_counts(counts: Counter[str]) -> str:
    found = ", ".join(f"{name}×{number}" for name, number in sorted(counts.items()))
    return f"the graph has {found or 'no calls'}"
