"""Which cells of a suite a plain run selects; the nightly run selects all.

Suites choose by ``plain_targets`` of their cases, most of them by these rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from harness import Case
from harness.model.registry import NIGHTLY

_SLOW = ("tosa:int", "metal:fp32", "tosa:fp", "portable:fp32", "")
_OTHERS = ("[!mpt]*", "mlx:*")
"""All targets of a plain run in turns: each slow one and none, and the others in two groups."""

ALONE = {
    "_to_copy/int32_to_fp32": "tosa:int",
    "_to_copy/to_channels_last": "xnnpack:fp32",
    "argmax/all": "mlx:fp32",
    "argmax/to_float": "tosa:int",
    "argmin/all": "mlx:fp32",
    "avg_pool2d/divisor": "mlx:fp32|tosa:int",
    "avg_pool2d/unread_edge": "tosa:int",
    "bitwise_not/bool": "mlx:fp32",
    "clamp/int32": "tosa:int",
    "convolution/transposed_1d": "tosa:fp",
    "convolution/transposed_2d_grouped": "xnnpack:fp32",
    "int_model/lstm": "tosa:int",
    "max_pool2d_with_indices/unbatched": "tosa:int",
    "max_pool2d_with_indices/unread_edge": "tosa:int",
    "norm_behind/transposed_conv2d_groups_no_bias": "tosa:fp",
    "slice_copy/to_empty": "xnnpack:fp32",
    "slice_scatter/last_dim": "mlx:fp32",
    "upsample_nearest2d/uneven_size": "mlx:fp32",
}
"""Further targets of cases in a plain run. These cells alone execute some lines of a backend's
lowering, or notice a mutant (docs/trust.md)."""


def take_turns(cases: Sequence[Case], *turns: Sequence[str]) -> list[Case]:
    """Let the cases of an operator take turns on targets in a plain run.

    The first case of each operator is selected on all targets. Each further case is selected on one
    entry of each list, and on its targets in ``ALONE``. Cases that set ``plain_targets`` themselves
    stay as they are and take no turn.

    Args:
        cases: the cases of a suite, in their order.
        turns: lists of globs over targets. An empty text stands for none. Default: one of the
            slow targets and one of the others.
    """
    turns = turns or (_SLOW, _OTHERS)
    before = Counter[str]()
    taking = list[Case]()
    for case in cases:
        if case.plain_targets == "*":
            place = before[case.op]
            before[case.op] += 1
            if place:
                chosen = [entries[(place - 1) % len(entries)] for entries in turns]
                chosen.append(ALONE.get(case.name, ""))
                case = replace(case, plain_targets="|".join(filter(None, chosen)))
        taking.append(case)
    return taking


def take_one_of(count: int, cases: Iterable[Case]) -> list[Case]:
    """Leave most cases to the nightly run: a plain run selects the first of each ``count`` cases.

    Args:
        count: how many cases share one place in a plain run. Cases that a plain run selects on no
            target do not count.
        cases: the cases, in their order.
    """
    taking, place = list[Case](), 0
    for case in cases:
        if case.plain_targets and NIGHTLY not in case.tags:
            case = replace(case, plain_targets="" if place % count else case.plain_targets)
            place += 1
        taking.append(case)
    return taking
