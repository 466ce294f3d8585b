"""Pooling.

Definitions: docstrings in coremltools ``mil/ops/defs/iOS15/pool.py``. Values: torch's pooling
where it has the padding (equal on both sides, at most half the kernel) and the dtype (no float16
in three dimensions); otherwise windows of the padded input, reduced by torch in float32.
``l2_pool`` is the square root of the sum of squares, as in Apple's documentation of
``MPSCNNPoolingL2Norm`` and ``BNNSPoolingFunctionL2Norm``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

from backends.coreml.kernels.base import check_allocation, register_kernel
from backends.coreml.kernels.convolution import pad_spatial, read_sizes, resolve_padding
from harness import ProgramError, UnsupportedProgram

_MAX_POOLS: dict[int, Callable[..., torch.Tensor]] = {
    1: functional.max_pool1d,
    2: functional.max_pool2d,
    3: functional.max_pool3d,
}
_AVERAGE_POOLS: dict[int, Callable[..., torch.Tensor]] = {
    1: functional.avg_pool1d,
    2: functional.avg_pool2d,
    3: functional.avg_pool3d,
}


class Window:
    """Windows of a pooling: kernel, strides, padding and sizes of the result.

    Attributes:
        kernel: sizes of the window.
        strides: strides.
        pairs: elements before and after each spatial axis.
        spatial: sizes of the result.
        ceil: whether the sizes are rounded up.
    """

    def __init__(
        self,
        x: torch.Tensor,
        kernel_sizes: Any,
        strides: Any,
        pad_type: str,
        pad: Any,
        ceil_mode: bool,
    ) -> None:
        rank = x.dim() - 2
        if rank not in _MAX_POOLS:
            raise ProgramError(f"cannot pool a tensor of {x.dim()} dimensions")
        kind = pad_type.lower()
        self.kernel, self.strides = read_sizes(kernel_sizes, rank), read_sizes(strides, rank)
        self.pairs = resolve_padding(kind, pad, x.shape[2:], self.kernel, self.strides)
        self.ceil = bool(ceil_mode)
        if self.ceil and (kind == "same" or any(first != last for first, last in self.pairs)):
            raise ProgramError("ceil_mode needs equal padding on both sides")
        self.spatial = [
            self._count(n, k, s, pair)
            for n, k, s, pair in zip(
                x.shape[2:], self.kernel, self.strides, self.pairs, strict=True
            )
        ]
        # The elements of all windows, which are also a measure of the time.
        check_allocation([*x.shape[:2], *self.spatial, *self.kernel], x.dtype)

    def _count(self, size: int, width: int, stride: int, pair: tuple[int, int]) -> int:
        room = size + sum(pair) - width
        # Rounded up, the first window may be larger than the padded input.
        count = -(-room // stride) + 1 if self.ceil else room // stride + 1
        if count < 1:
            raise ProgramError(f"a window of {width} does not fit into {size} + {sum(pair)}")
        if self.ceil and (count - 1) * stride >= size + pair[0]:
            # The last window begins behind the input. MIL drops it, but only with padding; torch
            # always drops it, although MIL calls its rule the same.
            if not any(pair):
                raise UnsupportedProgram("ceil_mode adds a window without an element")
            count -= 1
        return count

    def is_native(self, dtype: torch.dtype) -> bool:
        """Return whether torch's pooling has this padding and dtype."""
        has_dtype = len(self.kernel) < 3 or dtype != torch.float16
        return has_dtype and all(
            first == last and first <= width // 2
            for (first, last), width in zip(self.pairs, self.kernel, strict=True)
        )

    def unfold(self, x: torch.Tensor, value: float) -> torch.Tensor:
        """Pad with ``value`` and return a view with the axes of the window at the end."""
        grown = [
            (first, (count - 1) * s + k - n - first)
            for (first, _), count, s, k, n in zip(
                self.pairs, self.spatial, self.strides, self.kernel, x.shape[2:], strict=True
            )
        ]
        result = pad_spatial(x, grown, value)
        for axis, (k, s) in enumerate(zip(self.kernel, self.strides, strict=True), 2):
            result = result.unfold(axis, k, s)
        return result

    def window_axes(self) -> list[int]:
        """Return the axes of the window in the result of :meth:`unfold`."""
        return list(range(-len(self.kernel), 0))


@register_kernel("max_pool")
def max_pool(
    x: torch.Tensor,
    kernel_sizes: Any,
    pad_type: str,
    strides: Any = None,
    pad: Any = None,
    ceil_mode: bool = False,
) -> torch.Tensor:
    """Return the largest element of each window; padding is minus infinity."""
    window = Window(x, kernel_sizes, strides, pad_type, pad, ceil_mode)
    if window.is_native(x.dtype):
        pads = [first for first, _ in window.pairs]
        pool = _MAX_POOLS[x.dim() - 2]
        return pool(x, window.kernel, window.strides, pads, ceil_mode=window.ceil)
    return torch.amax(window.unfold(x, -math.inf), window.window_axes())


@register_kernel("avg_pool")
def avg_pool(
    x: torch.Tensor,
    kernel_sizes: Any,
    pad_type: str,
    strides: Any = None,
    pad: Any = None,
    exclude_padding_from_average: bool = False,
    ceil_mode: bool = False,
) -> torch.Tensor:
    """Return the mean of each window.

    Padding counts as zeros unless excluded. As in torch, elements that ``ceil_mode`` adds behind
    the padding never count.
    """
    window = Window(x, kernel_sizes, strides, pad_type, pad, ceil_mode)
    includes = not exclude_padding_from_average
    if window.is_native(x.dtype):
        pads = [first for first, _ in window.pairs]
        pool = _AVERAGE_POOLS[x.dim() - 2]
        return pool(x, window.kernel, window.strides, pads, window.ceil, includes)
    sums = torch.sum(window.unfold(x, 0.0), window.window_axes(), dtype=torch.float32)
    return (sums / _count_elements(window, x.shape[2:], includes)).to(x.dtype)


def _count_elements(window: Window, sizes: Sequence[int], includes: bool) -> torch.Tensor:
    """Return the number of elements in each window, with or without padding."""
    counts = torch.ones([])
    for n, (first, last), count, s, k in zip(
        sizes, window.pairs, window.spatial, window.strides, window.kernel, strict=True
    ):
        starts = torch.arange(count) * s
        low, high = (0, n + first + last) if includes else (first, first + n)
        inside = torch.clamp(starts + k, max=high) - torch.clamp(starts, min=low)
        counts = counts.unsqueeze(-1) * inside.to(torch.float32)
    return counts


@register_kernel("l2_pool")
def l2_pool(
    x: torch.Tensor,
    kernel_sizes: Any,
    pad_type: str,
    strides: Any = None,
    pad: Any = None,
    ceil_mode: bool = False,
) -> torch.Tensor:
    """Return the square root of the sum of squares of each window of one or two axes."""
    window = Window(x, kernel_sizes, strides, pad_type, pad, ceil_mode)
    if x.dim() > 4:
        raise ProgramError(f"cannot pool a tensor of {x.dim()} dimensions")
    norm: torch.Tensor = torch.linalg.vector_norm(window.unfold(x, 0.0), 2, window.window_axes())
    return norm
