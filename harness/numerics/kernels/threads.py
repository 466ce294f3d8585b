"""How many threads torch takes for the float64 runs of a reference.

A reference is thousands of operations of a millisecond. On several threads each of them ends when
its slowest thread does, and where other processes take the cores that thread waits for a time slice
of the scheduler, in every operation. So the runs take one thread. A product with much arithmetic
takes all: it lasts longer than a time slice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

MUCH = 2**32
"""Multiplications of a product that takes all threads: more than 0.2 s on one."""

_AVAILABLE: ContextVar[int] = ContextVar("_AVAILABLE", default=0)


@contextmanager
def one_thread() -> Iterator[None]:
    """Take one thread in here, but for what :func:`all_threads` encloses."""
    before, known = torch.get_num_threads(), _AVAILABLE.get()
    token = _AVAILABLE.set(max(before, known))
    _take(1)
    try:
        yield
    finally:
        _take(before)
        _AVAILABLE.reset(token)


@contextmanager
def all_threads() -> Iterator[None]:
    """Take as many threads as the outermost :func:`one_thread` found."""
    before = torch.get_num_threads()
    _take(max(before, _AVAILABLE.get()))
    try:
        yield
    finally:
        _take(before)


def _take(count: int) -> None:
    if torch.get_num_threads() != count:
        torch.set_num_threads(count)
