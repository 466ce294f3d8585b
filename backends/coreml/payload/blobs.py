"""Read values of a weight file (``weights/weight.bin``).

The file has a header of 64 bytes (count and version), then for each value 64 bytes of metadata and
its data. A program refers to the metadata by offset. Source:
``mlmodel/src/MILBlob/Blob/StorageFormat.hpp`` of coremltools. Elements of less than a byte are
packed without gaps, from the least significant bit on (``SubByteTypes.cpp``).
"""

from __future__ import annotations

import math
import struct

import numpy
import torch

from backends.coreml.payload.dtypes import BLOB_NUMBERS
from backends.coreml.payload.program import CoremlPayloadError, MilDtype

_HEADER = struct.Struct("<II")
_METADATA = struct.Struct("<IIQQQ")
_BLOCK = 64
_SENTINEL = 0xDEADBEEF
_VERSION = 2


class WeightFile:
    """The bytes of a weight file."""

    def __init__(self, path: str, data: memoryview) -> None:
        """Check the header.

        Raises:
            CoremlPayloadError: it is not the header of a weight file.
        """
        self.path = path
        self._data = data
        if len(data) < _BLOCK:
            raise CoremlPayloadError(f"{path} has {len(data)} bytes, fewer than its header")
        _, version = _HEADER.unpack_from(data)
        if version != _VERSION:
            raise CoremlPayloadError(f"{path} has version {version}, expected {_VERSION}")

    def read(self, offset: int, dtype: MilDtype, shape: tuple[int, ...]) -> memoryview:
        """Return the data of a value, as it is stored.

        Args:
            offset: the position of its metadata.
            dtype: its element type in the program.
            shape: its shape in the program.

        Raises:
            CoremlPayloadError: there is no value of that type and size.
        """
        where = f"{self.path}, offset {offset}"
        if offset < _BLOCK or offset % _BLOCK or offset + _BLOCK > len(self._data):
            raise CoremlPayloadError(f"{where} is no position of a value")
        sentinel, number, size, begin, padding = _METADATA.unpack_from(self._data, offset)
        if sentinel != _SENTINEL:
            raise CoremlPayloadError(f"{where} has no metadata: it begins with {sentinel:#x}")
        if number != BLOB_NUMBERS.get(dtype):
            raise CoremlPayloadError(
                f"{where} has data type {number}, the program declares {dtype}"
            )
        if begin % _BLOCK or begin + size > len(self._data):
            raise CoremlPayloadError(
                f"{where}: the data ends at byte {begin + size}, the file has "
                f"{len(self._data)} bytes"
            )
        bits = math.prod(shape) * dtype.bits
        if size != (bits + 7) // 8:
            raise CoremlPayloadError(
                f"{where} has {size} bytes, {dtype}{list(shape)} needs {(bits + 7) // 8}"
            )
        # Before iOS 18 the field was not initialized; it describes elements of less than a byte.
        if dtype.bits < 8 and padding != size * 8 - bits:
            raise CoremlPayloadError(
                f"{where} declares {padding} unused bits, expected {size * 8 - bits}"
            )
        return self._data[begin : begin + size]


def decode(data: bytes | memoryview, dtype: MilDtype, shape: tuple[int, ...]) -> torch.Tensor:
    """Return a tensor of the elements in stored bytes; codes of less than a byte as int8 or uint8.

    Args:
        data: exactly the bytes that the elements take.
        dtype: their type, of a number.
        shape: the shape of the tensor.
    """
    storage = dtype.storage
    assert storage is not None, "strings have no bytes"
    count = math.prod(shape)
    if count == 0:
        return torch.empty(shape, dtype=storage)
    if dtype.bits < 8:
        return torch.from_numpy(unpack_codes(data, dtype.bits, count, dtype.is_signed)).view(shape)
    # A copy: kernels may not write to the payload, and torch wants writable memory.
    return torch.frombuffer(bytearray(data), dtype=storage, count=count).view(shape)


def unpack_codes(
    data: bytes | memoryview, bits: int, count: int, is_signed: bool
) -> numpy.ndarray[tuple[int], numpy.dtype[numpy.generic]]:
    """Return codes that are packed from the least significant bit of each byte on.

    Args:
        data: at least ``count * bits`` bits.
        bits: bits of a code, 1 to 8.
        count: number of codes.
        is_signed: codes are two's complement.

    Returns:
        ``[count]``, int8 if signed, else uint8.
    """
    flat = numpy.unpackbits(
        numpy.frombuffer(data, numpy.uint8), count=count * bits, bitorder="little"
    ).reshape(count, bits)
    weights = (1 << numpy.arange(bits)).astype(numpy.int16)
    if is_signed:
        weights[-1] = -weights[-1]
    codes = flat.astype(numpy.int16) @ weights
    return codes.astype(numpy.int8 if is_signed else numpy.uint8)
