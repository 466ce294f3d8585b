"""Kernels that create tensors: constants, ranges, triangles, random bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy

from backends.mlx.execution.kernels.base import (
    Builder,
    Step,
    check_allocation,
    make_float_reader,
    make_int_reader,
    make_ints_reader,
    to_mlx_dtype,
)
from backends.mlx.payload.graph import Node
from harness import ProgramError


def _filled(shape: Sequence[int], value: float, dtype: mx.Dtype) -> mx.array:
    # Through float32, as in the runtime. With an array, mx.full ignores its dtype argument.
    return mx.full(shape, mx.array(value, mx.float32).astype(dtype))


def full(node: Node) -> Step:
    """Fill a new tensor with a value. The runtime rejects dimensions of size 0."""
    out, shape, value, dtype = (
        node.out,
        make_ints_reader(node.shape),
        make_float_reader(node.v),
        node.scalar_type,
    )
    wanted = to_mlx_dtype(dtype)

    def step(t: list[Any], v: list[Any]) -> None:
        sizes = shape(v)
        check_allocation(sizes, wanted)
        t[out] = _filled(sizes, value(v), wanted)

    return step


def full_like(node: Node) -> Step:
    """Fill a new tensor with a value, in the shape and by default the dtype of another tensor."""
    x, out, value = node.x, node.out, make_float_reader(node.v)
    dtype = None if node.scalar_type is None else to_mlx_dtype(node.scalar_type)

    def step(t: list[Any], v: list[Any]) -> None:
        like = t[x]
        t[out] = _filled(like.shape, value(v), dtype or like.dtype)

    return step


def arange(node: Node) -> Step:
    """Create a range from start to before stop; int32 by default; never empty."""
    out = node.out
    start, stop, stride = (
        make_int_reader(node.start),
        make_int_reader(node.stop),
        make_int_reader(node.step),
    )
    dtype = mx.int32 if node.scalar_type is None else to_mlx_dtype(node.scalar_type)

    def step(t: list[Any], v: list[Any]) -> None:
        first, last, by = start(v), stop(v), stride(v)
        if by == 0:
            raise ProgramError("a range cannot have a step of 0")
        check_allocation([len(range(first, last, by))], dtype)
        t[out] = mx.arange(first, last, by, dtype=dtype)

    return step


def tri(node: Node) -> Step:
    """Create a matrix with ones at and below the k-th diagonal."""
    out, k, dtype = node.out, node.k, to_mlx_dtype(node.scalar_type)
    rows, columns = make_int_reader(node.n), make_int_reader(node.m)

    def step(t: list[Any], v: list[Any]) -> None:
        shape = [rows(v), columns(v)]
        check_allocation(shape, dtype)
        t[out] = mx.tri(shape[0], shape[1], k, dtype=dtype)

    return step


_BITS = {1: numpy.uint8, 2: numpy.uint16, 4: numpy.uint32}


def random_bits(node: Node) -> Step:
    """Create uniform bits from a seed, or from MLX's global key sequence without one."""
    out, width, shape = node.out, node.width, make_ints_reader(node.shape)
    seed = None if node.seed is None else make_int_reader(node.seed)

    def step(t: list[Any], v: list[Any]) -> None:
        sizes = shape(v)
        check_allocation(sizes, mx.uint32)
        # The seed is an int32 that the runtime widens to uint64, sign included.
        key = _next_key() if seed is None else mx.random.key(seed(v) % 2**64)
        words = numpy.array(key)
        count = int(numpy.prod(sizes, dtype=numpy.int64))
        stream = threefry((int(words[0]), int(words[1])), -(-count * width // 4))
        t[out] = mx.array(stream.view(_BITS[width])[:count].reshape(sizes))

    return step


def _next_key() -> mx.array:
    """Return the next of MLX's global keys (``KeySequence::next`` in ``mlx/random.cpp``).

    The sequence cannot be assigned to; drawing from it is what advances it.
    """
    state: Any = mx.random.state
    key: mx.array = mx.random.split(state[0])[1]
    mx.random.uniform(shape=[0])
    return key


_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry(key: tuple[int, int], words: int) -> numpy.ndarray[Any, Any]:
    """Compute the words of ``mx::random::bits``: Threefry-2x32, 20 rounds (Salmon et al., 2011).

    MLX hashes pairs of counters (i, i + ceil(words/2)) and puts the two results at those places;
    the middle word of an odd count comes from (i, 0) (``RandomBits::eval_cpu``).

    Args:
        key: two uint32.
        words: how many uint32 to make.
    """
    half = words // 2
    odd = words % 2
    first = numpy.arange(half + odd, dtype=numpy.uint32)
    second = first + numpy.uint32(half + odd)
    if odd:
        second[half] = 0
    keys = [numpy.uint32(k) for k in (*key, key[0] ^ key[1] ^ 0x1BD11BDA)]
    first, second = first + keys[0], second + keys[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            first = first + second
            second = (second << numpy.uint32(rotation)) | (second >> numpy.uint32(32 - rotation))
            second = second ^ first
        first = first + keys[(group + 1) % 3]
        second = second + keys[(group + 2) % 3] + numpy.uint32(group + 1)
    return numpy.concatenate([first, second[:half]])


BUILDERS: dict[str, Builder] = {
    "ARangeNode": arange,
    "FullLikeNode": full_like,
    "FullNode": full,
    "RandomBitsNode": random_bits,
    "TriNode": tri,
}
