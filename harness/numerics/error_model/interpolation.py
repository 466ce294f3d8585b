"""Perturb interpolation: its coordinates and weights err as float32 arithmetic does.

A coordinate is ``scale * (i + 0.5) - 0.5``, or ``scale * i`` with aligned corners
(``area_pixel_compute_scale`` and ``area_pixel_compute_source_index`` in ATen's ``UpSample.h``).
The scale, the product and the difference round, each by at most ``u`` of the product. Where all
three are exact in float32, as for most factors of two, there is no error. A weight errs by the
error of its coordinate, and the result by that error times the difference of its neighbours.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from harness.numerics.error_model.terms import Args

DrawNoise = Callable[..., torch.Tensor]
"""Draws noise of up to the given amplitudes (``Noise.draw_uniform``)."""

_ROUNDINGS = 3
_UNIT = 2.0**-24
# Weights of taps at a distance up to 1, and from 1 to 2 (Keys 1981, with ATen's parameter -0.75).
_NEAR = (1.25, -2.25, 0.0, 1.0)
_FAR = (-0.75, 3.75, -6.0, 3.0)
# Largest sum of the absolute weights of a cubic, in the middle of its interval.
_CUBIC_GAIN = 1.375


@dataclass(frozen=True)
class Interpolation:
    """A perturbed interpolation before its sums are rounded.

    Attributes:
        values: float64, computed with perturbed coordinates.
        magnitude: the sum of absolute weights times absolute values, same shape; None where the
            interpolation copies values.
    """

    values: torch.Tensor
    magnitude: torch.Tensor | None


Interpolate: TypeAlias = Callable[[Any, Args, DrawNoise, float, float], Interpolation]
"""Computes an interpolation with perturbed coordinates and weights.

It takes an overload with output sizes; its arguments, floating tensors in float64; a function that
draws noise; the factor on the noise of nearest-neighbour modes, of which either side of a border
within that distance is taken; and the unit roundoff of the results.
"""


def _upsample(
    func: Any, args: Args, draw: DrawNoise, safety: float, unit: float, *, mode: str
) -> Interpolation:
    copies = mode.startswith("nearest")
    x, sizes = args[:2]
    align, scales = (False, args[2:]) if copies else (args[2], args[3:])
    values, magnitude = x, x.abs()
    for axis, size in enumerate(sizes):
        dim = axis + 2
        scale = scales[axis] if axis < len(scales) else None
        # Errors of two dimensions meet in every element; other rows keep them from cancelling.
        rows = (2 * axis, 2 * axis + 1)
        perturb = functools.partial(_draw_scaled, draw, safety if copies else 1.0, rows)
        index, weight = _compute_taps(x.shape[dim], size, mode, bool(align), scale, perturb, draw)
        values = _gather_taps(values, dim, index, weight)
        if not copies:
            magnitude = _gather_taps(magnitude, dim, index, weight.abs())
    return Interpolation(values, None if copies else magnitude)


def _draw_scaled(
    draw: DrawNoise, factor: float, rows: Sequence[int], size: torch.Tensor
) -> torch.Tensor:
    noise: torch.Tensor = draw(size, rows)
    return noise * factor


def _compute_taps(
    length: int,
    size: int,
    mode: str,
    align: bool,
    scale: float | None,
    draw_coordinate: DrawNoise,
    draw: DrawNoise,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the elements that each output reads along a dimension, and their weights.

    ``draw_coordinate`` draws errors of coordinates, ``draw`` errors of a cubic's weights.

    Returns:
        (taps, size), int64 and float64.
    """
    position = torch.arange(size, dtype=torch.float64)
    if align:
        step, offset = ((length - 1) / (size - 1) if size > 1 else 0.0), 0.0
    else:
        step = 1.0 / scale if scale else length / size
        offset = 0.0 if mode == "nearest" else 0.5
    product = step * (position + offset)
    source = product if align or mode.startswith("nearest") else product - 0.5
    exact = (_is_exact_in_float32(product)) & _is_exact_in_float32(source)
    exact &= _is_exact_in_float32(torch.tensor(step, dtype=torch.float64))
    source = source + draw_coordinate(torch.where(exact, 0.0, product.abs() * (_ROUNDINGS * _UNIT)))
    if mode.startswith("nearest"):
        index = source.floor().clamp(0, length - 1).long().unsqueeze(0)
        return index, torch.ones_like(index, dtype=torch.float64)
    if mode == "linear":
        source = source.clamp(0, length - 1)
        low = source.floor()
        part = source - low
        index = torch.stack([low, (low + 1).clamp_max(length - 1)]).long()
        return index, torch.stack([1 - part, part])
    low = source.floor()
    part = source - low
    index = torch.stack([low + tap for tap in (-1, 0, 1, 2)]).clamp(0, length - 1).long()
    near, near_error = _evaluate_horner(_NEAR, torch.stack([part, 1 - part]))
    far, far_error = _evaluate_horner(_FAR, torch.stack([part + 1, 2 - part]))
    weight = torch.stack([far[0], near[0], near[1], far[1]])
    error = torch.stack([far_error[0], near_error[0], near_error[1], far_error[1]])
    # From all rows: with two, the errors of all taps could cancel in every run.
    return index, weight + draw(error * _UNIT)


def _is_exact_in_float32(value: torch.Tensor) -> torch.Tensor:
    return value.float().double() == value


def _evaluate_horner(
    coefficients: Sequence[float], t: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Evaluate a polynomial; return it and its error in units of roundoff (Higham 2002, section
    5.1)."""
    value, error = torch.full_like(t, coefficients[0]), torch.zeros_like(t)
    for coefficient in coefficients[1:]:
        value = value * t
        error = error * t + value.abs()
        value = value + coefficient
        error = error + value.abs()
    return value, error


def _gather_taps(
    x: torch.Tensor, dim: int, index: torch.Tensor, weight: torch.Tensor
) -> torch.Tensor:
    shape = [1] * x.dim()
    shape[dim] = -1
    total = torch.zeros((), dtype=x.dtype)
    for at, factor in zip(index, weight, strict=True):
        total = total + x.index_select(dim, at) * factor.reshape(shape)
    return total


def _antialias(
    func: Any, args: Args, draw: DrawNoise, safety: float, unit: float, *, slope: float
) -> Interpolation:
    """Perturb an antialiased interpolation.

    Weights come from a triangle or a cubic, stretched by the scale and divided by their sum. A
    coordinate's error changes their sum by at most ``slope`` over the scale.
    """
    x, sizes = args[:2]
    values = func(*args)
    magnitude = func(x.abs(), *args[1:]).abs()
    if slope > 2:  # some weights are negative
        magnitude = magnitude.clamp_min(x.abs().mean((-1, -2), keepdim=True)) * _CUBIC_GAIN**2
    error = sum(
        _ROUNDINGS * _UNIT * length * slope / max(1.0, length / size)
        for length, size in zip(x.shape[2:], sizes, strict=True)
        if length != size
    )
    return Interpolation(values + draw(magnitude * error), magnitude)


def sample_grid(
    func: Any, args: Args, draw: DrawNoise, safety: float, unit: float
) -> Interpolation:
    """Perturb a grid sampler.

    Its coordinates, from -1 to 1, are computed in its own dtype (``grid_sampler_unnormalize`` in
    ATen's ``GridSampler.h``), all others in float32. The errors of ``((g + 1) * size - 1) / 2``, or
    of ``(g + 1) / 2 * (size - 1)``, are applied to the grid.
    """
    x, grid, mode = args[:3]
    sizes = torch.tensor(x.shape[:1:-1], dtype=torch.float64)  # the grid has the width first
    error = ((grid + 1).abs() + 1 / sizes) * (_ROUNDINGS * max(unit, _UNIT))
    copies = mode == 1
    moved = grid + draw(error) * (safety if copies else 1.0)
    values = func(x, moved, *args[2:])
    if copies:
        return Interpolation(values, None)
    magnitude = func(x.abs(), moved, *args[2:]).abs()
    if mode == 2:  # cubic: some weights are negative
        over = tuple(range(2, x.dim()))
        magnitude = x.abs().amax(over, keepdim=True).expand_as(values) * _CUBIC_GAIN**2
    return Interpolation(values, magnitude)


NEAREST: Interpolate = functools.partial(_upsample, mode="nearest")
NEAREST_EXACT: Interpolate = functools.partial(_upsample, mode="nearest_exact")
LINEAR: Interpolate = functools.partial(_upsample, mode="linear")
CUBIC: Interpolate = functools.partial(_upsample, mode="cubic")
ANTIALIASED_LINEAR: Interpolate = functools.partial(_antialias, slope=2.0)
ANTIALIASED_CUBIC: Interpolate = functools.partial(_antialias, slope=4.0)
