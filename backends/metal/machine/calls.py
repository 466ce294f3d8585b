"""Calls of the runtime as values, and who may take part in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from backends.metal.machine.memory import Tensor

Fallback = Callable[..., Any]
"""Stands in for a kernel of the runtime that is no shader.

It gets the arguments of the C function: tensors of torch on the CPU, in the memory of the program,
for handles; a tuple for an array; None for a null pointer; what an optional points to. Result
pointers are left out; what it returns is written to them: a tensor, or a tuple of them.
"""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the runtime, about to be made.

    Attributes:
        name: the C function.
        arguments: as a :data:`Fallback` gets them, but :class:`Tensor` for handles and
            :class:`Encoder` for kernels.
        results: how many result pointers it was given.
        line: of the wrapper; 0 for what the runtime calls around it.
        source: the line's text, or which input, output or constant it is for.
    """

    name: str
    arguments: tuple[Any, ...]
    results: int = 0
    line: int = 0
    source: str = ""

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Those among its arguments."""
        return tuple(value for value in self.arguments if isinstance(value, Tensor))


Check = Callable[[Call], bool]
"""Sees a call before it is made; whether the call breaks the contract. It may raise."""
