"""Scatters and ``slice_update``.

Definitions: docstrings in coremltools ``mil/ops/defs/iOS15..17/scatter_gather.py`` and
``iOS18/tensor_transformation.py``. The default mode is ``add``, which ``default_inputs`` sets; the
docstring of ``scatter`` alone says ``update``. Values: torch's scatters in the dtype of ``data``,
which apply repeated indices in their order.
"""

from __future__ import annotations

from typing import Any

import torch

from backends.coreml.kernels.base import (
    Scalar,
    check_allocation,
    move_elements,
    normalize_axis,
    register_kernel,
)
from backends.coreml.kernels.movement.indexing import (
    Slices,
    check_options,
    check_same_sizes,
    resolve_indices,
    resolve_places,
)
from harness import ProgramError, UnsupportedProgram

_Number = torch.Tensor | Scalar

_REDUCTIONS = {"mul": "prod", "div": "prod", "max": "amax", "min": "amin"}


def _number_elements(data: torch.Tensor) -> torch.Tensor:
    """Return the place of each element in the flat tensor, in the shape of the tensor."""
    check_allocation(data.shape, torch.int64)
    return torch.arange(data.numel()).reshape(data.shape)


def _apply(
    data: torch.Tensor, places: torch.Tensor, updates: torch.Tensor, mode: str
) -> torch.Tensor:
    """Update the elements of ``data`` at flat places."""
    if places.shape != updates.shape:
        raise ProgramError(f"updates {list(updates.shape)}, expected {list(places.shape)}")
    if updates.dtype != data.dtype:
        raise ProgramError(f"updates of {updates.dtype} for data of {data.dtype}")
    where, values, flat = places.reshape(-1), updates.reshape(-1), data.reshape(-1)
    if mode == "update":
        result = flat.scatter(0, where, values)
    elif mode in ("add", "sub"):
        result = flat.scatter_add(0, where, values if mode == "add" else -values)
    elif mode not in _REDUCTIONS:
        raise ProgramError(f"unknown mode {mode!r}")
    elif mode == "div":
        if not data.is_floating_point():
            raise UnsupportedProgram("division of integers has no documented rounding")
        divisors = torch.ones_like(flat).scatter_reduce(0, where, values, "prod")
        result = flat / divisors
    else:
        result = flat.scatter_reduce(0, where, values, _REDUCTIONS[mode])
    return result.reshape(data.shape)


@register_kernel("scatter")
def scatter(
    data: torch.Tensor,
    indices: torch.Tensor | Scalar,
    updates: torch.Tensor,
    axis: _Number = 0,
    mode: str = "add",
    validate_indices: bool | None = None,
) -> torch.Tensor:
    """Update slices along an axis."""
    number = normalize_axis(axis, data.dim())
    where = resolve_indices(indices, data.shape[number], validate_indices)
    shape = [*data.shape[:number], *where.shape, *data.shape[number + 1 :]]
    if list(updates.shape) != shape:
        raise ProgramError(f"updates {list(updates.shape)}, expected {shape}")
    places = torch.index_select(_number_elements(data), number, where.reshape(-1))
    return _apply(data, places.reshape(shape), updates, mode)


@register_kernel("scatter_along_axis")
def scatter_along_axis(
    data: torch.Tensor,
    indices: torch.Tensor,
    updates: torch.Tensor,
    axis: _Number = 0,
    mode: str = "add",
    validate_indices: bool | None = None,
) -> torch.Tensor:
    """Update elements along an axis; the sizes of other axes are equal."""
    number = normalize_axis(axis, data.dim())
    check_same_sizes(data, indices, number)
    where = resolve_indices(indices, data.shape[number], validate_indices)
    return _apply(data, torch.gather(_number_elements(data), number, where), updates, mode)


@register_kernel("scatter_nd")
def scatter_nd(
    data: torch.Tensor,
    indices: torch.Tensor,
    updates: torch.Tensor,
    mode: str = "add",
    validate_indices: bool | None = None,
) -> torch.Tensor:
    """Update slices at positions in the last axis of ``indices``."""
    where = resolve_places(indices, data.shape, validate_indices)
    shape = [*indices.shape[:-1], *data.shape[len(where) :]]
    if list(updates.shape) != shape:
        raise ProgramError(f"updates {list(updates.shape)}, expected {shape}")
    return _apply(data, _number_elements(data)[tuple(where)], updates, mode)


@register_kernel("slice_update")
def slice_update(
    x: torch.Tensor, update: torch.Tensor, begin: Any, end: Any, **options: Any
) -> torch.Tensor:
    """Replace a slice; arguments are those of ``slice_by_index``, and shapes are equal."""
    check_options(options)
    slices = Slices(x.shape, begin, end, **options)
    shape = [len(kept) for kept in slices.ranges]
    kept_shape = [n for axis, n in enumerate(shape) if axis not in slices.squeezed]
    if list(update.shape) != kept_shape or update.dtype != x.dtype:
        raise ProgramError(
            f"an update {list(update.shape)} of {update.dtype} for a slice {kept_shape} of "
            f"{x.dtype}"
        )
    values = update.reshape(shape)
    if all(kept.step > 0 for kept in slices.ranges):
        result = x.clone(memory_format=torch.contiguous_format)
        slices.take(result).copy_(values)
        return result
    places = slices.take(_number_elements(x)).reshape(-1)
    return move_elements(_replace, x, values, places=places)


def _replace(x: torch.Tensor, values: torch.Tensor, *, places: torch.Tensor) -> torch.Tensor:
    return x.reshape(-1).scatter(0, places, values.reshape(-1)).reshape(x.shape)
