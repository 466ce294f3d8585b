"""A call of the generated wrapper, with what its arguments are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

Origin: TypeAlias = Literal["input", "constant", "buffer"]


@dataclass(frozen=True)
class TensorMeta:
    """What a call knows of a tensor: as the wrapper means it, not as the runtime stores it.

    Attributes:
        dtype: as torch spells it without its prefix, such as ``float32``.
        sizes: extents.
        strides: in elements.
        storage_offset: in elements, from the start of the storage.
        storage_size: bytes of the storage; None where it is not known.
        origin: ``input`` and ``constant`` for memory that was filled before the run and that no
            kernel writes to; ``buffer`` for everything else. A view has its parent's.
        device: ``mps`` or ``cpu``.
    """

    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    storage_offset: int = 0
    storage_size: int | None = None
    origin: Origin = "buffer"
    device: str = "mps"

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.sizes)


Value: TypeAlias = TensorMeta | int | float | bool | str | tuple[int, ...] | None
"""An argument: ``nullptr`` is None, a pointer to a tensor or a double is what it points to, an
array is a tuple (its length stays an argument of its own), a dtype its name."""


@dataclass(frozen=True)
class Call:
    """One call; build it with :func:`backends.metal.contract.bind`.

    Attributes:
        function: the C name, such as ``aoti_torch_mps_mm_out``.
        arguments: by the names of the parameters in the contract's table.
    """

    function: str
    arguments: Mapping[str, Value]

    def tensor(self, name: str) -> TensorMeta:
        """The tensor given for a parameter."""
        return cast(TensorMeta, self.arguments[name])

    def optional(self, name: str) -> TensorMeta | None:
        """The tensor given for a parameter, or None for ``nullptr`` or no such parameter."""
        return cast("TensorMeta | None", self.arguments.get(name))

    def integer(self, name: str) -> int:
        """The number given for a parameter."""
        return cast(int, self.arguments[name])

    def integers(self, name: str) -> tuple[int, ...]:
        """The array given for a parameter; ``nullptr`` is empty."""
        return cast("tuple[int, ...] | None", self.arguments[name]) or ()
