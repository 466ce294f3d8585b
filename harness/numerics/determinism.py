"""Check that a module is deterministic: two runs on the same inputs must agree."""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence
from typing import Any

import numpy
import torch

from harness.numerics.kernels.control_flow import run_dense
from harness.vendors.torch import HigherOrderOperator, TorchDispatchMode, tree_leaves

LARGE = 2**22
"""Elements of state, inputs and outputs. From here on the oracle runs twice only where eager drew
random numbers."""


class RandomDraws(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's is untyped
    """Dispatch mode that detects operators that draw random numbers.

    Attributes:
        operators: names of these operators, in the order of their first call.
        has_drawn: whether an operator drew, or other code did from the global generators of torch,
            NumPy and ``random``; set on exit.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operators: dict[str, None] = {}
        self.has_drawn = False
        self._before: tuple[Any, ...] = ()

    def __enter__(self) -> RandomDraws:
        self._before = _get_generator_states()
        return super().__enter__()  # type: ignore[no-any-return, no-untyped-call]

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)  # type: ignore[no-untyped-call]
        self.has_drawn = bool(self.operators) or _get_generator_states() != self._before

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if isinstance(func, HigherOrderOperator):
            return run_dense(func, args, kwargs or {}, lambda: self)
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **(kwargs or {}))
        # The tag is not enough: dropout with p=0 has it, and draws nothing.
        before = torch.get_rng_state()
        result = func(*args, **(kwargs or {}))
        has_own = any(isinstance(leaf, torch.Generator) for leaf in tree_leaves((args, kwargs)))
        if has_own or not torch.equal(before, torch.get_rng_state()):
            self.operators[str(func)] = None
        return result

    @property
    def cause(self) -> str:
        """The reason why two runs of a module differ, as text."""
        if self.operators:
            return f"{', '.join(self.operators)} draws random numbers"
        return "it keeps state that is not a buffer, or calls code that does"


def _get_generator_states() -> tuple[Any, ...]:
    """Return the states of the global generators."""
    numpy_state = pickle.dumps(numpy.random.get_state())
    return torch.get_rng_state().numpy().tobytes(), random.getstate(), numpy_state


def outputs_agree(
    first: Sequence[Any], second: Sequence[Any], *, compare_floats: bool = True
) -> bool:
    """Whether two runs returned the same.

    Tensors may differ by half a unit of float32, or of their own dtype if that is coarser, in
    their largest element: threads may sum in another order, and a difference that small is
    rounded away in any output.

    Args:
        first: values of one run.
        second: values of the other run.
        compare_floats: whether the numbers of floating-point tensors count, beside shape and dtype.
    """
    return len(first) == len(second) and all(
        _values_agree(one, other, compare_floats) for one, other in zip(first, second, strict=True)
    )


def _values_agree(first: Any, second: Any, compare_floats: bool) -> bool:
    if not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
        return type(first) is type(second) and (first == second or first != first)
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    if torch.equal(first, second):
        return True
    if not compare_floats and (first.is_floating_point() or first.is_complex()):
        return True
    if first.is_complex():
        first, second = torch.view_as_real(first), torch.view_as_real(second)
    if not first.is_floating_point():
        return False
    same = (first == second) | (first.isnan() & second.isnan())
    largest = first.abs().nan_to_num(nan=0.0, posinf=0.0).max()
    unit = max(torch.finfo(first.dtype).eps, torch.finfo(torch.float32).eps) / 2
    return bool((same | ((first - second).abs() <= unit * largest)).all())
