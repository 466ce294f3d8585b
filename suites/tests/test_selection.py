"""Which cells a plain run selects of a suite."""

from __future__ import annotations

from dataclasses import replace

import torch

from suites.build import op, randn
from suites.ops import binary, cast, compare, conv, index, norm, pool, reduce, shape, unary
from suites.quant import joined
from suites.selection import ALONE, take_one_of, take_turns

_CASES = [op(f"abs/{number}", torch.abs, randn(3)) for number in range(4)]


def test_the_first_case_of_an_operator_is_on_all_targets_and_others_take_turns() -> None:
    taking = take_turns(_CASES, ("tosa:int", ""), ("mlx:*",))
    assert [case.plain_targets for case in taking] == ["*", "tosa:int|mlx:*", "mlx:*",
                                                       "tosa:int|mlx:*"]  # fmt: skip


def test_one_of_each_two_cases_stays_and_cases_of_the_nightly_run_do_not_count() -> None:
    nightly = replace(_CASES[0], tags=frozenset({"nightly"}))
    aside = replace(_CASES[0], plain_targets="")
    taking = take_one_of(2, [nightly, _CASES[0], aside, *_CASES[1:]])
    assert [case.plain_targets for case in taking] == ["*", "*", "", "", "*", ""]


def test_cells_that_alone_cover_something_exist_and_are_selected() -> None:
    modules = (binary, cast, compare, conv, index, norm, pool, reduce, shape, unary, joined)
    cases = {case.name: case for module in modules for case in module.CASES}
    for name, targets in ALONE.items():
        plain = cases[name].plain_targets
        assert plain == "*" or set(targets.split("|")) <= set(plain.split("|")), name
