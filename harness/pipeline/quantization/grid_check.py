"""Judge the grid of each place by the values that calibrated it.

Nothing is taken from the quantizer but the kind of grid: its number of codes, and whether it is
symmetric. Two statements follow, whatever observer chose the grid:

- It is no wider than the values: its ends lie within their range, zero included, to half a step,
  the rounding of the zero point.
- It is no narrower than is good for the values: the root mean square of its errors is at most half
  a step of the grid that just covers them, which none of that grid's errors exceeds. An observer
  that minimizes the error (``HistogramObserver``) may limit some values to gain smaller steps.

Neither holds for an observer that averages ranges, as those of quantization-aware training do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch

from harness.numerics.dtypes import unit_roundoff
from harness.numerics.error_model.rules import base_name
from harness.pipeline.quantization.grid import Grid
from harness.pipeline.quantization.observed_graph import Place
from harness.pipeline.quantization.observed_values import ObservedValues

# Smallest scale that a quantizer may choose for values that need a smaller one: the largest eps of
# the quantizers here (XNNPACK's, 2**-12).
_LEAST_STEP = 2.0**-12
# The zero point rounds by half a step; float32 rounds scale and quotient.
_ENDS = 0.5 + 0.02
_ROUNDING = 1.02

# The ranges of functions, for quantizers that choose a grid by the function.
_RANGES = {
    "sigmoid": (0.0, 1.0),
    "hardsigmoid": (0.0, 1.0),
    "softmax": (0.0, 1.0),
    "_softmax": (0.0, 1.0),
    "tanh": (-1.0, 1.0),
    "sin": (-1.0, 1.0),
    "cos": (-1.0, 1.0),
}


def find_wrong_grids(
    grids: Mapping[Place, Grid],
    values: Mapping[Place, ObservedValues],
    sharers: Mapping[Place, Sequence[Place]],
) -> list[str]:
    """Return what is wrong with the grids, a text for each wrong one, in the order of the graph.

    Args:
        grids: the grid of each place.
        values: the values there, of the calibration calls.
        sharers: the places that share the grid rightly.
    """
    problems = []
    for place, grid in grids.items():
        observed = values.get(place)
        if observed is None or not observed.count:
            continue
        around = [values[other] for other in sharers[place] if other in values]
        problem = _find_problem(place, grid, observed, [each for each in around if each.count])
        if problem is not None:
            problems.append(f"{place}: {problem}")
    return problems


def _find_problem(
    place: Place, grid: Grid, observed: ObservedValues, around: Sequence[ObservedValues]
) -> str | None:
    is_finite = bool((observed.least.isfinite() & observed.most.isfinite()).all())
    if grid.is_average or not is_finite:
        return None
    alike = [each for each in around if each.least.shape == observed.least.shape]
    least = torch.stack([each.least for each in alike]).amin(0)
    most = torch.stack([each.most for each in alike]).amax(0)
    floor = min(grid.least_step, _LEAST_STEP)
    needed = grid.compute_needed_step(least, most).clamp(min=floor)
    if not grid.is_derived and (problem := _find_excess(place, grid, least, most, floor)):
        return problem
    step = grid.scale.double().amax() if grid.is_fixed or grid.is_derived else needed
    # An observer of several tensors chooses one grid for all.
    count = sum(each.count for each in alike)
    error = (torch.stack([each.errors for each in alike]).sum(0) / count).sqrt()
    limit = torch.maximum(needed, torch.as_tensor(step)) / 2 * _ROUNDING
    # A bias of 32 bits has steps as small as the roundings of float32.
    limit = limit + torch.maximum(-least, most) * 2 * unit_roundoff(torch.float32)
    clipped = sum(each.clipped for each in alike) / (count * len(error))
    if grid.is_fixed and _misses_one_step(place, grid):
        limit = limit + math.sqrt(clipped) * step
    if grid.bins:
        # A histogram does not show where in a bin a clipped value lies, at either end.
        bin_width = (most.clamp(min=0) - least.clamp(max=0)) / grid.bins
        limit = limit + math.sqrt(clipped) * 2 * bin_width
    worst = int((error / limit).argmax())
    if float(error[worst]) <= float(limit[worst]):
        return None
    channel = f" of channel {worst}" if len(error) > 1 else ""
    return (
        f"rounding the values{channel} to its codes makes an error of {error[worst]:.3g} in the "
        f"root mean square; half a step of a grid that covers {least[worst]:.3g} to "
        f"{most[worst]:.3g} is {limit[worst]:.3g} ({observed.clipped:,} values are clipped)"
    )


def _find_excess(
    place: Place,
    grid: Grid,
    least: torch.Tensor,
    most: torch.Tensor,
    floor: float,
) -> str | None:
    """Return how a grid is wider than the values, or None."""
    if grid.scale.numel() not in (1, least.numel()):
        return None  # channels of another dimension: the error shows whether that is good
    if grid.is_fixed:
        known = _find_range(place)
        if known is None:
            return None
        least, most = (torch.full_like(least, end) for end in known)
    scale, zero_point = grid.scale.double(), grid.zero_point.double()
    ends = [(code - zero_point) * scale for code in (grid.low, grid.high)]
    low, high = least.clamp(max=0), most.clamp(min=0)
    if grid.is_symmetric:
        high = torch.maximum(-low, high)
        low = -high
    beyond = torch.maximum(low - ends[0], ends[1] - high) / scale
    beyond = torch.where(scale <= floor * _ROUNDING, -math.inf, beyond)
    worst = int(beyond.argmax())
    if float(beyond[worst]) <= _ENDS:
        return None
    channel = f" of channel {worst}" if beyond.numel() > 1 else ""
    first, last = (end[min(worst, end.numel() - 1)] for end in ends)
    return (
        f"its codes{channel} represent {first:.3g} to {last:.3g}, and the values"
        f"{' of its function' if grid.is_fixed else ''} are {least[worst]:.3g} to "
        f"{most[worst]:.3g}: {beyond[worst]:.3g} steps too wide"
    )


def _misses_one_step(place: Place, grid: Grid) -> bool:
    """Return whether a fixed grid ends a step before its function's range.

    The 8-bit quantization specification of TensorFlow Lite, which CMSIS-NN follows, prescribes
    1/256 as the scale of a softmax: its largest value is 255/256.
    """
    known = _find_range(place)
    if known is None:
        return False
    last = float(((grid.high - grid.zero_point.double()) * grid.scale.double()).amin())
    return 0 < known[1] - last <= float(grid.scale.double().amax()) * _ROUNDING


def _find_range(place: Place) -> tuple[float, float] | None:
    schema = getattr(place.source.target, "_schema", None)
    return None if schema is None else _RANGES.get(base_name(place.source.target))
