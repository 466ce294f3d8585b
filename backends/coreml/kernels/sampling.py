"""Sampling of images at boxes and at coordinates.

Definitions: docstrings in coremltools ``mil/ops/defs/iOS15..17/image_resizing.py``;
``SamplingMode`` in NeuralNetwork.proto says how the grids of ``resize_bilinear`` apply to the
interval of a box. Values: interpolation in float32, rounded once to the dtype of ``x``;
coordinates in float32 by the formulas of torch's ``grid_sampler``, whose halves are rounded to
even for the nearest element.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

from backends.coreml.kernels.base import (
    Scalar,
    check_allocation,
    register_kernel,
    to_int,
    to_number,
)
from backends.coreml.kernels.movement.indexing import resolve_indices
from backends.coreml.kernels.resizing import interpolate, make_grid
from harness import ProgramError

_Number = torch.Tensor | Scalar

# Places of first row, first column, last row and last column; a center and a size for CENTER.
_BOXES = {
    "CORNERS_HEIGHT_FIRST": (0, 1, 2, 3),
    "CORNERS_WIDTH_FIRST": (1, 0, 3, 2),
    "CENTER_SIZE_HEIGHT_FIRST": (0, 1, 2, 3),
    "CENTER_SIZE_WIDTH_FIRST": (1, 0, 3, 2),
}


@register_kernel("crop_resize")
def crop_resize(
    x: torch.Tensor,
    roi: torch.Tensor | None = None,
    boxes: torch.Tensor | None = None,
    box_indices: torch.Tensor | None = None,
    target_height: _Number = 1,
    target_width: _Number = 1,
    pad_value: _Number = 0.0,
    **options: Any,
) -> torch.Tensor:
    """Interpolate boxes of images at a grid.

    Args:
        x: [B, C, H, W].
        roi: before iOS 17: [N, 1, 4, 1, 1] for each image, or [N, 1, 5, 1, 1], image first.
        boxes: since iOS 17: [N, 4].
        box_indices: image of each box, by default image i for box i.
        target_height: rows of a result.
        target_width: columns of a result.
        pad_value: value outside of the image.
        **options: ``normalized_coordinates``, ``spatial_scale``, ``box_coordinate_mode`` and
            ``sampling_mode``.

    Returns:
        [N, B or 1, C, rows, columns]; since iOS 17 [N, C, rows, columns].
    """
    counts = to_int(target_height), to_int(target_width)
    if min(counts) < 1 or x.dim() != 4 or (roi is None) == (boxes is None):
        raise ProgramError(f"boxes of {list(x.shape)} to {counts}")
    table, images, outer = _read_boxes(x, roi, boxes, box_indices)
    places = resolve_indices(images, x.shape[0], validate=True).reshape(-1)
    if len(places) != len(table):
        raise ProgramError(f"{len(places)} box_indices for {len(table)} boxes")
    shape = [*outer, x.shape[1], *counts]
    check_allocation(shape, torch.float32)
    source, fill = x.to(torch.float32), float(to_number(pad_value))
    patches = [
        _sample_box(source[image], _make_box_grids(x, box, counts, **options), fill)
        for image, box in zip(places.tolist(), table.tolist(), strict=True)
    ]
    return torch.cat(patches or [source.new_empty(0)]).reshape(shape).to(x.dtype)


def _read_boxes(
    x: torch.Tensor,
    roi: torch.Tensor | None,
    boxes: torch.Tensor | None,
    box_indices: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
    """Return boxes [N, 4], their images [N], and the first sizes of the result."""
    if boxes is not None:
        table = boxes.to(torch.float64).reshape(-1, 4)
        images = torch.arange(len(table)) if box_indices is None else box_indices
        return table, images, [len(table)]
    assert roi is not None
    table = roi.to(torch.float64).reshape(roi.shape[0], -1)
    if table.shape[1] == 5:
        return table[:, 1:], table[:, 0].to(torch.int64), [len(table), 1]
    if table.shape[1] != 4:
        raise ProgramError(f"roi {list(roi.shape)}")
    images = torch.arange(x.shape[0]).repeat(len(table))
    return table.repeat_interleave(x.shape[0], 0), images, [len(table), x.shape[0]]


def _make_box_grids(
    x: torch.Tensor,
    box: list[float],
    counts: tuple[int, int],
    normalized_coordinates: bool = False,
    spatial_scale: _Number = 1.0,
    box_coordinate_mode: str = "CORNERS_HEIGHT_FIRST",
    sampling_mode: str = "DEFAULT",
) -> list[torch.Tensor]:
    """Return the positions of samples for a box: of rows, then of columns."""
    if box_coordinate_mode not in _BOXES or not all(map(math.isfinite, box)):
        raise ProgramError(f"a box {box} with box_coordinate_mode {box_coordinate_mode!r}")
    grids = []
    numbers = [
        box[place] * float(to_number(spatial_scale)) for place in _BOXES[box_coordinate_mode]
    ]
    for axis, count in enumerate(counts):
        first, last = numbers[axis], numbers[axis + 2]
        if box_coordinate_mode.startswith("CENTER"):
            first, last = first - last / 2, first + last / 2
        if normalized_coordinates:
            first, last = (value * (x.shape[2 + axis] - 1) for value in (first, last))
        grid = first + make_grid(sampling_mode, last - first, count)
        # A rounding error must not move the last sample out of the image.
        grids.append(grid.clamp(min(first, last), max(first, last)))
    return grids


def _sample_box(image: torch.Tensor, grids: list[torch.Tensor], fill: float) -> torch.Tensor:
    """Interpolate an image [C, H, W] at rows and columns; outside of it, use ``fill``."""
    result = image
    for axis in (2, 1):
        inside = grids[axis - 1].clamp(0, image.shape[axis] - 1)
        result = interpolate(result, axis, inside)
    rows, columns = (
        (grid < 0) | (grid > image.shape[axis] - 1) for axis, grid in enumerate(grids, 1)
    )
    return result.masked_fill(rows.unsqueeze(-1) | columns, fill)


def _to_pixels(points: torch.Tensor, size: int, mode: str, align: bool) -> torch.Tensor:
    """Return coordinates as pixels, of which the first one is 0."""
    if mode == "unnormalized":
        return points
    if mode == "normalized_minus_one_to_one":
        return (points + 1) / 2 * (size - 1) if align else ((points + 1) * size - 1) / 2
    if mode == "normalized_zero_to_one":
        return points * (size - 1) if align else points * size - 0.5
    raise ProgramError(f"unknown coordinates_mode {mode!r}")


def _pad_pixels(points: torch.Tensor, size: int, mode: str) -> torch.Tensor:
    """Move pixels outside of an axis to the element that its padding repeats."""
    if mode in ("reflection", "symmetric"):
        # Symmetric padding repeats the border: it is reflected half a pixel outside.
        low, span = (0.0, size - 1) if mode == "reflection" else (-0.5, size)
        distance = (points - low).abs()
        if span:
            rest = torch.fmod(distance, span)
            is_even = torch.floor(distance / span) % 2 == 0
            points = torch.where(is_even, rest, span - rest) + low
        else:
            points = torch.zeros_like(points)
    elif mode not in ("border", "constant"):
        raise ProgramError(f"unknown padding_mode {mode!r}")
    if mode == "constant":
        return torch.nan_to_num(points, nan=-2.0).clamp(-2, size + 1)
    return torch.nan_to_num(points).clamp(0, size - 1)


def _sample_points(
    x: torch.Tensor, columns: torch.Tensor, rows: torch.Tensor, sampling_mode: str, fill: float
) -> torch.Tensor:
    """Sample ``x`` [B, C, H, W] at pixels [B, H2, W2]; elements outside of it are ``fill``."""
    batch, channels, height, width = x.shape
    flat = x.to(torch.float32).reshape(batch, channels, height * width)

    def take(column: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
        place = torch.where(inside, row * width + column, 0).to(torch.int64)
        wide = place.reshape(batch, 1, -1).expand(-1, channels, -1)
        taken = torch.gather(flat, 2, wide).reshape(batch, channels, *place.shape[1:])
        return torch.where(inside.unsqueeze(1), taken, fill)

    if sampling_mode == "nearest":
        return take(torch.round(columns), torch.round(rows)).to(x.dtype)
    if sampling_mode != "bilinear":
        raise ProgramError(f"unknown sampling_mode {sampling_mode!r}")
    left, top = torch.floor(columns), torch.floor(rows)
    right, down = (columns - left).unsqueeze(1), (rows - top).unsqueeze(1)
    result = (
        take(left, top) * (1 - right) * (1 - down)
        + take(left + 1, top) * right * (1 - down)
        + take(left, top + 1) * (1 - right) * down
        + take(left + 1, top + 1) * right * down
    )
    return result.to(x.dtype)


@register_kernel("resample")
def resample(
    x: torch.Tensor,
    coordinates: torch.Tensor,
    sampling_mode: str,
    padding_mode: str,
    padding_value: _Number,
    coordinates_mode: str,
    align_corners: bool,
) -> torch.Tensor:
    """Sample images [B, C, H, W] at coordinates [B, H2, W2, 2], x first."""
    if x.dim() != 4 or coordinates.dim() != 4 or not x.numel():
        raise ProgramError(f"coordinates {list(coordinates.shape)} for {list(x.shape)}")
    if coordinates.shape[0] != x.shape[0] or coordinates.shape[3] != 2:
        raise ProgramError(f"coordinates {list(coordinates.shape)} for {list(x.shape)}")
    check_allocation([*x.shape[:2], *coordinates.shape[1:3]], torch.float64)
    points = coordinates.to(torch.float32).unbind(-1)
    columns, rows = (
        _pad_pixels(_to_pixels(axis, size, coordinates_mode, align_corners), size, padding_mode)
        for axis, size in zip(points, (x.shape[3], x.shape[2]), strict=True)
    )
    return _sample_points(x, columns, rows, sampling_mode, float(to_number(padding_value)))


@register_kernel("affine")
def affine(
    x: torch.Tensor,
    transform_matrix: torch.Tensor,
    output_height: _Number,
    output_width: _Number,
    align_corners: bool,
    sampling_mode: str,
    padding_mode: str,
    padding_value: _Number,
    coordinates_mode: str,
) -> torch.Tensor:
    """Sample images [B, C, H, W] at an affine transform of the output's coordinates.

    Args:
        x: the images.
        transform_matrix: [B or 1, 6]: x' = a0 x + a1 y + a2, y' = b0 x + b1 y + b2.
        output_height: rows of the result.
        output_width: columns of the result.
        align_corners: whether -1 and 1 are the centers of the outer pixels.
        sampling_mode: as for ``resample``.
        padding_mode: as for ``resample``.
        padding_value: value outside of the images.
        coordinates_mode: ``normalized_minus_one_to_one``.
    """
    size = [*x.shape[:2], to_int(output_height), to_int(output_width)]
    if x.dim() != 4 or transform_matrix.dim() != 2 or min(size) < 1:
        raise ProgramError(f"a transform {list(transform_matrix.shape)} of {list(x.shape)}")
    check_allocation(size, torch.float64)
    matrix = transform_matrix.to(torch.float32).expand(x.shape[0], 6).reshape(-1, 2, 3)
    grid = functional.affine_grid(matrix, size, align_corners=bool(align_corners))
    modes = [mode.lower() for mode in (sampling_mode, padding_mode, coordinates_mode)]
    if modes[2] != "normalized_minus_one_to_one":
        raise ProgramError(f"unknown coordinates_mode {coordinates_mode!r}")
    return resample(x, grid, modes[0], modes[1], padding_value, modes[2], align_corners)
