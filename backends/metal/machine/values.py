"""Values of a wrapper's variables, other than numbers, text and tuples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from backends.metal.cpp.syntax import Lambda, WrapperError
from backends.metal.machine.memory import Tensor


class _Unset:
    def __repr__(self) -> str:
        return "a variable without a value"


UNSET = _Unset()
"""The value of a variable that is declared but not yet written."""


class NullHandle(WrapperError):
    """A handle is used that has no tensor: never written, moved away or released."""


@dataclass(slots=True, eq=False)
class Owner:
    """A handle that owns its tensor; None after a move, release or reset."""

    tensor: Tensor | None

    def need(self) -> Tensor:
        """Return the tensor.

        Raises:
            NullHandle: the handle has no tensor any more.
        """
        if self.tensor is None:
            raise NullHandle("the tensor of this handle was moved away or released before")
        return self.tensor

    def take(self) -> Tensor:
        """Return the tensor and give up its ownership."""
        tensor = self.need()
        self.tensor = None
        return tensor


@dataclass(slots=True, eq=False)
class Pointer:
    """The address of a variable or of an element."""

    holder: Any
    key: Any

    @staticmethod
    def to(value: Any) -> Pointer:
        """Make a pointer to a value without a name."""
        return Pointer([value], 0)

    def get(self) -> Any:
        """Return the value at the pointer."""
        return self.holder[self.key]

    def set(self, value: Any) -> None:
        """Write a value at the pointer."""
        self.holder[self.key] = value


@dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """A lambda, its scope and its interpreter."""

    code: Lambda
    scope: Any
    interpreter: Any


class Host:
    """Objects of the runtime: ``this`` and its parts."""

    device_idx_ = 0

    @property
    def kernels_(self) -> Host:
        """The kernels; the wrapper reads the attribute and never uses it."""
        return self


class Text:
    """A string stream."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def append(self, value: Any) -> Text:
        """Append a value to the stream."""
        self.parts.append(str(value))
        return self

    def __str__(self) -> str:
        return "".join(self.parts).replace("\\n", " ")


def move(value: Any) -> Any:
    """Execute ``std::move``: move an owner's tensor to a new owner."""
    return Owner(value.take()) if isinstance(value, Owner) else value


def owned(value: Any) -> Any:
    """Return an owner of a handle; return an owner unchanged."""
    if isinstance(value, Tensor):
        return Owner(value)
    if value is UNSET:
        raise NullHandle("the handle was never written")
    return value if isinstance(value, Owner) else Owner(None)


def tensor(value: Any) -> Any:
    """Convert an argument for a function: an owner to its tensor, any other value unchanged."""
    return value.need() if isinstance(value, Owner) else value


def _reset(owner: Owner, new: Tensor | None = None) -> None:
    owner.tensor = new


def _same(value: Any) -> Any:
    return value


_MEMBERS: dict[type, dict[str, Callable[..., Any]]] = {
    Owner: {
        "reset": _reset,
        "release": Owner.take,
        "get": Owner.need,
        "data_ptr": lambda owner: owner.need().address,
        "sizes": lambda owner: owner.need().sizes,
        "strides": lambda owner: owner.need().strides,
        "size": lambda owner, dim: owner.need().sizes[dim],
        "stride": lambda owner, dim: owner.need().strides[dim],
    },
    tuple: {"cbegin": _same, "begin": _same, "data": _same, "size": len},
    list: {"clear": list.clear, "at": list.__getitem__, "size": len, "data": _same},
    Host: {"get": _same},
    Text: {"str": str},
}


def member(value: Any, name: str, arguments: Sequence[Any]) -> Any:
    """Call a method.

    Raises:
        KeyError: the value has no method of that name.
    """
    return _MEMBERS[type(value)][name](value, *arguments)
