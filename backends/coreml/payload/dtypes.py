"""The element types of MIL, by their numbers in programs and in weight files.

Sources: ``DataType`` in ``mlmodel/format/MIL.proto`` and ``BlobDataType`` in
``mlmodel/src/MILBlob/Blob/BlobDataType.hpp`` of coremltools.
"""

from __future__ import annotations

import torch

from backends.coreml.payload.program import MilDtype

BOOL = MilDtype("bool", torch.bool, 0)
STRING = MilDtype("string", None, 0)
FP16 = MilDtype("fp16", torch.float16, 16)
FP32 = MilDtype("fp32", torch.float32, 32)
FP64 = MilDtype("fp64", torch.float64, 64)
INT4 = MilDtype("int4", torch.int8, 4)
INT8 = MilDtype("int8", torch.int8, 8)
INT16 = MilDtype("int16", torch.int16, 16)
INT32 = MilDtype("int32", torch.int32, 32)
INT64 = MilDtype("int64", torch.int64, 64)
UINT1 = MilDtype("uint1", torch.uint8, 1)
UINT2 = MilDtype("uint2", torch.uint8, 2)
UINT3 = MilDtype("uint3", torch.uint8, 3)
UINT4 = MilDtype("uint4", torch.uint8, 4)
UINT6 = MilDtype("uint6", torch.uint8, 6)
UINT8 = MilDtype("uint8", torch.uint8, 8)
UINT16 = MilDtype("uint16", torch.uint16, 16)
UINT32 = MilDtype("uint32", torch.uint32, 32)

BY_NUMBER = {
    1: BOOL,
    2: STRING,
    10: FP16,
    11: FP32,
    12: FP64,
    21: INT8,
    22: INT16,
    23: INT32,
    24: INT64,
    25: INT4,
    31: UINT8,
    32: UINT16,
    33: UINT32,
    35: UINT4,
    36: UINT2,
    37: UINT1,
    38: UINT6,
    39: UINT3,
}
"""The element types by number in a program. Left out, because torch has no equal arithmetic or
coremltools writes none: uint64, bfloat16 and the 8-bit floats."""

BLOB_NUMBERS = {
    FP16: 1,
    FP32: 2,
    UINT8: 3,
    INT8: 4,
    INT16: 6,
    UINT16: 7,
    INT4: 8,
    UINT1: 9,
    UINT2: 10,
    UINT4: 11,
    UINT3: 12,
    UINT6: 13,
    INT32: 14,
    UINT32: 15,
}
"""The numbers of the element types that a weight file can have."""
