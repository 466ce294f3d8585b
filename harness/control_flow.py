"""Control flow operators (cond, while_loop, map, scan, ...) run as what they mean, never compiled.

Called outside of an export they compile themselves with Dynamo, which neither knows our modes nor
forgets a failure.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch._ops import HigherOrderOperator

_DENSE = torch._C.DispatchKey.CompositeExplicitAutograd


def uncompiled() -> AbstractContextManager[None]:
    """While modules run eagerly: nothing is compiled, whoever asks for it."""
    import torch._dynamo

    context: AbstractContextManager[None] = torch._dynamo.config.patch(disable=True)
    return context


def run_dense(operator: HigherOrderOperator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a control flow operator by its own plain kernel, which calls the branches that it takes.

    Raises:
        NotImplementedError: it has none.
    """
    kernel = operator.py_kernels.get(_DENSE)
    if kernel is None:
        raise NotImplementedError(f"operator {operator.name()} has no kernel to run eagerly")
    return kernel(*args, **kwargs)
