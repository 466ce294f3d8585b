"""Tensors as the Metal runtime keeps them: an address, sizes and strides over a buffer.

Source: ``backends/apple/metal/runtime/shims/memory.cpp`` and ``extension/tensor/tensor_ptr.cpp``.
The runtime's tensors have no storage offset; a view is another address in the same buffer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import torch

from backends.metal.contract.layout import extent, ordered
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
"""By c10's number, which ExecuTorch shares."""

CODES = {dtype: code for code, dtype in DTYPES.items()}

# Memory that nobody has written reads as NaN, or as -1.
POISON = 0xFF
# Some room, so that an empty tensor has an address too.
_ALIGNMENT = 16


class OutsideStorage(WrapperError):
    """A tensor reaches beyond the memory that it views."""


@dataclass(frozen=True, slots=True, eq=False)
class Storage:
    """One buffer.

    Attributes:
        data: its bytes.
        device: :data:`MPS` or :data:`CPU`, by name only.
        nbytes: how many of them were asked for.
    """

    data: torch.Tensor
    device: int
    nbytes: int

    @staticmethod
    def allocate(nbytes: int, device: int = MPS) -> Storage:
        """Memory that nobody has written."""
        padded = nbytes + -nbytes % _ALIGNMENT + _ALIGNMENT
        return Storage(torch.full((padded,), POISON, dtype=torch.uint8), device, nbytes)

    @staticmethod
    def of(tensor: torch.Tensor, device: int) -> Storage:
        """The memory of a tensor, shared."""
        data = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
        return Storage(data, device, data.numel())


Origin: TypeAlias = Literal["input", "constant", "buffer"]


@dataclass(frozen=True, slots=True)
class Meaning:
    """A tensor's place in memory as the wrapper has it in mind.

    Attributes:
        strides: in elements.
        offset: elements before it in its storage.
        room: bytes of that storage.
    """

    strides: tuple[int, ...]
    offset: int
    room: int


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """What a handle of the wrapper stands for.

    Attributes:
        storage: its buffer.
        start: its first byte there.
        dtype: of an element.
        sizes: as the wrapper gave them.
        strides: in elements, as the runtime has them.
        meant: what the wrapper takes it for, where the runtime made something else of it.
        origin: what its memory was filled with before the program ran, if it was.
        original: the view that this is a dense copy of, where the runtime made one.
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
                f"{self} covers bytes {self.start} to {end} of a buffer of {self.storage.nbytes}"
            )

    def __str__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        return f"{dtype} {list(self.sizes)} with strides {list(self.strides)}"

    @staticmethod
    def share(tensor: torch.Tensor, device: int = MPS) -> Tensor:
        """A tensor of torch in the same memory."""
        storage = Storage.of(tensor, device)
        start = int(tensor.storage_offset()) * tensor.element_size()
        sizes = tuple(int(size) for size in tensor.shape)
        strides = tuple(int(stride) for stride in tensor.stride())
        return Tensor(storage, start, tensor.dtype, sizes, strides)

    @property
    def device(self) -> int:
        """Where it is said to be."""
        return self.storage.device

    @property
    def numel(self) -> int:
        """Elements, each counted as often as it is repeated."""
        return math.prod(self.sizes)

    @property
    def nbytes(self) -> int:
        """Bytes of as many elements, strides or not."""
        return self.numel * self.dtype.itemsize

    @property
    def extent(self) -> int:
        """Elements from the first to the last, both included."""
        return extent(self.sizes, self.strides)

    @property
    def meaning(self) -> Meaning:
        """What the wrapper takes it for."""
        offset = self.start // self.dtype.itemsize
        return self.meant or Meaning(self.strides, offset, self.storage.nbytes)

    @property
    def address(self) -> int:
        """Where it is in this process."""
        return int(self.storage.data.data_ptr()) + self.start

    @property
    def bound(self) -> int:
        """Bytes of the Metal buffer that a kernel gets for it.

        A view at an address of its own gets a Metal buffer of its own. Where the runtime would copy
        a view with holes and it is used in place of the copy, that buffer reaches to its end.
        """
        own = max(self.nbytes, self.extent * self.dtype.itemsize)
        return own if self.start else self.storage.nbytes

    @property
    def torch(self) -> torch.Tensor:
        """The same memory as a tensor of torch on the CPU."""
        if not self._view:
            if self.start % self.dtype.itemsize:
                raise OutsideStorage(f"{self} begins amid an element, at byte {self.start}")
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
        """Another tensor in the same buffer, ``offset`` elements on from this one."""
        before = self.meaning
        meant = Meaning(strides, before.offset + offset, before.room)
        start = self.start + offset * self.dtype.itemsize
        kept = normalized(sizes, strides)
        return Tensor(self.storage, start, self.dtype, sizes, kept, meant, self.origin)


def empty(
    sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, device: int = MPS
) -> Tensor:
    """A tensor in a buffer of its own, unwritten.

    The runtime's buffers hold as many elements as the tensor has; where strides ask for more, which
    the runtime refuses, they get it here.
    """
    elements = max(math.prod(sizes), extent(sizes, strides))
    storage = Storage.allocate(elements * dtype.itemsize, device)
    meant = Meaning(strides, 0, math.prod(sizes) * dtype.itemsize)
    return Tensor(storage, 0, dtype, sizes, normalized(sizes, strides), meant)


def normalized(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Strides as the runtime's tensors report them, where it accepts them at all."""
    return ordered(sizes, strides) or tuple(strides)
