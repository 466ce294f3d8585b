"""Calls of the runtime as values, and the types of checks and fallback kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from backends.metal.machine.memory import Tensor

Fallback = Callable[..., Any]
"""Implements a kernel of the runtime that is no shader.

It gets the arguments of the C function: for handles, torch tensors on the CPU in the program's
memory; a tuple for an array; None for a null pointer; the target of an optional. It gets no result
pointers; its result, a tensor or a tuple of tensors, is written to them.
"""


@dataclass(frozen=True, slots=True)
class MachineCall:
    """A call of the runtime, before its execution.

    Attributes:
        name: the C function.
        arguments: as for a :data:`Fallback`, but :class:`Tensor` for handles and
            :class:`Encoder` for kernels.
        results: number of result pointers.
        line: line of the wrapper; 0 for the runtime's calls around it.
        source: text of the line, or the input, output or constant that the call is for.
    """

    name: str
    arguments: tuple[Any, ...]
    results: int = 0
    line: int = 0
    source: str = ""

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors among its arguments."""
        return tuple(value for value in self.arguments if isinstance(value, Tensor))


Check = Callable[[MachineCall], bool]
"""Returns whether a call, before its execution, breaks the contract. It may raise."""
