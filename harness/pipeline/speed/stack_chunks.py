"""Room for the frames of a cell.

CPython (3.11 and later) keeps the frames of a thread in chunks of 16 KiB, which it maps when a call
does not fit and unmaps when that call returns (``push_chunk``, Python/pystate.c). A loop that calls
across the end of a chunk asks the kernel for memory at each call: hundreds of times for a mean that
goes to Metal. A frame that is larger than a chunk gets one of the next power of two, and what it
calls has the rest. No vendor's function is replaced, so that ``--no-speed`` leaves it as it is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

_SLOTS = 1 << 17
"""Values of 8 bytes that the frame could push: 1 MiB and what a frame has beside it, in a chunk of
2 MiB. None is ever touched."""


def run_in_one_stack_chunk(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The same function, whose calls find their frames in one chunk.

    Args:
        function: what calls a lot; what it calls has the room, on whatever thread.
    """

    def called(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        return function(*args, **kwargs)

    large = FunctionType(
        called.__code__.replace(co_stacksize=_SLOTS), globals(), closure=called.__closure__
    )
    return functools.update_wrapper(large, function)
