"""An MLX payload as a delegate: tensors in and out as ``MLXBackend.cpp`` hands them."""

from __future__ import annotations

import functools
import math
from typing import Any

import mlx.core as mx
import numpy
import torch

from backends.mlx.execution.cache import CacheConfig, SequenceCache
from backends.mlx.execution.executor import Executor, Observer
from backends.mlx.execution.kernels.base import DTYPES, dtype_of
from backends.mlx.payload import reader
from backends.mlx.payload.graph import Graph, Slot, SlotKind
from harness import (
    DelegateHandle,
    DelegateLoader,
    DelegatePayload,
    Program,
    ProgramError,
    torch_dtype,
)

_DTYPES = {torch_dtype(scalar_type): dtype for scalar_type, dtype in DTYPES.items()}


def loader(program: Program) -> DelegateLoader:
    """Loads the delegates of one program; they share the cache whose layout it publishes."""
    return functools.partial(load, cache=cache_of(program))


def cache_of(program: Program) -> SequenceCache | None:
    """An empty cache of the layout that a program publishes, if it does."""
    config = CacheConfig.of_program(program)
    return SequenceCache(config) if config else None


def load(delegate: DelegatePayload, cache: SequenceCache | None = None) -> DelegateHandle:
    """Read the payload, load its constants and return its executor.

    Raises:
        ProgramError: the payload is malformed, or its init chain fails.
        UnsupportedProgram: it holds a node that cannot be executed here.
    """
    return handle(executor(delegate, cache))


def executor(
    delegate: DelegatePayload, cache: SequenceCache | None = None, **options: Any
) -> Executor:
    """The payload's program with its constants, ready to be called with MLX arrays.

    Without a cache given, a program that asks for one gets flat layers of its own. The options
    are the executor's.
    """
    graph = reader.load(delegate.data)
    layers = [
        node.layer_id
        for chain in graph.chains
        for node in chain
        if node.kind == "UpdateAndAttendNode"
    ]
    if layers and cache is None:
        cache = SequenceCache(CacheConfig.inferred(layers))
    constants = [
        _from_bytes(constant.data, constant.shape, dtype_of(constant.scalar_type))
        for constant in reader.constants(graph, delegate.named_data)
    ]
    return Executor(graph, constants, cache=cache, **options)


def handle(program: Executor, observer: Observer | None = None) -> DelegateHandle:
    """A loaded program as the interpreter calls it; the observer sees every instruction."""
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


def _argument(graph: Graph, place: int, slot: Slot, value: Any) -> mx.array | int:
    if slot.kind is not SlotKind.TENSOR:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ProgramError(f"MLX input {place} is {value!r}, expected an integer")
        return value
    if not isinstance(value, torch.Tensor):
        raise ProgramError(f"MLX input {place} is {value!r}, expected a tensor")
    # tensor_to_mlx in MLXBackend.cpp. It compares no sizes: what a program takes is for
    # ExecuTorch to hold, which knows the largest shape of each of its inputs.
    if not value.is_contiguous():
        raise ProgramError(f"MLX input {place} is not contiguous: the runtime refuses it")
    if value.dtype not in _DTYPES:
        raise ProgramError(f"MLX input {place}: {value.dtype} has no MLX dtype")
    meta = graph.declared(slot.index)
    if meta is not None and _DTYPES[value.dtype] != dtype_of(meta.scalar_type):
        raise ProgramError(
            f"MLX input {place} is {value.dtype}, the program expects {dtype_of(meta.scalar_type)}"
        )
    return to_mlx(value)


def to_mlx(tensor: torch.Tensor) -> mx.array:
    """A copy of a contiguous tensor as an MLX array."""
    if tensor.dtype == torch.bfloat16:  # NumPy has none: it travels as its bits
        return mx.view(mx.array(tensor.view(torch.uint16).numpy()), mx.bfloat16)
    return mx.array(tensor.numpy())


def to_torch(array: mx.array) -> torch.Tensor:
    """A copy of an MLX array as a contiguous tensor."""
    if array.dtype == mx.bfloat16:
        flat = mx.view(mx.reshape(array, [-1]), mx.uint16)
        return torch.from_numpy(numpy.array(flat)).view(torch.bfloat16).reshape(array.shape)
    return torch.from_numpy(numpy.array(array))


def store(array: mx.array, tensor: Any, place: int) -> None:
    """Write a result into the tensor that the program planned for it (``write_output``).

    A tensor of another shape takes the result's.

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
    # Row by row whatever the planned dim order says: the runtime copies the bytes.
    flat = tensor.as_strided(result.shape, result.stride())
    flat.copy_(result)


def _from_bytes(data: Any, shape: tuple[int, ...], dtype: mx.Dtype) -> mx.array:
    count = math.prod(shape)
    flat = numpy.frombuffer(data, dtype=numpy.uint8, count=count * dtype.size)
    if count == 0:
        return mx.zeros(shape, dtype)
    return mx.reshape(mx.view(mx.array(flat), dtype), shape)
