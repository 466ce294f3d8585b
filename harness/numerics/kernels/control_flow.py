"""Run control flow operators (cond, while_loop, map, scan, ...) and calls of functionalized
operators eagerly, never compiled.

Outside of an export they compile themselves with Dynamo, which does not know our modes, and which
remembers failures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from harness.vendors.torch import DispatchKey, HigherOrderOperator, OpOverload

_DENSE = DispatchKey.CompositeExplicitAutograd


@contextmanager
def compilation_disabled() -> Iterator[None]:
    """Disable compilation while modules run eagerly. Enclose consecutive runs in one context, as
    Dynamo's reset takes longer than a small module."""
    from harness.vendors.torch import _dynamo

    if _dynamo.config.disable:
        yield
        return
    try:
        with _dynamo.config.patch(disable=True):
            yield
    finally:
        torch.compiler.reset()  # otherwise the next export skips the branches


def run_dense(
    operator: HigherOrderOperator,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    running: Callable[[], AbstractContextManager[Any]],
) -> Any:
    """Run a control flow operator by its own eager kernel, which calls the branches that it takes.

    Args:
        operator: the operator that a dispatch mode received.
        args: its arguments; callables among them run under the mode.
        kwargs: its keyword arguments.
        running: makes the context in which code of the program runs; it is not active here.

    Raises:
        NotImplementedError: it has no such kernel.
    """
    kernel = operator.py_kernels.get(_DENSE)
    if kernel is None:
        raise NotImplementedError(f"operator {operator} has no kernel to run eagerly")

    if any(isinstance(each, OpOverload) for each in args):
        # It calls an operator that writes to its arguments, on copies of them.
        with running():
            return kernel(*args, **kwargs)

    def under_mode(function: Any) -> Any:
        if not callable(function):
            return function

        def call_under_mode(*inner: Any, **named: Any) -> Any:
            with running():
                return function(*inner, **named)

        return call_under_mode

    return kernel(*map(under_mode, args), **{name: under_mode(v) for name, v in kwargs.items()})
