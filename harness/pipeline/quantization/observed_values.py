"""Statistics of the values at a place of a graph, and of the error that its grid makes there."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch.fx import Node

from harness.numerics.error_model.rules import base_name
from harness.pipeline.quantization.grid import Grid
from harness.pipeline.quantization.observed_graph import Place


@dataclass
class ObservedValues:
    """Values at a place over all calibration calls, for each channel where the grid has channels.

    Attributes:
        axis: dimension of the channels in the values; None for one channel.
        least: float64 (channels), the least value.
        most: float64 (channels), the greatest value.
        errors: float64 (channels), the sum of squares of the errors of the grid.
        clipped: number of values that the grid limits by more than half a step.
        count: number of values of a channel.
    """

    axis: int | None
    least: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    most: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    errors: torch.Tensor = field(default_factory=lambda: torch.zeros(()))
    clipped: int = 0
    count: int = 0

    def add(self, values: torch.Tensor, grid: Grid) -> None:
        """Add the values of a call, with the errors that a grid makes."""
        if not values.numel():
            return
        error = grid.quantize(values) - values
        beyond = (grid.clamp(values) - values).abs()
        self.clipped += int((beyond > 0.5 * grid.align(grid.scale, values)).sum())
        channels, errors = (self._split(each) for each in (values, error))
        least, most = channels.amin(1).double(), channels.amax(1).double()
        if self.count:
            least, most = torch.minimum(least, self.least), torch.maximum(most, self.most)
        self.least, self.most = least, most
        self.errors = self.errors + errors.square().double().sum(1)
        self.count += channels.shape[1]

    @property
    def clipped_share(self) -> float:
        """The share of values that the grid limits by more than half a step."""
        return self.clipped / max(1, self.count * len(self.least))

    def _split(self, values: torch.Tensor) -> torch.Tensor:
        """Return the values as (channels, values of a channel)."""
        if self.axis is None or not values.dim():
            return values.reshape(1, -1)
        return values.movedim(self.axis, 0).reshape(values.shape[self.axis], -1)


# By operator, the position of the weight among its arguments, and the dimension of its channels.
_WEIGHTS = {"linear": (1, 0), "addmm": (2, 1), "mm": (1, 1)}


def find_channel_axis(place: Place, grid: Grid) -> int | None:
    """Return the dimension whose channels have a scale each; None where the grid has one scale.

    For a weight it is the dimension of the output channels of the operator that takes it, for other
    values the grid's own.
    """
    if grid.axis is None:
        return None
    axes = {axis for user in place.node.users if (axis := _find_axis(place.node, user)) is not None}
    return axes.pop() if len(axes) == 1 else grid.axis


def _find_axis(weight: Node, user: Node) -> int | None:
    if getattr(user.target, "_schema", None) is None:
        return None
    name = base_name(user.target)
    position, axis = _WEIGHTS.get(name, (1, 0 if name.startswith("conv") else None))
    if len(user.args) <= position or user.args[position] is not weight or name == "convolution":
        return None
    if name.startswith("conv_transpose"):
        # (in, out / groups, ...): a channel of dimension 1 belongs to each of several groups.
        groups = user.args[6] if len(user.args) > 6 else 1
        return 1 if groups == 1 else None
    return axis
