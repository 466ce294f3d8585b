"""An MLX program as typed data: slots, instructions and maps, decoded from a payload.

Tensor slots are numbered in this order: constants, inputs, outputs, mutable buffers, temporaries
(``ExecutionState::bind`` in the delegate's ``MLXExecutor.h``). Value slots hold Python numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import SimpleNamespace
from typing import Any

from harness import ProgramError

DELEGATE = "MLXBackend"
"""The delegate's name in programs and in the runtime's registry."""


class PayloadError(ProgramError):
    """The bytes are not an MLX program, or the delegate's runtime would refuse the program."""

    def __str__(self) -> str:
        return f"MLX payload: {super().__str__()}"


class Tid(int):
    """Number of a tensor slot."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"t{int(self)}"


class Vid(int):
    """Number of a value slot."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"v{int(self)}"


class Node(SimpleNamespace):
    """One instruction. Its fields are attributes, named as in the schema.

    A field holds a :class:`Tid`, a :class:`Vid`, a number, bool or string, None when it is
    optional and absent, or a list of these. "Literal or value slot" is a number or a Vid;
    "value or tensor slot" a Vid or a Tid.

    Attributes:
        kind: name of the node's table in the schema, such as ``AddNode``.
    """

    kind: str

    @property
    def fields(self) -> dict[str, Any]:
        """The fields in the order of the schema, without ``kind``."""
        return {name: value for name, value in vars(self).items() if name != "kind"}

    @property
    def writes(self) -> list[Tid]:
        """Tensor slots that the instruction itself assigns."""
        return [slot for name in _WRITTEN for slot in _slots(vars(self).get(name), Tid)]

    @property
    def reads(self) -> list[Tid]:
        """Tensor slots that the instruction reads, including the loop-carried ones of a scan."""
        return [
            slot
            for name, value in self.fields.items()
            if name not in _WRITTEN and not (name == "outputs" and self.kind == "ScanNode")
            for slot in _slots(value, Tid)
        ]

    @property
    def values(self) -> list[Vid]:
        """Value slots that occur in the instruction, read or written."""
        return [slot for value in self.fields.values() for slot in _slots(value, Vid)]

    @property
    def chains(self) -> list[int]:
        """Instruction chains that the instruction runs."""
        return [value for name, value in self.fields.items() if name.endswith("chain_idx")]


_WRITTEN = ("out", "outs", "outputs", "sliced")


def _slots(value: Any, kind: type) -> Iterator[Any]:
    if isinstance(value, kind):
        yield value
    elif isinstance(value, list):
        yield from (item for item in value if isinstance(item, kind))


class SlotKind(StrEnum):
    """The kind of slot that an entry of an I/O map refers to."""

    TENSOR = "tensor"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"


@dataclass(frozen=True)
class MlxSlot:
    """An entry of an I/O map: tensor slot ``index``, or value slot ``index``."""

    kind: SlotKind
    index: int


@dataclass(frozen=True)
class Dim:
    """Bounds of a dimension, both inclusive; ``high`` is None when unbounded.

    Attributes:
        static: whether the program fixes the size; dynamic bounds may also allow only one size.
    """

    low: int
    high: int | None
    static: bool = False

    def __str__(self) -> str:
        if self.low == self.high:
            return str(self.low)
        return f"{self.low}..{'' if self.high is None else self.high}"


@dataclass(frozen=True)
class MlxTensorMeta:
    """The program's declaration of a tensor slot.

    Attributes:
        shape: bounds of each dimension.
        scalar_type: ExecuTorch's ``ScalarType`` number.
        dim_order: order of the dimensions in memory; empty when not declared.
    """

    shape: tuple[Dim, ...]
    scalar_type: int
    dim_order: tuple[int, ...]


@dataclass(frozen=True)
class MlxGraph:
    """A decoded and validated program.

    Attributes:
        version: schema version of the program, as written.
        constants, inputs, outputs, buffers, temporaries: number of tensor slots of each role.
        values: number of value slots.
        chains: the instruction chains.
        main: the chain that every call runs.
        init: the chain that runs once when the program is loaded, or None.
        input_map, output_map, buffer_map: the slots of arguments, results and mutable buffers.
        names: key in the named data map of each constant slot.
        meta: declarations by tensor slot; None where nothing is declared.
    """

    version: str
    constants: int
    inputs: int
    outputs: int
    buffers: int
    temporaries: int
    values: int
    chains: tuple[tuple[Node, ...], ...]
    main: int
    init: int | None
    input_map: tuple[MlxSlot, ...]
    output_map: tuple[MlxSlot, ...]
    buffer_map: tuple[MlxSlot, ...]
    names: Mapping[int, str]
    meta: tuple[MlxTensorMeta | None, ...]

    @property
    def tensors(self) -> int:
        """Number of tensor slots."""
        return self.constants + self.inputs + self.outputs + self.buffers + self.temporaries

    def role(self, slot: int) -> str:
        """Return a slot's role: ``constant``, ``input``, ``output``, ``buffer``, ``temporary``."""
        for role in ("constant", "input", "output", "buffer"):
            slot -= getattr(self, f"{role}s")
            if slot < 0:
                return role
        return "temporary"

    def get_meta(self, slot: int) -> MlxTensorMeta | None:
        """Return the declaration of a tensor slot, or None."""
        return self.meta[slot] if slot < len(self.meta) else None
