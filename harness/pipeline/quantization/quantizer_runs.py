"""Run a prepared graph in the ways that judge its quantizer.

The same graph serves all of them; only what happens at the places of its observers differs: nothing
(the float model), the rounding of each place's grid (the graph that PT2E should convert to), or
noise of the size of that rounding.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch.fx import GraphModule

from harness.model.case import CallInputs
from harness.numerics.module_runs import CallResult, run_calls
from harness.pipeline.quantization.grid import Grid, choose_grid, read_grid
from harness.pipeline.quantization.grid_check import find_wrong_grids
from harness.pipeline.quantization.observed_graph import (
    Place,
    find_places,
    is_fake_quantizer,
    replace_observers,
)
from harness.pipeline.quantization.observed_values import ObservedValues, find_channel_axis
from harness.pipeline.quantization.sharing import find_sharers, group_by_values

NOISE_RUNS = 4
"""Runs with noise from which the error of the quantization is estimated."""


@dataclass(frozen=True)
class QuantizerRuns:
    """A calibrated graph of PT2E, with the grid of each place.

    Attributes:
        prepared: the graph with its observers.
        places: its places, in order.
        grids: the grid of each place; places whose scale is chosen at run time have none.
        seed: seeds the noise, and the generators that the module may draw from.
    """

    prepared: GraphModule
    places: Sequence[Place]
    grids: dict[Place, Grid]
    seed: int

    @classmethod
    def from_calibrated(cls, prepared: GraphModule, seed: int) -> QuantizerRuns:
        """Read the grids of a graph that was calibrated and is not converted yet."""
        places = find_places(prepared)
        grids = {place: grid for place in places if (grid := read_grid(place.observer)) is not None}
        return cls(prepared, places, grids, seed)

    def find_wrong_grids(self, calibration: Sequence[CallInputs]) -> list[str]:
        """Return what is wrong with the grids, for the calls that calibrated them."""
        sharers = find_sharers(list(self.grids), group_by_values(self.prepared))
        return find_wrong_grids(self.grids, self.observe(calibration), sharers)

    def observe(self, calls: Sequence[CallInputs]) -> dict[Place, ObservedValues]:
        """Return the values at each place that has a grid, as the observers saw them."""
        values: dict[Place, ObservedValues] = {}

        def add(place: Place, value: torch.Tensor) -> torch.Tensor:
            grid = self.grids.get(place)
            if grid is None or not grid.is_usable or not grid.fits(value):
                return value
            if place not in values:
                values[place] = ObservedValues(find_channel_axis(place, grid))
            values[place].add(value, grid)
            # What follows a fake quantizer has seen rounded values.
            return grid.quantize(value) if is_fake_quantizer(place.observer) else value

        with replace_observers(self.places, add):
            run_calls(self.prepared, calls, self.seed)
        return values

    def run_quantized(
        self, calls: Sequence[CallInputs], inputs: Collection[int] | None = None
    ) -> list[CallResult]:
        """Run the graph with every place rounded to its grid."""
        with replace_observers(self.places, self.quantize):
            return run_calls(self.prepared, calls, self.seed, inputs)

    def run_noisy(
        self, calls: Sequence[CallInputs], sample: int, inputs: Collection[int] | None = None
    ) -> list[CallResult]:
        """Run the graph with noise at every place: uniform, half a step either way.

        Values beyond the ends of a grid are limited to them.

        Args:
            calls: inputs of each call.
            sample: number of the run; seeds its noise.
            inputs: as for :func:`~harness.numerics.module_runs.run_calls`.
        """
        generator = torch.Generator().manual_seed(hash((self.seed, sample)) % 2**63)

        def add_noise(place: Place, value: torch.Tensor) -> torch.Tensor:
            grid = self.find_grid(place, value)
            if grid is None:
                return value
            noise = torch.empty(value.shape).uniform_(-0.5, 0.5, generator=generator)
            noise = noise.mul_(grid.align(grid.scale, value))
            return grid.clamp(value) + noise.to(value.dtype)

        with replace_observers(self.places, add_noise):
            return run_calls(self.prepared, calls, self.seed, inputs)

    def list_rounded(self) -> list[Place]:
        """Return the places that are rounded, without biases: their steps are far smaller."""
        return [
            place
            for place in self.places
            if getattr(place.observer, "is_dynamic", False)
            or (place in self.grids and not self.grids[place].is_derived)
        ]

    def count_steps(self) -> list[int]:
        """Return the number of steps between the codes of each place of :meth:`list_rounded`."""
        observers = (place.observer for place in self.list_rounded())
        return [int(each.quant_max) - int(each.quant_min) for each in observers]

    def quantize(self, place: Place, value: torch.Tensor) -> torch.Tensor:
        """Round a value to the grid of its place, if it has one."""
        grid = self.find_grid(place, value)
        return value if grid is None else grid.quantize(value)

    def find_grid(self, place: Place, value: torch.Tensor) -> Grid | None:
        """Return the grid of a place, chosen for the value where it is chosen at run time."""
        grid = self.grids.get(place) or choose_grid(place.observer, value)
        return grid if grid is not None and grid.is_usable and grid.fits(value) else None
