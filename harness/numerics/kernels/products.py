"""Compute float64 products with the fastest kernel and number of threads.

torch computes float64 convolutions as matrix products (im2col) with BLAS, as fast as a matrix
product. The exception is a depthwise convolution of a channels-last image, which takes four to
seven times as long as the same convolution of a contiguous image.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from harness.numerics.kernels.threads import ALL_THREADS_FROM, all_threads

_PRODUCTS = frozenset({"mm", "bmm", "addmm", "baddbmm", "convolution"})


def compute(func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a primitive operation; the result equals torch's up to rounding, with its strides.

    Args:
        func: the overload that is called.
        name: its base name.
        args: its arguments.
        kwargs: its arguments by name.
    """
    if name not in _PRODUCTS or func._schema.is_mutable:
        return func(*args, **kwargs)
    is_slow = name == "convolution" and _is_slow(args)
    if is_slow:
        args = (args[0].contiguous(), args[1].contiguous(), *args[2:])
    if _count_multiplications(name, args) >= ALL_THREADS_FROM:
        with all_threads():
            out = func(*args, **kwargs)
    else:
        out = func(*args, **kwargs)
    return out.contiguous(memory_format=torch.channels_last) if is_slow else out


def _is_slow(args: tuple[Any, ...]) -> bool:
    """Whether a convolution is slow because of its layout."""
    image, weight = args[:2]
    return (
        image.dim() == 4
        and image.dtype == torch.float64
        and args[8] > 1
        and weight.shape[1] == 1
        and not image.is_contiguous()
        and image.is_contiguous(memory_format=torch.channels_last)
    )


def _count_multiplications(name: str, args: tuple[Any, ...]) -> int:
    """Return the approximate number of multiplications of a product."""
    if name == "convolution":
        image, weight = args[:2]
        # Each element of the weight is applied once at each position of the result, per image.
        strides = 1 if args[6] else math.prod(args[3])
        return int(weight.numel() * image.shape[0] * math.prod(image.shape[2:]) // strides)
    left, right = args[-2:] if name in ("mm", "bmm") else args[1:3]
    return int(left.numel() * right.shape[-1])
