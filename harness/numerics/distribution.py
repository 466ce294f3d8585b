"""Compare random outputs by their distribution, for cases with ``Case.random_outputs``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from harness.execution.interface import Interface
from harness.model.case import CallInputs
from harness.numerics.compare import (
    Verdict,
    find_structure_problem,
    get_kind_name,
    make_mismatch_row,
)
from harness.numerics.metrics.severity import classify_share
from harness.numerics.module_runs import run_calls
from harness.record.cell import Numerics

# Probability that a correct output is rejected.
_CHANCE = 1e-6
_SAMPLES = 8


def compare_draws(
    module: torch.nn.Module,
    calls: Sequence[CallInputs],
    actual: Sequence[Sequence[Any]],
    interface: Interface,
    seed: int,
) -> Verdict:
    """Compare outputs that a target drew from its own random numbers with draws of eager.

    Two-sample Kolmogorov-Smirnov test of the elements of each output against the elements of 8 runs
    of eager. Its critical value is ``sqrt(-ln(p / 2) / 2 · (n + m) / (n m))`` (N. Smirnov, *Table
    for Estimating the Goodness of Fit of Empirical Distributions*, Ann. Math. Statist. 19(2),
    1948). In the record ``max_abs`` is the statistic and ``bound`` the critical value; no element
    has an error of its own. The statistic is the share of the distribution that differs; the
    severity follows from it as from a share of wrong elements.

    Args:
        module: the module, in the recipe's dtype.
        calls: inputs of each call.
        actual: per call the flat values that the program returned.
        interface: the place of each value.
        seed: seed of the first run of eager.
    """
    runs = [run_calls(module, calls, seed + sample) for sample in range(_SAMPLES)]
    numerics: list[Numerics] = []
    problems: list[str] = []
    if len(actual) != len(calls):
        problems.append(f"results of {len(actual)} calls, expected {len(calls)}")
    for call, values in enumerate(actual[: len(calls)]):
        if problem := interface.find_tree_difference(runs[0][call].spec):
            problems.append(f"call {call}: {problem}")
            continue
        for value, place in zip(values, interface.positions, strict=True):
            if place.role != "output":
                continue
            drawn = [run[call].outputs[place.index] for run in runs]
            row = _compare_value(value, drawn, call, place)
            numerics.append(row)
            if row.problem:
                problems.append(f"call {call} {place}: {row.problem}")
    return Verdict.from_rows(numerics, problems)


def _compare_value(value: Any, drawn: Sequence[Any], call: int, place: Any) -> Numerics:
    problem = find_structure_problem(value, drawn[0])
    if problem is not None:
        return make_mismatch_row(value, call, place, problem)
    sample, expected = value.double().flatten(), torch.stack(list(drawn)).double().flatten()
    statistic = compute_ks_statistic(sample, expected)
    n, m = max(1, sample.numel()), max(1, expected.numel())
    critical = math.sqrt(-math.log(_CHANCE / 2) / 2 * (n + m) / (n * m))
    wrong = statistic > critical
    return Numerics(
        call=call,
        output=place.index,
        dtype=get_kind_name(value),
        shape=list(value.shape),
        max_abs=statistic,
        mean_abs=statistic,
        max_ulp=None,
        sqnr_db=0.0,
        rel_fro=0.0,
        cosine=0.0,
        bound=critical,
        bound_used=statistic / critical,
        exceeding=sample.numel() if wrong else 0,
        elements=sample.numel(),
        conclusive_share=max(0.0, 1 - critical),
        severity=classify_share(statistic) if wrong else None,
        problem=f"the distributions differ: statistic {statistic:.3g}, critical {critical:.3g}"
        if wrong
        else None,
    )


def compute_ks_statistic(first: torch.Tensor, second: torch.Tensor) -> float:
    """Return the Kolmogorov-Smirnov statistic: the largest distance between the empirical
    distribution functions of two samples, 0 to 1."""
    if first.numel() == 0 or second.numel() == 0:
        return 0.0
    points = torch.cat([first, second])
    below = [
        torch.searchsorted(sample.sort().values, points, side="right") / sample.numel()
        for sample in (first, second)
    ]
    return float((below[0] - below[1]).abs().max())
