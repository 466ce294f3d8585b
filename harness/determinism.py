"""Whether a module has outputs that one can expect: two runs on the same inputs must agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from harness.control_flow import run_dense
from harness.errors import NotDeterministic


class Draws(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's is untyped
    """Notes the operators that draw random numbers.

    Attributes:
        names: of the operators, in the order of their first call.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: dict[str, None] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if isinstance(func, HigherOrderOperator):
            with self:
                return run_dense(func, args, kwargs or {})
        if torch.Tag.nondeterministic_seeded in func.tags:
            self.names[str(func)] = None
        return func(*args, **(kwargs or {}))


def refuse_difference(
    first: Any, second: Any, draws: Sequence[str], where: str, allowed: Any = None
) -> None:
    """Refuse a module whose two runs differ.

    Two tensors agree when they differ by at most half a unit of their dtype in their largest
    element: threads may add up in another order, and what is smaller cannot be seen in an output.

    Args:
        first: what one run returned, a tree of tensors and other values.
        second: what the other returned.
        draws: names of operators that drew random numbers.
        where: how both were run, for the message.
        allowed: the dtype whose unit counts, for tensors that are wider; None for their own.

    Raises:
        NotDeterministic: they differ.
    """
    left, right = tree_leaves(first), tree_leaves(second)
    agree = len(left) == len(right) and all(
        _agree(a, b, allowed) for a, b in zip(left, right, strict=True)
    )
    if agree:
        return
    cause = (
        f"{', '.join(draws)} draws random numbers"
        if draws
        else "it keeps state that is not a buffer, or calls what does"
    )
    raise NotDeterministic(
        f"the module is not deterministic: two runs on the same inputs differ {where}; {cause}"
    )


def _agree(first: Any, second: Any, allowed: torch.dtype | None) -> bool:
    if not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
        return type(first) is type(second) and (first == second or first != first)
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    if torch.equal(first, second):
        return True
    if not first.is_floating_point():
        return False
    same = (first == second) | (first.isnan() & second.isnan())
    largest = first.abs().nan_to_num(nan=0.0, posinf=0.0).max()
    unit = torch.finfo(allowed or first.dtype).eps / 2
    return bool((same | ((first - second).abs() <= unit * largest)).all())
