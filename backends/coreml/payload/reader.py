"""Read the MIL program of a payload from its protobuf messages.

The messages are read as they are. coremltools' own loader (``milproto.load``) builds the
operations anew, with type inference and folding of constants, so that it may hide a defect of the
payload or add one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from backends.coreml.payload import checks, values
from backends.coreml.payload.metadata import CoremlModel, find_model
from backends.coreml.payload.program import (
    CoremlPayloadError,
    MilBinding,
    MilBlock,
    MilFeature,
    MilFunction,
    MilOperation,
    MilParameter,
    MilProgram,
    MilReference,
)
from harness import UnsupportedProgram

# ArrayDataType in FeatureTypes.proto.
_ARRAY_DTYPES = {
    65568: torch.float32,
    65600: torch.float64,
    131104: torch.int32,
    65552: torch.float16,
    131080: torch.int8,
}

_MOST_OPERATIONS = 1_000_000
_MOST_NESTED = 32


def load(data: bytes, named_data: Mapping[str, bytes | memoryview]) -> MilProgram:
    """Decode and check a payload.

    Args:
        data: the payload.
        named_data: the named data of the program, to which a payload may refer.

    Raises:
        CoremlPayloadError: the payload is malformed or inconsistent.
        UnsupportedProgram: the model is no ML program, or is compiled.
    """
    return read_model(find_model(data, named_data))


def read_model(found: CoremlModel) -> MilProgram:
    """Decode and check a model; raises as :func:`load`."""
    message = parse(found.model)
    if message.WhichOneof("Type") != "mlProgram":
        raise UnsupportedProgram(
            f"the CoreML model is a {message.WhichOneof('Type')}; ML programs are supported"
        )
    functions = message.mlProgram.functions
    name = found.function or message.description.defaultFunctionName or "main"
    if name not in functions:
        raise CoremlPayloadError(f"its program has no function {name[:80]!r}")
    function = _ProgramReader(found.files).read_function(name, functions[name])
    description = message.description
    for candidate in message.description.functions:
        if candidate.name == name:
            description = candidate
    program = MilProgram(
        message.specificationVersion,
        function,
        _read_features(description.input, found.interface.inputs, "input"),
        _read_features(description.output, found.interface.outputs, "output"),
    )
    checks.check_program(program)
    return program


def parse(model: bytes | memoryview) -> Any:
    """Return the protobuf message of a model.

    Raises:
        CoremlPayloadError: the bytes are no model.
    """
    from coremltools.proto import Model_pb2
    from google.protobuf.message import DecodeError

    message = Model_pb2.Model()
    try:
        message.ParseFromString(bytes(model))
    except (DecodeError, ValueError) as error:
        raise CoremlPayloadError(f"its model is no protobuf message: {error}") from None
    return message


def _read_features(messages: Any, names: tuple[str, ...], role: str) -> tuple[MilFeature, ...]:
    """Return the descriptions of the named inputs or outputs."""
    found = {message.name: message for message in messages}
    missing = [name for name in names if name not in found]
    if missing:
        raise CoremlPayloadError(f"the model describes no {role} {missing[0][:80]!r}")
    return tuple(_read_feature(found[name], role) for name in names)


def _read_feature(message: Any, role: str) -> MilFeature:
    where = f"{role} {message.name[:80]!r}"
    if message.type.WhichOneof("Type") != "multiArrayType":
        raise CoremlPayloadError(f"{where} is no array")
    array = message.type.multiArrayType
    dtype = _ARRAY_DTYPES.get(array.dataType)
    if dtype is None:
        raise CoremlPayloadError(f"{where} has the unknown data type {array.dataType}")
    flexibility = array.WhichOneof("ShapeFlexibility")
    ranges: tuple[tuple[int, int | None], ...] = ()
    choices: tuple[tuple[int, ...], ...] = ()
    if flexibility == "shapeRange":
        ranges = tuple(
            (each.lowerBound, None if each.upperBound < 0 else each.upperBound)
            for each in array.shapeRange.sizeRanges
        )
    elif flexibility == "enumeratedShapes":
        choices = tuple(tuple(each.shape) for each in array.enumeratedShapes.shapes)
    return MilFeature(message.name, dtype, tuple(array.shape), ranges, choices)


class _ProgramReader:
    """Reads the messages of one program."""

    def __init__(self, files: Mapping[str, memoryview]) -> None:
        self._values = values.ValueReader(files)
        self._operations = 0

    def read_function(self, name: str, message: Any) -> MilFunction:
        """Return a function with the block of its operator set.

        Raises:
            CoremlPayloadError: it is malformed.
        """
        blocks = message.block_specializations
        if message.opset not in blocks:
            raise CoremlPayloadError(
                f"function {name[:80]!r} has no block for its operator set {message.opset[:80]!r}"
            )
        inputs = self._read_parameters(message.inputs, f"function {name[:80]!r}")
        body = self._read_block(blocks[message.opset], f"function {name[:80]!r}", 0)
        return MilFunction(name, message.opset, inputs, body)

    def _read_block(self, message: Any, where: str, depth: int) -> MilBlock:
        if depth > _MOST_NESTED:
            raise CoremlPayloadError(f"{where}: blocks are nested more than {_MOST_NESTED} deep")
        self._operations += len(message.operations)
        if self._operations > _MOST_OPERATIONS:
            raise CoremlPayloadError(f"its program has more than {_MOST_OPERATIONS} operations")
        return MilBlock(
            self._read_parameters(message.inputs, where),
            tuple(self._read_operation(each, depth) for each in message.operations),
            tuple(message.outputs),
        )

    def _read_operation(self, message: Any, depth: int) -> MilOperation:
        name = message.outputs[0].name if message.outputs else ""
        where = f"{message.type[:80]} {name[:80]!r}"
        attributes = {
            key: self._values.read(value, f"{where}, attribute {key[:80]}")
            for key, value in message.attributes.items()
        }
        own = attributes.pop("name", None)
        return MilOperation(
            kind=message.type,
            name=own.value if own is not None and isinstance(own.value, str) else name,
            inputs={
                key: self._read_argument(argument, f"{where}, input {key[:80]}")
                for key, argument in message.inputs.items()
            },
            outputs=self._read_parameters(message.outputs, where),
            blocks=tuple(self._read_block(each, where, depth + 1) for each in message.blocks),
            attributes=attributes,
        )

    def _read_argument(self, message: Any, where: str) -> tuple[MilBinding, ...]:
        found: list[MilBinding] = []
        for binding in message.arguments:
            kind = binding.WhichOneof("binding")
            if kind == "name":
                found.append(MilReference(binding.name))
            elif kind == "value":
                found.append(self._values.read(binding.value, where))
            else:
                raise CoremlPayloadError(f"{where} has an empty binding")
        return tuple(found)

    def _read_parameters(self, messages: Any, where: str) -> tuple[MilParameter, ...]:
        return tuple(
            MilParameter(each.name, values.read_type(each.type, f"{where}, {each.name[:80]!r}"))
            for each in messages
        )
