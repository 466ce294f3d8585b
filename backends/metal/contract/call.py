"""A call of the generated wrapper, with descriptions of its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

Origin: TypeAlias = Literal["input", "constant", "buffer"]


@dataclass(frozen=True)
class CallTensor:
    """A tensor argument: as the wrapper sees it, not as the runtime stores it.

    Attributes:
        dtype: torch's name without prefix, such as ``float32``.
        sizes: sizes of the dimensions.
        strides: strides in elements.
        storage_offset: offset in elements from the start of the storage.
        storage_size: bytes of the storage; None if unknown.
        origin: ``input`` and ``constant`` for memory that was filled before the run and that no
            kernel writes to; ``buffer`` for all other memory. A view has its parent's origin.
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


Value: TypeAlias = CallTensor | int | float | bool | str | tuple[int, ...] | None
"""An argument.

``nullptr`` is None; a pointer to a tensor or a double is its target; an array is a tuple, and its
length remains a separate argument; a dtype is its name.
"""


@dataclass(frozen=True)
class RuntimeCall:
    """A call of a runtime function; build it with :func:`backends.metal.contract.bind`.

    Attributes:
        function: the C name, such as ``aoti_torch_mps_mm_out``.
        arguments: arguments by the parameter names of the contract's table.
    """

    function: str
    arguments: Mapping[str, Value]

    def tensor(self, name: str) -> CallTensor:
        """Return the tensor argument of a parameter."""
        return cast(CallTensor, self.arguments[name])

    def optional(self, name: str) -> CallTensor | None:
        """Return the tensor argument of a parameter; None for ``nullptr`` or no such parameter."""
        return cast("CallTensor | None", self.arguments.get(name))

    def integer(self, name: str) -> int:
        """Return the integer argument of a parameter."""
        return cast(int, self.arguments[name])

    def integers(self, name: str) -> tuple[int, ...]:
        """Return the array argument of a parameter; empty for ``nullptr``."""
        return cast("tuple[int, ...] | None", self.arguments[name]) or ()
