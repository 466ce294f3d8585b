"""Measure which roundings cause the error of a quantized graph.

Each tensor is rounded alone, and the worst ones are left out alone: with the prepared graph, both
are a run in which other observers do nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch

from harness.model.case import CallInputs
from harness.numerics.module_runs import CallResult, run_calls
from harness.pipeline.explain.node_origin import find_nearest_source, get_module_path
from harness.pipeline.quantization.grid import Grid
from harness.pipeline.quantization.observed_graph import Place, replace_observers
from harness.pipeline.quantization.observed_values import ObservedValues
from harness.pipeline.quantization.quality import compute_sqnr
from harness.pipeline.quantization.quantizer_runs import QuantizerRuns
from harness.record.evidence import QualityPart

SHOWN = 12
"""Roundings that are reported, and left out one at a time."""
# Modules that a search tries to give back.
_GIVEN_BACK = 8


class ErrorSearch:
    """Measures an output of a prepared graph with some of its tensors rounded.

    Args:
        runs: runs of the prepared graph.
        calls: inputs of each call.
        expected: outputs of the float model.
        output: number of the output whose error is attributed.
    """

    def __init__(
        self,
        runs: QuantizerRuns,
        calls: Sequence[CallInputs],
        expected: Sequence[CallResult],
        output: int,
    ) -> None:
        self._runs = runs
        self._calls = calls
        self._wanted = [call.outputs[output] for call in expected]
        self._output = output
        self._places = runs.list_rounded()
        self._alone = {place: self.measure([place]) for place in self._places}

    def measure(self, rounded: Collection[Place]) -> float:
        """Return the SQNR, in dB, of the graph in which these tensors alone are rounded."""
        chosen = set(rounded)

        def round_some(place: Place, value: torch.Tensor) -> torch.Tensor:
            return self._runs.quantize(place, value) if place in chosen else value

        with replace_observers(self._runs.places, round_some):
            returned = run_calls(self._runs.prepared, self._calls, self._runs.seed)
        sqnr = compute_sqnr([call.outputs[self._output] for call in returned], self._wanted)
        return math.inf if sqnr is None else sqnr

    def list_worst(self) -> list[QualityPart]:
        """Return the roundings with the largest errors, the largest first."""
        observed = self._runs.observe(self._calls)
        return [
            QualityPart(
                node=place.name,
                source=find_nearest_source(place.source),
                module=_find_module(place),
                alone_db=self._alone[place],
                without_db=self.measure([other for other in self._places if other is not place]),
                **_describe_values(self._runs.grids.get(place), observed.get(place)),
            )
            for place in sorted(self._places, key=self._alone.__getitem__)[:SHOWN]
        ]

    def rank_modules(self) -> list[str]:
        """Return the modules of the rounded tensors, that with the largest error first."""
        errors: dict[str, float] = {}
        for place, alone in self._alone.items():
            if name := _find_module(place):
                errors[name] = errors.get(name, 0.0) + 10 ** (-alone / 10)
        return sorted(errors, key=errors.__getitem__, reverse=True)


def find_modules(
    ranked: Sequence[str], wanted_db: float, measure: Callable[[Sequence[str]], float]
) -> tuple[list[str], float]:
    """Return the modules that, left in float, let a graph reach an SQNR.

    They are the first modules of the ranking, as few as reach it; of these, each without which the
    graph reaches it as well is given back.

    Args:
        ranked: the modules that may be left in float.
        wanted_db: the SQNR to reach.
        measure: quantizes with some modules in float and returns the SQNR.

    Returns:
        The modules, and the SQNR with them: less than the wanted one if all modules together do not
        reach it.
    """
    reached = measure(())
    if reached >= wanted_db or not ranked:
        return [], reached
    low, high = 0, len(ranked)
    reached = measure(ranked)
    if reached < wanted_db:
        return _drop_inner(ranked), reached
    while high - low > 1:
        middle = (low + high) // 2
        if (tried := measure(ranked[:middle])) >= wanted_db:
            high, reached = middle, tried
        else:
            low = middle
    kept = list(ranked[:high])
    for name in ranked[: min(high - 1, _GIVEN_BACK)]:
        rest = [other for other in kept if other != name]
        if (tried := measure(rest)) >= wanted_db:
            kept, reached = rest, tried
    return _drop_inner(kept), reached


def _drop_inner(names: Sequence[str]) -> list[str]:
    """Return the modules that are not inside of another one."""
    return [name for name in names if not any(name.startswith(f"{other}.") for other in names)]


def _find_module(place: Place) -> str:
    """The module that computes a tensor, or the first that reads it, as a weight's."""
    nodes = [place.source, *place.node.users]
    return next(filter(None, map(get_module_path, nodes)), "")


def _describe_values(grid: Grid | None, values: ObservedValues | None) -> dict[str, Any]:
    if grid is None or values is None or not values.count:
        return {}
    available = grid.high - grid.low + 1
    return {
        "clipped": values.clipped_share,
        "codes": min(available, int(((values.most - values.least) / grid.scale).max()) + 1),
        "available": available,
        "least": float(values.least.min()),
        "most": float(values.most.max()),
    }
