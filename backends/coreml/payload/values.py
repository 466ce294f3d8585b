"""Read types and constants of a MIL program from their protobuf messages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from backends.coreml.payload import dtypes
from backends.coreml.payload.blobs import WeightFile, decode
from backends.coreml.payload.program import (
    CoremlPayloadError,
    MilConstant,
    MilListType,
    MilNumber,
    MilStateType,
    MilTensorType,
    MilType,
)

# A fileName begins with the folder of the model, under this name.
_MODEL_PATH = "@model_path/"

# The field of a TensorValue that has the elements of a type: create_tensor_value in coremltools'
# converters/mil/backend/mil/helper.py. All other types are stored as bytes.
_FIELDS = {
    dtypes.BOOL: "bools",
    dtypes.STRING: "strings",
    dtypes.FP32: "floats",
    dtypes.FP64: "doubles",
    dtypes.INT16: "ints",
    dtypes.UINT16: "ints",
    dtypes.INT32: "ints",
    dtypes.INT64: "longInts",
}
_MOST_DIMENSIONS = 16
# Far beyond any memory; sizes stay exact in int64.
_MOST_ELEMENTS = 2**48


def read_type(message: Any, where: str) -> MilType:
    """Return the type that a message describes.

    Raises:
        CoremlPayloadError: it is malformed, or of a kind that models do not use.
    """
    kind = message.WhichOneof("type")
    if kind == "tensorType":
        return _read_tensor_type(message.tensorType, where)
    if kind == "listType":
        element = read_type(message.listType.type, where)
        length = message.listType.length
        known = length.constant.size if length.WhichOneof("dimension") == "constant" else None
        if isinstance(element, MilTensorType):
            return MilListType(element, known)
    if kind == "stateType":
        wrapped = read_type(message.stateType.wrappedType, where)
        if isinstance(wrapped, MilTensorType) and None not in wrapped.shape:
            return MilStateType(wrapped)
    raise CoremlPayloadError(f"{where}: its type is no tensor, list of tensors or static state")


def _read_tensor_type(message: Any, where: str) -> MilTensorType:
    dtype = dtypes.BY_NUMBER.get(message.dataType)
    if dtype is None:
        raise CoremlPayloadError(f"{where} has the unknown data type {message.dataType}")
    if message.rank != len(message.dimensions) or message.rank > _MOST_DIMENSIONS:
        raise CoremlPayloadError(
            f"{where} has rank {message.rank} and {len(message.dimensions)} dimensions"
        )
    shape: list[int | None] = []
    for dimension in message.dimensions:
        kind = dimension.WhichOneof("dimension")
        if kind == "constant":
            shape.append(dimension.constant.size)
        elif kind == "unknown" and not dimension.unknown.variadic:
            shape.append(None)
        else:
            raise CoremlPayloadError(f"{where} has a dimension without a size")
    if math.prod(size or 1 for size in shape) > _MOST_ELEMENTS:
        raise CoremlPayloadError(f"{where} has shape {shape}, too many elements")
    return MilTensorType(dtype, tuple(shape))


class ValueReader:
    """Reads constants; those in weight files are found by path."""

    def __init__(self, files: Mapping[str, memoryview]) -> None:
        """Take the files beside the model, by path from the model's folder."""
        self._files = files
        self._weights: dict[str, WeightFile] = {}

    def read(self, message: Any, where: str) -> MilConstant:
        """Return a constant.

        Raises:
            CoremlPayloadError: it is malformed, or the weight file does not have it.
        """
        type_ = read_type(message.type, where)
        if isinstance(type_, MilStateType):
            raise CoremlPayloadError(f"{where} is a constant state")
        kind = message.WhichOneof("value")
        if kind == "blobFileValue":
            return self._read_blob(message.blobFileValue, type_, where)
        if kind != "immediateValue":
            raise CoremlPayloadError(f"{where} has no value")
        immediate = message.immediateValue
        if isinstance(type_, MilListType):
            if immediate.WhichOneof("value") != "list":
                raise CoremlPayloadError(f"{where} is a list without a list of values")
            items = [self.read(each, where).value for each in immediate.list.values]
            return MilConstant(type_, tuple(_require_number(item, where) for item in items))
        if immediate.WhichOneof("value") != "tensor":
            raise CoremlPayloadError(f"{where} is a tensor without elements")
        return MilConstant(type_, _read_immediate(immediate.tensor, type_, where))

    def _read_blob(
        self, message: Any, type_: MilTensorType | MilListType, where: str
    ) -> MilConstant:
        if isinstance(type_, MilListType) or type_.dtype not in dtypes.BLOB_NUMBERS:
            raise CoremlPayloadError(f"{where}: {type_} is in no weight file")
        shape = _require_static(type_, where)
        name = message.fileName
        if not name.startswith(_MODEL_PATH):
            raise CoremlPayloadError(f"{where} is in {name[:80]!r}, expected {_MODEL_PATH}...")
        path = name.removeprefix(_MODEL_PATH)
        if path not in self._weights:
            if path not in self._files:
                raise CoremlPayloadError(f"{where} is in {path[:80]!r}, which does not exist")
            self._weights[path] = WeightFile(path, self._files[path])
        data = self._weights[path].read(message.offset, type_.dtype, shape)
        value = decode(data, type_.dtype, shape)
        return MilConstant(type_, value.item() if not shape else value, data)


def _read_immediate(message: Any, type_: MilTensorType, where: str) -> MilNumber | torch.Tensor:
    """Return the elements that a message has itself."""
    shape, dtype = _require_static(type_, where), type_.dtype
    field = _FIELDS.get(dtype, "bytes")
    found = message.WhichOneof("value")
    count = math.prod(shape)
    if found is None and count == 0:
        found = field
    if found != field:
        raise CoremlPayloadError(f"{where}: {type_} has its elements in {found!r}, not {field!r}")
    elements = getattr(message, field).values
    if field == "bytes":
        expected = (count * dtype.bits + 7) // 8
        if len(elements) != expected:
            raise CoremlPayloadError(f"{where} has {len(elements)} bytes, {type_} needs {expected}")
        value = decode(elements, dtype, shape)
        return value if shape else _to_number(value)
    if len(elements) != count:
        raise CoremlPayloadError(f"{where} has {len(elements)} elements, {type_} needs {count}")
    if dtype.storage is None:
        if shape:
            raise CoremlPayloadError(f"{where} is a tensor of strings")
        return str(elements[0])
    try:
        value = torch.tensor(list(elements), dtype=dtype.storage).view(shape)
    except (RuntimeError, OverflowError) as error:
        raise CoremlPayloadError(f"{where}: an element is no {dtype}: {error}") from None
    return value if shape else _to_number(value)


def _to_number(value: torch.Tensor) -> MilNumber:
    number: MilNumber = value.item()
    return number


def _require_number(value: Any, where: str) -> MilNumber:
    if isinstance(value, bool | int | float | str):
        return value
    raise CoremlPayloadError(f"{where} is a list of tensors")


def _require_static(type_: MilTensorType, where: str) -> tuple[int, ...]:
    shape = tuple(size for size in type_.shape if size is not None)
    if len(shape) != len(type_.shape):
        raise CoremlPayloadError(f"{where} is a constant of unknown size {type_}")
    return shape
