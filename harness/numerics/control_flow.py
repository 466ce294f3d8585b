"""Control flow operators (cond, while_loop, map, scan, ...) run as what they mean, never compiled.

Called outside of an export they compile themselves with Dynamo, which neither knows our modes nor
forgets a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from harness.vendors.torch import DispatchKey, HigherOrderOperator

_DENSE = DispatchKey.CompositeExplicitAutograd


@contextmanager
def uncompiled() -> Iterator[None]:
    """While modules run eagerly: nothing is compiled, whoever asks for it. Runs that follow each
    other may do so within one, as Dynamo's reset takes longer than a small module."""
    from harness.vendors.torch import _dynamo

    if _dynamo.config.disable:
        yield
        return
    try:
        with _dynamo.config.patch(disable=True):
            yield
    finally:
        torch.compiler.reset()  # or the next export finds the branches marked as not to be traced


def run_dense(
    operator: HigherOrderOperator,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    running: Callable[[], AbstractContextManager[Any]],
) -> Any:
    """Run a control flow operator by its own plain kernel, which calls the branches that it takes.

    Args:
        operator: what a dispatch mode was handed.
        args: its arguments; those that can be called run under the mode.
        kwargs: the same by name.
        running: makes the context in which code of the program runs; it is not active here.

    Raises:
        NotImplementedError: it has none.
    """
    kernel = operator.py_kernels.get(_DENSE)
    if kernel is None:
        raise NotImplementedError(f"operator {operator} has no kernel to run eagerly")

    def under_mode(function: Any) -> Any:
        if not callable(function):
            return function

        def called(*inner: Any, **named: Any) -> Any:
            with running():
                return function(*inner, **named)

        return called

    return kernel(*map(under_mode, args), **{name: under_mode(v) for name, v in kwargs.items()})
