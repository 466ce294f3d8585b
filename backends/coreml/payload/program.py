"""A MIL program as typed data, decoded from the model of a payload.

MIL is the intermediate language of CoreML's ML programs. A function is a block of operations in
SSA form; the operations ``cond`` and ``while_loop`` have blocks of their own. Source:
``mlmodel/format/MIL.proto`` of coremltools.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch

from harness import ProgramError


class CoremlPayloadError(ProgramError):
    """The bytes are not a CoreML payload, or its program is inconsistent."""

    def __str__(self) -> str:
        return f"CoreML payload: {super().__str__()}"


@dataclass(frozen=True)
class MilDtype:
    """An element type of MIL.

    Attributes:
        name: such as ``fp16`` or ``int4``, as coremltools spells it.
        storage: torch's dtype of the decoded elements; None for strings.
        bits: bits of an element in a weight file; 0 for strings and bools.
    """

    name: str
    storage: torch.dtype | None
    bits: int

    def __str__(self) -> str:
        return self.name

    @property
    def is_signed(self) -> bool:
        """Whether codes of less than a byte have a sign."""
        return self.name.startswith("int")


@dataclass(frozen=True)
class MilTensorType:
    """Element type and shape of a tensor; None is a dimension that is known at run time only."""

    dtype: MilDtype
    shape: tuple[int | None, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join('?' if n is None else str(n) for n in self.shape)}]"

    def matches(self, shape: tuple[int, ...]) -> bool:
        """Whether a tensor of a shape has this type's shape."""
        return len(shape) == len(self.shape) and all(
            expected in (None, actual) for expected, actual in zip(self.shape, shape, strict=True)
        )


@dataclass(frozen=True)
class MilListType:
    """A list of tensors or strings; length None is known at run time only."""

    element: MilTensorType
    length: int | None

    def __str__(self) -> str:
        return f"list({self.element})"


@dataclass(frozen=True)
class MilStateType:
    """A mutable tensor of the model."""

    wrapped: MilTensorType

    def __str__(self) -> str:
        return f"state({self.wrapped})"


MilType = MilTensorType | MilListType | MilStateType

MilNumber = int | float | bool | str
"""A constant of rank 0."""


@dataclass(frozen=True)
class MilConstant:
    """A value that the program contains.

    Attributes:
        type: its type.
        value: a number or a string for rank 0, a tensor for higher ranks, a tuple for a list.
        blob: for a value of the weight file, its bytes; elements of less than a byte are packed.
    """

    type: MilTensorType | MilListType
    value: MilNumber | torch.Tensor | tuple[MilNumber, ...]
    blob: memoryview | None = field(default=None, compare=False)


@dataclass(frozen=True)
class MilReference:
    """A use of a named value."""

    name: str


MilBinding = MilReference | MilConstant


@dataclass(frozen=True)
class MilParameter:
    """A name that an operation, a block or a function defines, with its type."""

    name: str
    type: MilType


@dataclass(frozen=True)
class MilBlock:
    """Operations in order; a block sees the names of the blocks around it."""

    inputs: tuple[MilParameter, ...]
    operations: tuple[MilOperation, ...]
    outputs: tuple[str, ...]

    def walk(self) -> Iterator[MilOperation]:
        """Yield all operations, those of inner blocks after the operation that has the block."""
        for operation in self.operations:
            yield operation
            for block in operation.blocks:
                yield from block.walk()


@dataclass(frozen=True)
class MilOperation:
    """An operation.

    Attributes:
        kind: its type, such as ``linear``.
        name: its own name; not unique.
        inputs: the bindings of each input; several for a tuple of values.
        outputs: the values that it defines.
        blocks: the inner blocks of ``cond`` and ``while_loop``.
        attributes: constants beside the inputs: the value of ``const``.
    """

    kind: str
    name: str
    inputs: Mapping[str, tuple[MilBinding, ...]]
    outputs: tuple[MilParameter, ...]
    blocks: tuple[MilBlock, ...] = ()
    attributes: Mapping[str, MilConstant] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}" if self.name else self.kind


@dataclass(frozen=True)
class MilFunction:
    """A function: its inputs, states included, and its block."""

    name: str
    opset: str
    inputs: tuple[MilParameter, ...]
    body: MilBlock


@dataclass(frozen=True)
class MilFeature:
    """An input or output of a model, as its description declares it.

    Attributes:
        name: the name of the function's input or output.
        dtype: dtype of the array that the runtime passes.
        shape: default sizes; empty for a scalar.
        ranges: smallest and largest size of each dimension; the largest is None for no limit.
            Empty for the default sizes only.
        choices: allowed shapes; empty for any in ``ranges``.
    """

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    ranges: tuple[tuple[int, int | None], ...] = ()
    choices: tuple[tuple[int, ...], ...] = ()

    def allows(self, shape: tuple[int, ...]) -> bool:
        """Whether the model takes an array of a shape."""
        if self.choices:
            return shape in self.choices
        if self.ranges:
            return len(shape) == len(self.ranges) and all(
                low <= size and (high is None or size <= high)
                for size, (low, high) in zip(shape, self.ranges, strict=True)
            )
        return shape == self.shape


@dataclass(frozen=True)
class MilProgram:
    """A payload: the function that the delegate runs, and its interface.

    Attributes:
        version: the specification version of the model.
        function: the function.
        inputs: its inputs in the order in which the delegate passes them, without states.
        outputs: its outputs in that order.
    """

    version: int
    function: MilFunction
    inputs: tuple[MilFeature, ...]
    outputs: tuple[MilFeature, ...]

    @property
    def states(self) -> tuple[MilParameter, ...]:
        """The states of the function."""
        return tuple(each for each in self.function.inputs if isinstance(each.type, MilStateType))
