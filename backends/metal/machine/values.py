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
"""The value of what was declared and not yet written."""


class NullHandle(WrapperError):
    """A tensor is used that was never made, was moved away or released."""


@dataclass(slots=True, eq=False)
class Owner:
    """A handle that owns its tensor; None once it was moved, released or reset."""

    tensor: Tensor | None

    def need(self) -> Tensor:
        """The tensor.

        Raises:
            NullHandle: there is none any more.
        """
        if self.tensor is None:
            raise NullHandle("the tensor of this handle was moved away or released before")
        return self.tensor

    def take(self) -> Tensor:
        """The tensor, which is somebody else's from now on."""
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
    """A lambda, the names that it can see, and who executes it."""

    code: Lambda
    scope: Any
    interpreter: Any


class Host:
    """Objects of the runtime: ``this`` and its parts."""

    device_idx_ = 0

    @property
    def kernels_(self) -> Host:
        """The kernels, which the wrapper fetches and never uses."""
        return self


class Text:
    """A string stream."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def append(self, value: Any) -> Text:
        """Write to it."""
        self.parts.append(str(value))
        return self

    def __str__(self) -> str:
        return "".join(self.parts).replace("\\n", " ")


def move(value: Any) -> Any:
    """``std::move``: an owner loses its tensor to a new one."""
    return Owner(value.take()) if isinstance(value, Owner) else value


def owned(value: Any) -> Any:
    """A handle under an owner; an owner as it is."""
    if isinstance(value, Tensor):
        return Owner(value)
    if value is UNSET:
        raise NullHandle("the handle was never written")
    return value if isinstance(value, Owner) else Owner(None)


def tensor(value: Any) -> Any:
    """What a function gets for an argument: the tensor of an owner, all else as it is."""
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
        KeyError: the value has none of that name.
    """
    return _MEMBERS[type(value)][name](value, *arguments)
