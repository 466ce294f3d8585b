"""Weight files are read as coremltools writes them."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy
import pytest
import torch
from coremltools.converters.mil.mil import types
from coremltools.libmilstoragepython import _BlobStorageWriter as BlobStorageWriter

from backends.coreml.payload import dtypes
from backends.coreml.payload.blobs import WeightFile, decode
from backends.coreml.payload.program import CoremlPayloadError, MilDtype

# Codes of a type, and the writer's method for it.
CODES = {
    dtypes.INT4: (numpy.arange(-8, 8), "write_int4_data"),
    dtypes.UINT1: (numpy.array([1, 0, 0, 1, 1, 0, 1, 0, 1, 1, 1]), "write_uint1_data"),
    dtypes.UINT2: (numpy.array([3, 0, 1, 2, 2]), "write_uint2_data"),
    dtypes.UINT3: (numpy.arange(8), "write_uint3_data"),
    dtypes.UINT4: (numpy.arange(15), "write_uint4_data"),
    dtypes.UINT6: (numpy.arange(0, 63, 5), "write_uint6_data"),
    dtypes.INT8: (numpy.array([-128, 127, 3]), "write_int8_data"),
    dtypes.UINT8: (numpy.array([0, 255, 3]), "write_uint8_data"),
    dtypes.INT16: (numpy.array([-(2**15), 2**15 - 1]), "write_int16_data"),
    dtypes.UINT16: (numpy.array([0, 2**16 - 1]), "write_uint16_data"),
    dtypes.INT32: (numpy.array([-(2**31), 2**31 - 1]), "write_int32_data"),
    dtypes.UINT32: (numpy.array([0, 2**32 - 1]), "write_uint32_data"),
    dtypes.FP32: (numpy.array([1.5, -2.25, 3e38], numpy.float32), "write_float_data"),
    dtypes.FP16: (numpy.array([1.5, -2.25, 65504], numpy.float16), "write_fp16_data"),
}


def _write(path: Path, dtype: MilDtype) -> int:
    values, method = CODES[dtype]
    if dtype is dtypes.FP16:
        values = values.view(numpy.uint16)
    elif dtype is not dtypes.FP32:
        values = values.astype(types.nptype_from_builtin(types.string_to_builtin(dtype.name)))
    offset: int = getattr(BlobStorageWriter(str(path)), method)(values)
    return offset


@pytest.mark.parametrize("dtype", dtypes.BLOB_NUMBERS, ids=str)
def test_each_type_is_read_as_the_vendor_writes_it(dtype: MilDtype, tmp_path: Path) -> None:
    path = tmp_path / "weight.bin"
    offset = _write(path, dtype)
    expected = torch.from_numpy(numpy.ascontiguousarray(CODES[dtype][0])).to(dtype.storage)
    file = WeightFile("weight.bin", memoryview(path.read_bytes()))
    shape = tuple(expected.shape)
    found = decode(file.read(offset, dtype, shape), dtype, shape)
    assert found.dtype == dtype.storage
    assert torch.equal(found.double(), expected.double())


def _file(tmp_path: Path) -> tuple[bytearray, int]:
    path = tmp_path / "weight.bin"
    offset = _write(path, dtypes.UINT3)
    return bytearray(path.read_bytes()), offset


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (-60, 1, "has version 1"),
        (0, 7, "has no metadata"),
        (4, 3, "has data type 3"),
        (8, 2, "has 2 bytes"),
        (16, 2**20, "the data ends at byte"),
        (16, 2**63, "the data ends at byte"),
        (16, 3, "the data ends at byte"),
        (24, 5, "declares 5 unused bits"),
    ],
)
def test_inconsistent_metadata_is_refused(
    at: int, value: int, message: str, tmp_path: Path
) -> None:
    data, offset = _file(tmp_path)
    code = "<Q" if at >= 8 else "<I"
    struct.pack_into(code, data, offset + at, value)
    with pytest.raises(CoremlPayloadError, match=message):
        WeightFile("weight.bin", memoryview(data)).read(offset, dtypes.UINT3, (8,))


@pytest.mark.parametrize("offset", [0, 32, 65, 2**40])
def test_an_offset_that_is_no_value_is_refused(offset: int, tmp_path: Path) -> None:
    file = WeightFile("weight.bin", memoryview(_file(tmp_path)[0]))
    with pytest.raises(CoremlPayloadError, match="no position of a value"):
        file.read(offset, dtypes.UINT3, (8,))


def test_a_file_without_a_header_is_refused() -> None:
    with pytest.raises(CoremlPayloadError, match="fewer than its header"):
        WeightFile("weight.bin", memoryview(b"\0" * 63))
