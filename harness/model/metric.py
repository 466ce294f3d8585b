"""Metric: a figure that says whether a model still does its job."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import CaseError

Outputs = Sequence[Sequence[Any]]
"""The flat outputs of each call: tensors, numbers, None."""

MetricFunction = Callable[[Outputs, Outputs], float] | Callable[[Outputs, Outputs, Outputs], float]
"""Takes the outputs that are judged, those of the float model for the same calls, and, if it has a
third parameter, the flat inputs of each call."""


@dataclass(frozen=True)
class Metric:
    """A metric of a case.

    It is computed for the float model, for the quantized graph where there is one, and for the
    target. Beyond ``at_least`` or ``at_most``, the cell fails at stage ``metric``. Beyond
    ``degraded_below`` or ``degraded_above``, a cell that passes is a degraded pass.

    Attributes:
        function: computes the figure.
        name: its name; by default that of the function.
        at_least: the least figure that passes; None for no limit.
        at_most: the greatest; likewise.
        degraded_below: the least figure of a model that still does its job; likewise.
        degraded_above: the greatest; likewise.

    Raises:
        CaseError: ``function`` is no function, or a limit is NaN.
    """

    function: MetricFunction
    name: str = ""
    at_least: float | None = None
    at_most: float | None = None
    degraded_below: float | None = None
    degraded_above: float | None = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise CaseError(f"a metric is a function of two lists of outputs, not {self.function}")
        for limit in ("at_least", "at_most", "degraded_below", "degraded_above"):
            if (value := getattr(self, limit)) is not None and math.isnan(value):
                raise CaseError(f"{limit} of a metric is NaN, which no figure is within")
        if not self.name:
            object.__setattr__(self, "name", getattr(self.function, "__name__", "metric"))

    def compute(self, actual: Outputs, expected: Outputs, inputs: Outputs) -> float:
        """Return the figure of some outputs; arguments as for :data:`MetricFunction`."""
        function: Callable[..., float] = self.function
        return float(function(*(actual, expected, inputs)[: _count_parameters(function)]))


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _count_parameters(function: Callable[..., float]) -> int:
    """Return 3 for a function that takes inputs, else 2."""
    try:
        given = inspect.signature(function).parameters.values()
    except ValueError:  # written in C
        return 2
    required = (each.default is each.empty and each.kind in _POSITIONAL for each in given)
    return 3 if sum(required) == 3 else 2


GivenMetrics = Metric | MetricFunction | Iterable[Metric | MetricFunction] | None
"""A metric or several, as a case gives them."""


def as_metrics(given: GivenMetrics) -> list[Metric]:
    """Return what a case gives as its metric, or metrics, as a list."""
    if given is None:
        return []
    if isinstance(given, Metric) or callable(given):
        given = [given]
    return [each if isinstance(each, Metric) else Metric(each) for each in given]
