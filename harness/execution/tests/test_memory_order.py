"""Arguments of delegates travel in memory order."""

from __future__ import annotations

import numpy
import pytest
import torch

from harness.errors import ProgramError
from harness.execution.memory_order import read_memory, write_memory


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8, torch.int32, torch.bool])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_arrays_hold_memory_order(dtype: torch.dtype, layout: torch.memory_format) -> None:
    tensor = torch.arange(24).reshape(1, 2, 3, 4).to(dtype).contiguous(memory_format=layout)
    array = read_memory(tensor)
    expected = (1, 3, 4, 2) if layout is torch.channels_last else (1, 2, 3, 4)
    assert array.shape == expected
    again = torch.zeros_like(tensor)
    write_memory(array, again)
    assert torch.equal(again, tensor)
    assert again.stride() == tensor.stride()


def test_bfloat16_travels_as_bits() -> None:
    tensor = torch.randn(3, 2).bfloat16()
    again = torch.zeros_like(tensor)
    write_memory(read_memory(tensor), again)
    assert torch.equal(again, tensor)


def test_a_result_of_another_size_is_refused() -> None:
    with pytest.raises(ProgramError, match="planned tensor"):
        write_memory(
            read_memory(torch.zeros(3, dtype=torch.int32)), torch.zeros(3, dtype=torch.int64)
        )


def test_results_fit_their_planned_tensor_but_for_dimensions_of_size_1() -> None:
    planned = torch.zeros(2, 3)
    write_memory(numpy.arange(6, dtype=numpy.float32).reshape(1, 2, 3), planned)
    assert planned.tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(ProgramError, match=r"24 bytes float32\(3, 2\) for a planned tensor"):
        write_memory(numpy.zeros((3, 2), numpy.float32), planned)
    image = torch.zeros(1, 2, 3, 4).to(memory_format=torch.channels_last)
    write_memory(numpy.ones((1, 3, 4, 2), numpy.float32), image)
    with pytest.raises(ProgramError):
        write_memory(numpy.ones((1, 2, 3, 4), numpy.float32), image)
