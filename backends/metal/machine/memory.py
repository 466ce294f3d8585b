"""Tensors as the Metal runtime represents them: an address in a buffer, sizes and strides.

Source: ``backends/apple/metal/runtime/shims/memory.cpp`` and ``extension/tensor/tensor_ptr.cpp``.
The runtime's tensors have no storage offset; a view is another address in the same buffer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import torch

from backends.metal.contract.layout import compute_strides, extent
from backends.metal.cpp.syntax import WrapperError

CPU, MPS = 0, 13
"""c10's numbers for the two devices."""

DTYPES: dict[int, torch.dtype] = {
    0: torch.uint8,
    1: torch.int8,
    2: torch.int16,
    3: torch.int32,
    4: torch.int64,
    5: torch.float16,
    6: torch.float32,
    7: torch.float64,
    11: torch.bool,
    15: torch.bfloat16,
}
"""Dtypes by c10's number, which ExecuTorch also uses."""

CODES = {dtype: code for code, dtype in DTYPES.items()}

# Unwritten memory reads as NaN, or as -1.
POISON = 0xFF
# Extra bytes, so that an empty tensor has an address too.
_ALIGNMENT = 16


class OutsideStorage(WrapperError):
    """A tensor extends beyond its memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Storage:
    """A buffer.

    Attributes:
        data: its bytes.
        device: :data:`MPS` or :data:`CPU`; a label only.
        nbytes: requested size in bytes.
    """

    data: torch.Tensor
    device: int
    nbytes: int

    @staticmethod
    def allocate(nbytes: int, device: int = MPS) -> Storage:
        """Allocate unwritten memory."""
        padded = nbytes + -nbytes % _ALIGNMENT + _ALIGNMENT
        return Storage(torch.full((padded,), POISON, dtype=torch.uint8), device, nbytes)

    @staticmethod
    def of(tensor: torch.Tensor, device: int) -> Storage:
        """Return the memory of a tensor, shared."""
        data = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
        return Storage(data, device, data.numel())


Origin: TypeAlias = Literal["input", "constant", "buffer"]


@dataclass(frozen=True, slots=True)
class Meaning:
    """A tensor's layout as the wrapper assumes it.

    Attributes:
        strides: strides in elements.
        offset: elements before it in its storage.
        room: bytes of that storage.
    """

    strides: tuple[int, ...]
    offset: int
    room: int


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """The tensor behind a handle of the wrapper.

    Attributes:
        storage: its buffer.
        start: its first byte in the buffer.
        dtype: its dtype.
        sizes: sizes from the wrapper.
        strides: the runtime's strides in elements.
        meant: the layout that the wrapper assumes, if the runtime's differs.
        origin: ``input`` or ``constant`` for memory that was filled before the program ran.
        original: the view that this tensor is a dense copy of, if it is one.
    """

    storage: Storage
    start: int
    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    meant: Meaning | None = None
    origin: Origin = "buffer"
    original: Tensor | None = None
    _view: list[torch.Tensor] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        end = self.start + self.extent * self.dtype.itemsize
        if min(self.sizes, default=0) < 0 or self.start < 0 or end > self.storage.nbytes:
            raise OutsideStorage(
                f"{self} covers bytes {self.start} to {end} of a buffer of {self.storage.nbytes} "
                f"bytes"
            )

    def __str__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        return f"{dtype} {list(self.sizes)} with strides {list(self.strides)}"

    @staticmethod
    def share(tensor: torch.Tensor, device: int = MPS) -> Tensor:
        """Wrap a torch tensor in the same memory."""
        storage = Storage.of(tensor, device)
        start = int(tensor.storage_offset()) * tensor.element_size()
        sizes = tuple(int(size) for size in tensor.shape)
        strides = tuple(int(stride) for stride in tensor.stride())
        return Tensor(storage, start, tensor.dtype, sizes, strides)

    @property
    def device(self) -> int:
        """The device's number, a label only."""
        return self.storage.device

    @property
    def numel(self) -> int:
        """Number of elements, including repeated ones."""
        return math.prod(self.sizes)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements without regard to strides."""
        return self.numel * self.dtype.itemsize

    @property
    def extent(self) -> int:
        """Number of elements in memory from the first to the last, inclusive."""
        return extent(self.sizes, self.strides)

    @property
    def meaning(self) -> Meaning:
        """The layout that the wrapper assumes."""
        offset = self.start // self.dtype.itemsize
        return self.meant or Meaning(self.strides, offset, self.storage.nbytes)

    @property
    def address(self) -> int:
        """Its address in this process."""
        return int(self.storage.data.data_ptr()) + self.start

    @property
    def bound(self) -> int:
        """Bytes of the Metal buffer that a kernel gets for the tensor.

        A view that starts later gets a separate Metal buffer. If a view with holes is used in place
        of the runtime's dense copy, the buffer extends to the view's last element.
        """
        own = max(self.nbytes, self.extent * self.dtype.itemsize)
        return own if self.start else self.storage.nbytes

    @property
    def torch(self) -> torch.Tensor:
        """A torch tensor on the CPU in the same memory."""
        if not self._view:
            if self.start % self.dtype.itemsize:
                raise OutsideStorage(f"{self} begins inside an element, at byte {self.start}")
            self._view.append(
                torch.empty(0, dtype=self.dtype).set_(
                    self.storage.data.untyped_storage(),
                    self.start // self.dtype.itemsize,
                    self.sizes,
                    self.strides,
                )
            )
        return self._view[0]

    def view(self, sizes: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> Tensor:
        """Return another tensor in the same buffer, ``offset`` elements after this one."""
        before = self.meaning
        meant = Meaning(strides, before.offset + offset, before.room)
        start = self.start + offset * self.dtype.itemsize
        actual = normalize_strides(sizes, strides)
        return Tensor(self.storage, start, self.dtype, sizes, actual, meant, self.origin)


def empty(
    sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, device: int = MPS
) -> Tensor:
    """Make an unwritten tensor in a new buffer.

    The runtime's buffer has room for the tensor's elements. If the strides need more room, which
    the runtime refuses, the buffer here is larger.
    """
    elements = max(math.prod(sizes), extent(sizes, strides))
    storage = Storage.allocate(elements * dtype.itemsize, device)
    meant = Meaning(strides, 0, math.prod(sizes) * dtype.itemsize)
    return Tensor(storage, 0, dtype, sizes, normalize_strides(sizes, strides), meant)


def normalize_strides(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Return the strides that the runtime's tensor reports, or unchanged if it rejects them."""
    return compute_strides(sizes, strides) or tuple(strides)
