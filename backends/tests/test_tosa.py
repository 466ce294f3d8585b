"""The TOSA delegate: memory order at the boundary, and payloads that are not TOSA."""

from __future__ import annotations

import numpy
import pytest
import torch

from backends.tosa.reference import load, store, to_array
from harness import Case, ProgramError, Tester
from harness.backend_api import DelegatePayload, Program


def payload(data: bytes) -> DelegatePayload:
    return DelegatePayload("TOSABackend", data, {}, {})


def real_payload() -> bytes:
    case = Case("add/self", lambda: (Double(), (torch.randn(2, 3),)))
    tester = Tester(case, "tosa:fp").export().lower().to_executorch().serialize()
    return Program(tester.program).delegates[0].data


class Double(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8, torch.int32, torch.bool])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_arrays_hold_memory_order(dtype: torch.dtype, layout: torch.memory_format) -> None:
    tensor = torch.arange(24).reshape(1, 2, 3, 4).to(dtype).contiguous(memory_format=layout)
    array = to_array(tensor)
    expected = (1, 3, 4, 2) if layout is torch.channels_last else (1, 2, 3, 4)
    assert array.shape == expected
    again = torch.zeros_like(tensor)
    store(array, again)
    assert torch.equal(again, tensor)
    assert again.stride() == tensor.stride()


def test_bfloat16_travels_as_bits() -> None:
    tensor = torch.randn(3, 2).bfloat16()
    again = torch.zeros_like(tensor)
    store(to_array(tensor), again)
    assert torch.equal(again, tensor)


def test_a_result_of_another_size_is_refused() -> None:
    with pytest.raises(ProgramError, match="planned tensor"):
        store(to_array(torch.zeros(3, dtype=torch.int32)), torch.zeros(3, dtype=torch.int64))


@pytest.mark.parametrize("data", [b"", b"TOSA", b"\0" * 64])
def test_a_payload_that_is_no_tosa_graph_is_refused(data: bytes) -> None:
    with pytest.raises(ProgramError, match="TOSA"):
        load(payload(data))


def test_a_call_with_other_arguments_is_refused() -> None:
    handle = load(payload(real_payload()))
    with pytest.raises(ProgramError, match="arguments"):
        handle([torch.zeros(2, 3)])


def test_the_graph_runs() -> None:
    handle = load(payload(real_payload()))
    x, out = torch.randn(2, 3), torch.zeros(2, 3)
    handle([x, out])
    assert torch.equal(out, x + x)


def test_results_fit_their_planned_tensor_but_for_dimensions_of_size_1() -> None:
    planned = torch.zeros(2, 3)
    store(numpy.arange(6, dtype=numpy.float32).reshape(1, 2, 3), planned)
    assert planned.tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(ProgramError, match=r"24 bytes float32\(3, 2\) for a planned tensor"):
        store(numpy.zeros((3, 2), numpy.float32), planned)
    image = torch.zeros(1, 2, 3, 4).to(memory_format=torch.channels_last)
    store(numpy.ones((1, 3, 4, 2), numpy.float32), image)
    with pytest.raises(ProgramError):
        store(numpy.ones((1, 2, 3, 4), numpy.float32), image)
