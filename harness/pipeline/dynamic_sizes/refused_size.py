"""Which size it is that a program refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.errors import MissingKernels, OutOfMemory, SizeRefused, UnsupportedProgram, describe
from harness.execution.memory import is_refusal
from harness.model.case import Inputs
from harness.pipeline.dynamic_sizes.extra_calls import Sizes

_NO_SIZE = (MissingKernels, OutOfMemory, UnsupportedProgram)


def refused_size(
    error: Exception,
    sizes: Sizes,
    calls: Sequence[Inputs],
    execute: Callable[[Sequence[Inputs]], object],
) -> SizeRefused | None:
    """The first call that a program refuses, where its sizes are not those of the first call.

    Args:
        error: what executing the calls raised.
        sizes: of the calls.
        calls: flat inputs of each call, in the order of ``sizes``; a last one may be there again.
        execute: executes the program, newly loaded, for some calls.

    Returns:
        None where the error is of another kind: the example itself fails, kernels or memory are
        missing, or sizes do not vary.
    """
    if not sizes.dimensions or isinstance(error, _NO_SIZE) or is_refusal(error):
        return None
    number = _first_refused(len(sizes.dimensions[0].sizes), calls, execute)
    named = "" if number is None else sizes.at(number)
    if number is None or not named:
        return None
    refusal = SizeRefused(
        number,
        f"the program refuses {named}: {describe(error)}{_advice(sizes, number)}",
    )
    for note in getattr(error, "__notes__", ()):
        refusal.add_note(note)
    return refusal


def _first_refused(
    count: int, calls: Sequence[Inputs], execute: Callable[[Sequence[Inputs]], object]
) -> int | None:
    for number in range(min(count, len(calls))):
        try:
            execute(calls[: number + 1])  # state is what all calls before have left behind
        except Exception:  # whatever a backend raises
            return number
    return None


def _advice(sizes: Sizes, number: int) -> str:
    """What to do about a size above the example's where a dimension has no maximum."""
    if all(one.high is not None or one.sizes[number] <= one.sizes[0] for one in sizes.dimensions):
        return ""
    return (
        "; exir plans memory for the example's size where a dimension has no maximum "
        "(eval_upper_bound of exir/sym_util.py), so give it one: Dim(..., max=...)"
    )
