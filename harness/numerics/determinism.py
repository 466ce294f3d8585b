"""Whether a module has outputs that one can expect: two runs on the same inputs must agree."""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence
from typing import Any

import numpy
import torch

from harness.numerics.control_flow import run_dense
from harness.vendors.torch import HigherOrderOperator, TorchDispatchMode, tree_leaves

LARGE = 2**22
"""Elements of state, inputs and outputs from which on the oracle runs twice only where eager drew
random numbers."""


class Draws(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's is untyped
    """Notes the operators that draw random numbers.

    Attributes:
        names: of the operators, in the order of their first call.
        drew: whether any operator did, or anything else of the global generators of torch, NumPy
            and ``random``; known afterwards.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: dict[str, None] = {}
        self.drew = False
        self._before: tuple[Any, ...] = ()

    def __enter__(self) -> Draws:
        self._before = _generators()
        return super().__enter__()  # type: ignore[no-any-return, no-untyped-call]

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)  # type: ignore[no-untyped-call]
        self.drew = bool(self.names) or _generators() != self._before

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if isinstance(func, HigherOrderOperator):
            return run_dense(func, args, kwargs or {}, lambda: self)
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **(kwargs or {}))
        # It may draw, and does not where it drops nothing out.
        before = torch.get_rng_state()
        result = func(*args, **(kwargs or {}))
        has_own = any(isinstance(leaf, torch.Generator) for leaf in tree_leaves((args, kwargs)))
        if has_own or not torch.equal(before, torch.get_rng_state()):
            self.names[str(func)] = None
        return result

    @property
    def cause(self) -> str:
        """Why two runs of a module differ."""
        if self.names:
            return f"{', '.join(self.names)} draws random numbers"
        return "it keeps state that is not a buffer, or calls what does"


def _generators() -> tuple[Any, ...]:
    """What the global generators are at."""
    of_numpy = pickle.dumps(numpy.random.get_state())
    return torch.get_rng_state().numpy().tobytes(), random.getstate(), of_numpy


def agree(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Whether what two runs returned is the same.

    Tensors may differ by half a unit of float32, or of their own dtype if that is coarser, in
    their largest element: threads may add up in another order, and a difference that small is
    rounded away in any output.
    """
    return len(first) == len(second) and all(map(_agree, first, second))


def _agree(first: Any, second: Any) -> bool:
    if not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
        return type(first) is type(second) and (first == second or first != first)
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    if torch.equal(first, second):
        return True
    if first.is_complex():
        first, second = torch.view_as_real(first), torch.view_as_real(second)
    if not first.is_floating_point():
        return False
    same = (first == second) | (first.isnan() & second.isnan())
    largest = first.abs().nan_to_num(nan=0.0, posinf=0.0).max()
    unit = max(torch.finfo(first.dtype).eps, torch.finfo(torch.float32).eps) / 2
    return bool((same | ((first - second).abs() <= unit * largest)).all())
