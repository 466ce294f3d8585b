"""Execute an MLX payload as a delegate, with tensors passed as in ``MLXBackend.cpp``."""

from __future__ import annotations

import functools
import math
from typing import Any

import mlx.core as mx
import numpy
import torch

from backends.mlx.execution.cache import CacheConfig, SequenceCache
from backends.mlx.execution.executor import MlxExecutor, Observer
from backends.mlx.execution.kernels.base import DTYPES, to_mlx_dtype
from backends.mlx.payload import reader
from backends.mlx.payload.graph import MlxGraph, MlxSlot, SlotKind
from harness import ProgramError
from harness.backend_api import (
    DelegateHandle,
    DelegateLoader,
    DelegatePayload,
    Program,
    torch_dtype,
)

_DTYPES = {torch_dtype(scalar_type): dtype for scalar_type, dtype in DTYPES.items()}


def make_loader(program: Program) -> DelegateLoader:
    """Make the loader of a program's delegates; they share the cache that the program declares."""
    return functools.partial(load, cache=make_cache(program))


def make_cache(program: Program) -> SequenceCache | None:
    """Make an empty cache of the layout that a program declares; None if it declares none."""
    config = CacheConfig.from_program(program)
    return SequenceCache(config) if config else None


def load(delegate: DelegatePayload, cache: SequenceCache | None = None) -> DelegateHandle:
    """Read the payload, load its constants and return a function that executes it.

    Raises:
        ProgramError: the payload is malformed, or its init chain fails.
        UnsupportedProgram: the payload has a node that cannot be executed here.
    """
    return make_handle(make_executor(delegate, cache))


def make_executor(
    delegate: DelegatePayload, cache: SequenceCache | None = None, **options: Any
) -> MlxExecutor:
    """Make the executor of a payload; it takes MLX arrays.

    Args:
        delegate: the payload.
        cache: the key-value cache; by default a program that needs one gets flat layers.
        options: further arguments of :class:`MlxExecutor`.
    """
    graph = reader.load(delegate.data)
    layers = [
        node.layer_id
        for chain in graph.chains
        for node in chain
        if node.kind == "UpdateAndAttendNode"
    ]
    if layers and cache is None:
        cache = SequenceCache(CacheConfig.from_layer_ids(layers))
    constants = [
        _from_bytes(constant.data, constant.shape, to_mlx_dtype(constant.scalar_type))
        for constant in reader.load_constants(graph, delegate.named_data)
    ]
    return MlxExecutor(graph, constants, cache=cache, **options)


def make_handle(program: MlxExecutor, observer: Observer | None = None) -> DelegateHandle:
    """Wrap an executor as the function that the interpreter calls.

    Args:
        program: the executor.
        observer: called after each instruction.
    """
    graph = program.graph
    inputs, outputs = len(graph.input_map), len(graph.output_map)

    def call(arguments: list[Any]) -> None:
        if len(arguments) != inputs + outputs:
            raise ProgramError(
                f"MLX program has {inputs} inputs and {outputs} outputs, the program passes "
                f"{len(arguments)} arguments"
            )
        given = [
            _argument(graph, place, slot, value)
            for place, (slot, value) in enumerate(zip(graph.input_map, arguments, strict=False))
        ]
        dtypes = [
            _DTYPES.get(planned.dtype) if isinstance(planned, torch.Tensor) else None
            for planned in arguments[inputs:]
        ]
        for place, result in enumerate(program(given, dtypes=dtypes, observer=observer)):
            if isinstance(result, mx.array):
                store(result, arguments[inputs + place], place)
            else:
                arguments[inputs + place] = result

    return call


def _argument(graph: MlxGraph, place: int, slot: MlxSlot, value: Any) -> mx.array | int:
    if slot.kind is not SlotKind.TENSOR:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ProgramError(f"MLX input {place} is {value!r}, expected an integer")
        return value
    if not isinstance(value, torch.Tensor):
        raise ProgramError(f"MLX input {place} is {value!r}, expected a tensor")
    # tensor_to_mlx in MLXBackend.cpp. It does not check sizes: ExecuTorch does, since it has the
    # largest shape of each input.
    if not value.is_contiguous():
        raise ProgramError(f"MLX input {place} is not contiguous: the runtime refuses it")
    if value.dtype not in _DTYPES:
        raise ProgramError(f"MLX input {place}: {value.dtype} has no MLX dtype")
    meta = graph.get_meta(slot.index)
    if meta is not None and _DTYPES[value.dtype] != to_mlx_dtype(meta.scalar_type):
        raise ProgramError(
            f"MLX input {place} is {value.dtype}, the program declares "
            f"{to_mlx_dtype(meta.scalar_type)}"
        )
    return to_mlx(value)


def to_mlx(tensor: torch.Tensor) -> mx.array:
    """Copy a contiguous tensor to an MLX array."""
    if tensor.dtype == torch.bfloat16:  # NumPy has no bfloat16: copy the bits
        return mx.view(mx.array(tensor.view(torch.uint16).numpy()), mx.bfloat16)
    return mx.array(tensor.numpy())


def to_torch(array: mx.array) -> torch.Tensor:
    """Copy an MLX array to a contiguous tensor."""
    if array.dtype == mx.bfloat16:
        flat = mx.view(mx.reshape(array, [-1]), mx.uint16)
        return torch.from_numpy(numpy.array(flat)).view(torch.bfloat16).reshape(array.shape)
    return torch.from_numpy(numpy.array(array))


def store(array: mx.array, tensor: Any, place: int) -> None:
    """Copy a result into the program's planned tensor (``write_output``).

    A planned tensor of another shape is resized to the result's.

    Raises:
        ProgramError: the result does not fit the planned tensor.
    """
    if not isinstance(tensor, torch.Tensor):
        raise ProgramError(f"MLX output {place} is a tensor, the program plans {tensor!r}")
    if array.ndim != tensor.dim():
        raise ProgramError(
            f"MLX output {place} has shape {array.shape}, the program plans {tuple(tensor.shape)}"
        )
    if tensor.dtype not in _DTYPES:
        raise ProgramError(f"MLX output {place}: {tensor.dtype} has no MLX dtype")
    result = to_torch(array)
    if result.shape != tensor.shape:
        if result.nbytes > tensor.untyped_storage().nbytes():
            raise ProgramError(
                f"MLX output {place} has shape {array.shape}, more than the program plans for it"
            )
        tensor.as_strided_(result.shape, result.stride())
    # Row-major whatever the planned dim order: the runtime copies the bytes.
    flat = tensor.as_strided(result.shape, result.stride())
    flat.copy_(result)


def _from_bytes(data: Any, shape: tuple[int, ...], dtype: mx.Dtype) -> mx.array:
    count = math.prod(shape)
    flat = numpy.frombuffer(data, dtype=numpy.uint8, count=count * dtype.size)
    if count == 0:
        return mx.zeros(shape, dtype)
    return mx.reshape(mx.view(mx.array(flat), dtype), shape)
