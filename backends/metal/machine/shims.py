"""The runtime's functions for memory and tensor attributes, on the CPU.

Each takes the arguments of the C function without its result pointers, and returns the results. The
contract reports calls that the runtime refuses; here they have the effect that the generated code
intends. Sources: ``backends/apple/metal/runtime/shims/memory.cpp`` and ``tensor_attribute.cpp``,
``backends/aoti/common_shims.cpp``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from backends.metal.contract.layout import is_packed, row_major
from backends.metal.cpp.syntax import WrapperError
from backends.metal.machine import memory
from backends.metal.machine.memory import CPU, DTYPES, MPS, Storage, Tensor


class BadCall(WrapperError):
    """A call with invalid arguments."""


def _dtype(code: int) -> torch.dtype:
    if code not in DTYPES:
        raise BadCall(f"no dtype has number {code}")
    return DTYPES[code]


def _layout(
    ndim: int, sizes: Sequence[int] | None, strides: Sequence[int] | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape = tuple(sizes or ())[:ndim]
    steps = row_major(shape) if strides is None else tuple(strides)[:ndim]
    if len(shape) != ndim or len(steps) != ndim:
        raise BadCall(f"{ndim} dimensions do not fit sizes {sizes} and strides {strides}")
    return shape, steps


def empty_strided(
    ndim: int,
    sizes: Sequence[int] | None,
    strides: Sequence[int] | None,
    dtype: int,
    device: int,
    device_index: int,
) -> Tensor:
    """Make a tensor in a new buffer."""
    return memory.empty(*_layout(ndim, sizes, strides), _dtype(dtype), device)


def create_tensor_from_blob_v2(
    data: Storage,
    ndim: int,
    sizes: Sequence[int] | None,
    strides: Sequence[int] | None,
    storage_offset: int,
    dtype: int,
    device: int,
    device_index: int,
    layout: int,
    opaque_metadata: None,
    opaque_metadata_size: int,
) -> Tensor:
    """Make a tensor in memory of the caller."""
    element = _dtype(dtype)
    shape, steps = _layout(ndim, sizes, strides)
    whole = Tensor(data, 0, element, (0,), (1,), origin="constant")
    return whole.view(shape, steps, storage_offset)


def reinterpret_tensor(
    self: Tensor, ndim: int, sizes: Sequence[int] | None, strides: Sequence[int] | None, offset: int
) -> Tensor:
    """Make a view where the runtime can, else a contiguous copy of the current values."""
    shape, steps = _layout(ndim, sizes, strides)
    view = self.view(shape, steps, offset)
    if is_packed(shape, steps):
        return view
    copied = memory.empty(shape, row_major(shape), self.dtype)
    copied.torch.copy_(view.torch)
    return dataclasses.replace(copied, meant=view.meaning, origin=self.origin, original=view)


def new_tensor_handle(self: Tensor) -> Tensor:
    """Make another handle to the same tensor."""
    return dataclasses.replace(self)


def copy_(self: Tensor, src: Tensor, non_blocking: int) -> None:
    """Copy elements; the sizes may differ if the number of elements is equal."""
    if self.numel != src.numel:
        raise BadCall(f"{src} is copied to {self}: {src.numel} elements to {self.numel}")
    # The runtime compares strides alone; (4, 1, 5) and (4, 5) with equal strides pass.
    source = src.torch
    self.torch.copy_(source if self.sizes == src.sizes else source.reshape(self.sizes))


def clone_preserve_strides(self: Tensor) -> Tensor:
    """Copy to a new buffer with the same strides, including holes."""
    copied = memory.empty(self.sizes, self.strides, self.dtype, self.device)
    copied.torch.copy_(self.torch)
    return copied


def clone(self: Tensor) -> Tensor:
    """Copy to a new buffer, with the same strides if they are dense."""
    return Tensor.share(self.torch.clone(), self.device)


def as_strided(
    self: Tensor, sizes: Sequence[int], size: int, strides: Sequence[int], stride: int
) -> Tensor:
    """Make a view."""
    return self.view(tuple(sizes)[:size], tuple(strides)[:stride])


def view_dtype(self: Tensor, dtype: int) -> Tensor:
    """Reinterpret the bytes as another type of the same width."""
    return Tensor.share(self.torch.view(_dtype(dtype)), self.device)


def assign_tensors_out(self: Tensor) -> Tensor:
    """Make another handle to the same tensor."""
    return new_tensor_handle(self)


def _zero_(self: Tensor) -> None:
    self.torch.zero_()


def _item(self: Tensor) -> int | float | bool:
    if self.numel != 1:
        raise BadCall(f"the call reads the value of {self}, which has {self.numel} elements")
    value: int | float | bool = self.torch.item()
    return value


_ITEMS = "float32 float64 float16 bfloat16 int8 int16 int32 int64 uint8 bool".split()

SHIMS: Mapping[str, Callable[..., Any]] = {
    "aoti_torch_empty_strided": empty_strided,
    "aoti_torch_create_tensor_from_blob_v2": create_tensor_from_blob_v2,
    "aoti_torch__reinterpret_tensor": reinterpret_tensor,
    "aoti_torch_new_tensor_handle": new_tensor_handle,
    "aoti_torch_assign_tensors_out": assign_tensors_out,
    "aoti_torch_delete_tensor_object": lambda self: None,
    "aoti_torch_copy_": copy_,
    "aoti_torch_zero_": _zero_,
    "aoti_torch_clone": clone,
    "aoti_torch_clone_preserve_strides": clone_preserve_strides,
    "aoti_torch_as_strided": as_strided,
    "aoti_torch_mps_view_dtype": view_dtype,
    "aoti_torch_get_data_ptr": lambda self: self.address,
    "aoti_torch_get_sizes": lambda self: self.sizes,
    "aoti_torch_get_strides": lambda self: self.strides,
    "aoti_torch_get_size": lambda self, dim: self.sizes[dim],
    "aoti_torch_get_stride": lambda self, dim: self.strides[dim],
    "aoti_torch_get_storage_offset": lambda self: 0,
    "aoti_torch_get_dim": lambda self: len(self.sizes),
    "aoti_torch_get_numel": lambda self: self.numel,
    "aoti_torch_get_dtype": lambda self: memory.CODES[self.dtype],
    # The runtime returns this for every tensor, also in host memory.
    "aoti_torch_get_device_type": lambda self: MPS,
    "aoti_torch_get_device_index": lambda self: 0,
    **{f"aoti_torch_item_{name}": _item for name in _ITEMS},
}
"""Implementations by the C function's name."""

NUMBERS: Mapping[str, int] = {
    "aoti_torch_device_type_cpu": CPU,
    "aoti_torch_device_type_mps": MPS,
    "aoti_torch_layout_strided": 0,
    "aoti_torch_grad_mode_is_enabled": 0,
    **{
        f"aoti_torch_dtype_{str(dtype).removeprefix('torch.')}": code
        for code, dtype in DTYPES.items()
    },
}
"""Functions that return a c10 number."""
