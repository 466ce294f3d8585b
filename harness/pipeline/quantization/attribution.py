"""Measure which roundings cause the error of a quantized graph.

Each tensor is rounded alone, and the worst ones are left out alone: with the prepared graph, both
are a run in which other observers do nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
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
from harness.record.quality import QualityPart

# Roundings that are reported, and left out one at a time.
_SHOWN = 12


def attribute_error(
    runs: QuantizerRuns, calls: Sequence[CallInputs], expected: Sequence[CallResult], output: int
) -> list[QualityPart]:
    """Return the roundings with the largest errors, the largest first.

    Args:
        runs: runs of the prepared graph.
        calls: inputs of each call.
        expected: outputs of the float model.
        output: number of the output whose error is attributed.
    """

    def measure(rounded: Collection[Place]) -> float:
        def round_some(place: Place, value: torch.Tensor) -> torch.Tensor:
            return runs.quantize(place, value) if place in rounded else value

        with replace_observers(runs.places, round_some):
            returned = run_calls(runs.prepared, calls, runs.seed)
        actual, wanted = ([call.outputs[output] for call in side] for side in (returned, expected))
        sqnr = compute_sqnr(actual, wanted)
        return math.inf if sqnr is None else sqnr

    observed = runs.observe(calls)
    every = runs.list_rounded()
    alone = {place: measure([place]) for place in every}
    worst = sorted(every, key=alone.__getitem__)[:_SHOWN]
    return [
        QualityPart(
            node=place.name,
            source=find_nearest_source(place.source),
            module=_find_module(place),
            alone_db=alone[place],
            without_db=measure([other for other in every if other is not place]),
            **_describe_values(runs.grids.get(place), observed.get(place)),
        )
        for place in worst
    ]


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
