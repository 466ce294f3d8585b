"""Calls of a cell find their frames in one chunk of Python's stack."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from harness.pipeline.speed.stack_chunks import run_in_one_stack_chunk

_CALLS = 1000
_DEPTHS = 200  # frames of 100 bytes and more: somewhere in there a chunk of 16 KiB ends


def _faults(depth: int) -> int:
    """Pages that the kernel gives while a loop, so deep, calls a function."""
    import resource

    if depth:
        return _faults(depth - 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(_CALLS):
        _leaf()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def _leaf() -> None:
    pass


def _most(measure: Callable[[int], int]) -> int:
    return max(measure(depth) for depth in range(_DEPTHS))


@pytest.mark.skipif(sys.platform != "linux", reason="counts Linux's page faults")
def test_no_call_asks_the_kernel_for_memory() -> None:
    assert _most(_faults) >= _CALLS, "this Python does not unmap its stack: there is no need"
    assert run_in_one_stack_chunk(_most)(_faults) < _CALLS / 10


def test_it_is_the_same_function() -> None:
    @run_in_one_stack_chunk
    def ratio(one: float, *, other: float) -> float:
        """One by the other."""
        return one / other

    assert ratio(6, other=3) == 2
    assert (ratio.__name__, ratio.__doc__) == ("ratio", "One by the other.")
    with pytest.raises(ZeroDivisionError):
        ratio(1, other=0)
