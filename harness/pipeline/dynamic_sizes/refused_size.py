"""Find the size that a program refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.errors import MissingKernels, OutOfMemory, SizeRefused, UnsupportedProgram, describe
from harness.model.case import Inputs
from harness.pipeline.dynamic_sizes.extra_calls import ExecutedSizes
from harness.workers.memory import is_out_of_memory

_NO_SIZE = (MissingKernels, OutOfMemory, UnsupportedProgram)


def find_refused_size(
    error: Exception,
    sizes: ExecutedSizes,
    calls: Sequence[Inputs],
    execute: Callable[[Sequence[Inputs]], object],
) -> SizeRefused | None:
    """Find the first call that a program refuses because of its sizes.

    Args:
        error: the error of executing the calls.
        sizes: sizes of the calls.
        calls: flat inputs of each call, in the order of ``sizes``; the last may be repeated.
        execute: executes some calls on a newly loaded program.

    Returns:
        None if sizes are not the cause: the example itself fails, kernels or memory are missing,
        or no dimension is dynamic.
    """
    if not sizes.dimensions or isinstance(error, _NO_SIZE) or is_out_of_memory(error):
        return None
    number = _find_first_refused(len(sizes.dimensions[0].sizes), calls, execute)
    named = "" if number is None else sizes.describe_call(number)
    if number is None or not named:
        return None
    refusal = SizeRefused(
        number,
        f"the program refuses {named}: {describe(error)}{_advise_maximum(sizes, number)}",
    )
    for note in getattr(error, "__notes__", ()):
        refusal.add_note(note)
    return refusal


def _find_first_refused(
    count: int, calls: Sequence[Inputs], execute: Callable[[Sequence[Inputs]], object]
) -> int | None:
    for number in range(min(count, len(calls))):
        try:
            execute(calls[: number + 1])  # earlier calls set the state
        except Exception:  # a backend may raise any error
            return number
    return None


def _advise_maximum(sizes: ExecutedSizes, number: int) -> str:
    """Advice for a size above the example's if a dimension has no maximum."""
    if all(one.high is not None or one.sizes[number] <= one.sizes[0] for one in sizes.dimensions):
        return ""
    return (
        "; exir plans memory for the example's size where a dimension has no maximum "
        "(eval_upper_bound of exir/sym_util.py), so give it one: Dim(..., max=...)"
    )
