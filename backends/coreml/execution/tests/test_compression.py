"""Weights are decompressed as coremltools' definitions of the operations do."""

from __future__ import annotations

import numpy
import pytest
import torch
from coremltools.converters.mil.mil.ops.defs.iOS16 import constexpr_ops as ios16
from coremltools.converters.mil.mil.ops.defs.iOS18 import compression as ios18

from backends.coreml.execution.compression import CONSTEXPR
from harness import ProgramError


def _codes(low: int, high: int, *shape: int) -> torch.Tensor:
    dtype = torch.int8 if low < 0 else torch.uint8
    return torch.randint(low, high, shape, dtype=dtype, generator=torch.Generator().manual_seed(0))


def _floats(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)


def _equal(found: torch.Tensor, expected: numpy.ndarray) -> None:
    assert torch.equal(found, torch.from_numpy(numpy.ascontiguousarray(expected)).to(found.dtype))
    assert tuple(found.shape) == expected.shape


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("blocks", [(6, 4), (6, 1), (1, 1), (2, 8), (3, 2)])
@pytest.mark.parametrize("has_offset", [True, False])
def test_shift_scale(dtype: torch.dtype, blocks: tuple[int, int], has_offset: bool) -> None:
    data, scale = _codes(-8, 8, 6, 8), _floats(*blocks, dtype=dtype)
    offset = _codes(-8, 8, *blocks) if has_offset else None
    found = CONSTEXPR["constexpr_blockwise_shift_scale"](data=data, scale=scale, offset=offset)
    expected = ios18.constexpr_blockwise_shift_scale.decompress(
        data.numpy(), scale.numpy(), None if offset is None else offset.numpy()
    )
    assert found.dtype == dtype
    _equal(found, expected)


@pytest.mark.parametrize("lut_shape", [(1, 1), (6, 1), (1, 2), (3, 4)])
def test_look_up(lut_shape: tuple[int, int]) -> None:
    indices, lut = _codes(0, 16, 6, 8), _floats(*lut_shape, 16, 1)
    found = CONSTEXPR["constexpr_lut_to_dense"](indices=indices, lut=lut)
    expected = ios18.constexpr_lut_to_dense.decompress(indices.numpy(), lut.numpy(), None)
    _equal(found, expected)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_look_up_of_vectors(axis: int) -> None:
    indices, lut = _codes(0, 4, 6, 8), _floats(3, 1, 4, 2)
    found = CONSTEXPR["constexpr_lut_to_dense"](indices=indices, lut=lut, vector_axis=axis)
    expected = ios18.constexpr_lut_to_dense.decompress(
        indices.numpy(), lut.numpy(), numpy.int32(axis % 2)
    )
    _equal(found, expected)


def test_sparse() -> None:
    mask = _codes(0, 2, 5, 6)
    data = _floats(int(mask.sum()))
    found = CONSTEXPR["constexpr_sparse_to_dense"](nonzero_data=data, mask=mask)
    _equal(found, ios18.constexpr_sparse_to_dense.decompress(data.numpy(), mask.numpy()))


def test_sparse_codes() -> None:
    mask = _codes(0, 2, 4, 6)
    count = int(mask.sum())
    codes, scale = _codes(-8, 8, count), _floats(4, 1)
    outputs = CONSTEXPR["constexpr_sparse_blockwise_shift_scale"](
        data_mask=mask, nonzero_data=codes, scale=scale
    )
    expected = ios18.constexpr_sparse_blockwise_shift_scale.decompress(
        mask.numpy(), codes.numpy(), scale.numpy(), None
    )
    for found, each in zip(outputs, expected, strict=True):
        _equal(found, each)
    indices, lut = _codes(0, 4, count), _floats(1, 1, 4, 2)
    outputs = CONSTEXPR["constexpr_lut_to_sparse"](
        indices_mask=mask, indices_nonzero_data=indices, lut=lut, vector_axis=0
    )
    expected = ios18.constexpr_lut_to_sparse.decompress(
        mask.numpy(), indices.numpy(), lut.numpy(), numpy.int32(0)
    )
    for found, each in zip(outputs, expected, strict=True):
        _equal(found, each)


def test_the_forms_before_ios_18() -> None:
    codes = _codes(0, 255, 4, 6)
    scale, zero = _floats(4), _codes(0, 255, 4)
    found = CONSTEXPR["constexpr_affine_dequantize"](
        quantized_data=codes, zero_point=zero, scale=scale, axis=0
    )
    expected = ios16.constexpr_affine_dequantize.decompress(
        codes.numpy(), zero.numpy(), scale.numpy(), 0
    )
    assert torch.allclose(found, torch.from_numpy(expected), rtol=1e-6)
    packed, lut, shape = _codes(0, 255, 15), _floats(64), torch.tensor([4, 5], dtype=torch.uint32)
    found = CONSTEXPR["constexpr_lut_to_dense"](indices=packed, lut=lut, shape=shape)
    _equal(
        found, ios16.constexpr_lut_to_dense.decompress(lut.numpy(), packed.numpy(), shape.numpy())
    )
    mask = torch.tensor([0b10110010, 0b1], dtype=torch.uint8)
    data, shape = _floats(5), torch.tensor([3, 3], dtype=torch.uint32)
    found = CONSTEXPR["constexpr_sparse_to_dense"](nonzero_data=data, mask=mask, shape=shape)
    bits = numpy.unpackbits(mask.numpy(), bitorder="little")[:9].reshape(3, 3)
    assert torch.equal(found[torch.from_numpy(bits) == 1], data)
    assert (found[torch.from_numpy(bits) == 0] == 0).all()


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        ("constexpr_blockwise_shift_scale",
         {"data": _codes(0, 2, 4, 4), "scale": _floats(3, 1)}, "3 blocks do not divide"),
        ("constexpr_blockwise_shift_scale",
         {"data": _codes(0, 2, 4, 4), "scale": _floats(4)}, "has not the rank"),
        ("constexpr_lut_to_dense",
         {"indices": _codes(0, 2, 4, 4), "lut": _floats(1, 2, 1)}, "rank is not that"),
        ("constexpr_lut_to_dense",
         {"indices": _codes(0, 2, 4), "lut": _floats(4), "shape": torch.tensor([100])},
         "do not fill the shape"),
        ("constexpr_sparse_to_dense",
         {"nonzero_data": _floats(3), "mask": torch.ones(2, 2)}, "selects 4 elements"),
        ("constexpr_cast", {"source_val": _floats(3), "output_dtype": "int8"}, "casts to int8"),
    ],
)  # fmt: skip
def test_operands_that_do_not_fit_are_refused(
    kind: str, arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(ProgramError, match=message):
        CONSTEXPR[kind](**arguments)
