"""Avoid repeated memory mapping by Python's stack while a cell runs.

CPython (3.11 and later) stores the frames of a thread in chunks of 16 KiB. It maps a chunk when a
call does not fit, and unmaps it when that call returns (``push_chunk``, Python/pystate.c). A loop
that calls across the end of a chunk therefore maps memory at each call: hundreds of times for a
mean on Metal. A frame that is larger than a chunk gets a chunk of the next power of two, which its
callees share.

Assumes CPython's chunk allocation; elsewhere the wrapper has no effect. It replaces no vendor
function, so ``--no-speed`` does not affect it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

_SLOTS = 1 << 17
"""Stack size of the frame in values of 8 bytes: 1 MiB, so that the chunk has 2 MiB. The memory is
never touched."""


def run_in_one_stack_chunk(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Wrap a function so that it and its callees use one stack chunk.

    Args:
        function: a function with many calls, on any thread.
    """

    def called(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        return function(*args, **kwargs)

    large = FunctionType(
        called.__code__.replace(co_stacksize=_SLOTS), globals(), closure=called.__closure__
    )
    return functools.update_wrapper(large, function)
