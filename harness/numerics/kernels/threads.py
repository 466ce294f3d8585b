"""Set the number of torch threads for the float64 runs of a reference.

A reference is thousands of operations of a millisecond. On several threads each of them ends with
its slowest thread, which waits for a time slice of the scheduler in every operation where other
processes use the cores. So the runs use one thread. A product with enough arithmetic uses all: it
lasts longer than a time slice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

ALL_THREADS_FROM = 2**32
"""Multiplications from which a product uses all threads: more than 0.2 s on one."""

_AVAILABLE: ContextVar[int] = ContextVar("_AVAILABLE", default=0)


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread inside this context, except inside :func:`all_threads`."""
    before, known = torch.get_num_threads(), _AVAILABLE.get()
    token = _AVAILABLE.set(max(before, known))
    _set_threads(1)
    try:
        yield
    finally:
        _set_threads(before)
        _AVAILABLE.reset(token)


@contextmanager
def all_threads() -> Iterator[None]:
    """Use as many threads as there were outside the outermost :func:`one_thread`."""
    before = torch.get_num_threads()
    _set_threads(max(before, _AVAILABLE.get()))
    try:
        yield
    finally:
        _set_threads(before)


def _set_threads(count: int) -> None:
    if torch.get_num_threads() != count:
        torch.set_num_threads(count)
