"""The grid of a quantizer: the values that its codes represent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Grid:
    """The values ``scale * (code - zero_point)`` of the codes from ``low`` to ``high``.

    Attributes:
        scale: float32, one element, or one for each channel.
        zero_point: int64, the shape of the scale.
        low: the lowest code.
        high: the highest code.
        axis: dimension of the channels; None for one scale.
        is_fixed: the quantizer's author chose the scale, whatever the values are.
        is_derived: it follows from the grids of other tensors, as a bias's does.
        is_symmetric: its values are symmetric around zero.
        is_average: it follows an average of the ranges of several tensors, not the range of all.
        least_step: the smallest scale that the quantizer chooses.
        bins: number of bins of the histogram by which the scale was chosen; 0 for none.
    """

    scale: torch.Tensor
    zero_point: torch.Tensor
    low: int
    high: int
    axis: int | None = None
    is_fixed: bool = False
    is_derived: bool = False
    is_symmetric: bool = False
    is_average: bool = False
    least_step: float = 0.0
    bins: int = 0

    def quantize(self, values: torch.Tensor) -> torch.Tensor:
        """Return the value of the nearest code of each element, in the dtype of the values.

        Computed in float32 with the reciprocal of the scale, as PT2E's operators do
        (``quantize_per_tensor`` in torch/ao/quantization/fx/_decomposed.py): values near the middle
        of two codes get the same code.
        """
        scale, zero_point = (
            self.align(each, values) for each in (self.scale, self.zero_point.float())
        )
        codes = values.float().mul(1.0 / scale).round_().add_(zero_point)
        return codes.clamp_(self.low, self.high).sub_(zero_point).mul_(scale).to(values.dtype)

    def clamp(self, values: torch.Tensor) -> torch.Tensor:
        """Return the values, limited to those of the lowest and the highest code."""
        ends = [(code - self.zero_point) * self.scale for code in (self.low, self.high)]
        low, high = (self.align(end, values).to(values.dtype) for end in ends)
        return values.clamp(low, high)

    def align(self, channels: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Return numbers of the channels in a shape that broadcasts with the values."""
        if self.axis is None or not values.dim():
            return channels.reshape(())
        shape = [1] * values.dim()
        shape[self.axis] = -1
        return channels.reshape(shape)

    def compute_needed_step(self, least: torch.Tensor, most: torch.Tensor) -> torch.Tensor:
        """Return the step of a grid of this kind that just covers a range and zero.

        Args:
            least: the least value, float64, of any shape.
            most: the greatest value, likewise.
        """
        low, high = least.clamp(max=0), most.clamp(min=0)
        span = 2 * torch.maximum(-low, high) if self.is_symmetric else high - low
        return span / (self.high - self.low)

    @property
    def is_usable(self) -> bool:
        """Whether all scales are positive and finite."""
        total = float(self.scale.sum())
        return self.scale.numel() > 0 and math.isfinite(total) and float(self.scale.min()) > 0

    def fits(self, values: torch.Tensor) -> bool:
        """Whether the values have as many channels as the grid, or the grid has one for all.

        PT2E's operators refuse others.
        """
        if self.axis is None:
            return True
        count = self.scale.numel()
        return self.axis < values.dim() and count in (1, values.shape[self.axis])


def read_grid(observer: Any) -> Grid | None:
    """Return the grid that an observer has chosen.

    Args:
        observer: an observer or fake quantizer of PT2E, after calibration.

    Returns:
        None where the codes are no integers, or the scale is chosen at run time.
    """
    dtype = getattr(observer, "dtype", None)
    if not isinstance(dtype, torch.dtype) or dtype.is_floating_point:
        return None
    if getattr(observer, "is_dynamic", False) or getattr(observer, "quant_min", None) is None:
        return None
    scale, zero_point = compute_qparams_once(observer)
    scheme = str(getattr(observer, "qscheme", ""))
    inner = getattr(observer, "activation_post_process", observer)
    least = getattr(inner, "eps", None)
    return Grid(
        scale.detach().float().reshape(-1),
        zero_point.detach().long().reshape(-1),
        int(observer.quant_min),
        int(observer.quant_max),
        int(observer.ch_axis) if "per_channel" in scheme else None,
        is_fixed="FixedQParams" in type(inner).__name__,
        is_derived=hasattr(observer, "derive_qparams_fn"),
        is_symmetric="symmetric" in scheme,
        is_average=hasattr(inner, "averaging_constant"),
        least_step=0.0 if least is None else float(torch.as_tensor(least).max()),
        bins=int(getattr(inner, "bins", 0)),
    )


def compute_qparams_once(observer: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return an observer's scales and zero points, and let it keep them.

    ``HistogramObserver`` searches for them, for a tenth of a second and more; PT2E asks it once for
    each place that shares it, and once for each bias whose scale derives from it.
    """
    found = vars(observer).get("calculate_qparams")
    if found is None:
        qparams = observer.calculate_qparams()
        observer.calculate_qparams = found = lambda: qparams
    scale, zero_point = found()
    return scale, zero_point


def choose_grid(observer: Any, values: torch.Tensor) -> Grid | None:
    """Return the grid that a quantizer with dynamic scales chooses for a tensor.

    The grid just covers the tensor's values and zero, as ``choose_qparams`` and
    ``choose_qparams_symmetric`` of PT2E choose it: the scale is computed in the tensor's dtype.

    Returns:
        None where the scale is not chosen at run time.
    """
    if not getattr(observer, "is_dynamic", False):
        return None
    low, high = int(observer.quant_min), int(observer.quant_max)
    is_symmetric = "symmetric" in str(getattr(observer, "qscheme", ""))
    eps = float(torch.as_tensor(getattr(observer, "eps", torch.finfo(torch.float32).eps)))
    least, most = torch.cat([values.flatten(), values.new_zeros(1)]).aminmax()
    if is_symmetric:
        scale = torch.maximum(-least, most) / (float(high - low) / 2)
    else:
        scale = (most - least) / float(high - low)
    scale, least = scale.float().clamp(min=eps).reshape(1), least.float()
    middle = torch.zeros(1, dtype=torch.int64)
    zero_point = middle if is_symmetric else (low - torch.round(least / scale)).clamp(low, high)
    return Grid(scale, zero_point.long(), low, high, is_symmetric=is_symmetric)
