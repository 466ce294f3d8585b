"""Graph checks: what a graph must and must not contain. Each raises :class:`CheckFailure`.

Operators are given as overloads or by name (``aten.add.Tensor``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from harness.delegation import op_name
from harness.errors import CheckFailure

Calls = Sequence[torch.fx.Node]


def check_present(calls: Calls, operators: Sequence[Any]) -> None:
    """Each operator occurs."""
    counts = _counts(calls)
    missing = [name for name in map(_name, operators) if not counts[name]]
    if missing:
        raise CheckFailure(f"not in the graph: {', '.join(missing)}; {_listing(counts)}")


def check_absent(calls: Calls, operators: Sequence[Any]) -> None:
    """None of the operators occurs."""
    counts = _counts(calls)
    present = [name for name in map(_name, operators) if counts[name]]
    if present:
        raise CheckFailure(f"in the graph, but must not be: {', '.join(present)}")


def check_count(calls: Calls, expected: Mapping[Any, int]) -> None:
    """Each operator occurs exactly so often."""
    counts = _counts(calls)
    _compare({_name(key): (counts[_name(key)], n) for key, n in expected.items()}, counts)


def check_node_count(calls: Calls, expected: Mapping[Any, int]) -> None:
    """Each call target, the object itself, occurs exactly so often."""
    nodes = Counter(node.target for node in calls)
    found = {_name(target): (nodes[target], n) for target, n in expected.items()}
    _compare(found, _counts(calls))


def _compare(found: Mapping[str, tuple[int, int]], counts: Counter[str]) -> None:
    wrong = [
        f"{name} {count} times, expected {number}"
        for name, (count, number) in found.items()
        if count != number
    ]
    if wrong:
        raise CheckFailure(f"{'; '.join(wrong)}; {_listing(counts)}")


def _counts(calls: Calls) -> Counter[str]:
    return Counter(op_name(node.target) for node in calls)


def _name(operator: Any) -> str:
    return operator if isinstance(operator, str) else op_name(operator)


def _listing(counts: Counter[str]) -> str:
    found = ", ".join(f"{name}×{number}" for name, number in sorted(counts.items()))
    return f"the graph has {found or 'no calls'}"
