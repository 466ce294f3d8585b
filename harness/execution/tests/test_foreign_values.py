"""Values on their way to the child that executes foreign programs, and back."""

from __future__ import annotations

import msgspec
import pytest
import torch

from harness.errors import ProgramError
from harness.execution import foreign_programs
from harness.execution.tests.test_kernels import program_of

TENSORS = [
    torch.arange(24).reshape(2, 3, 4),
    torch.randn(1, 2, 3, 4).to(memory_format=torch.channels_last),
    torch.randn(3, 5).T,
    torch.tensor(1.5),
    torch.zeros(0, 3),
    torch.randn(3).bfloat16(),
    torch.tensor([True, False]),
    torch.ones(2, dtype=torch.float8_e4m3fn),
    torch.tensor([1 + 2j]),
]


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


@pytest.mark.parametrize("tensor", TENSORS, ids=lambda t: f"{t.dtype}{tuple(t.shape)}")
def test_tensors_keep_their_bits_and_their_layout(tensor: torch.Tensor) -> None:
    sent = msgspec.msgpack.encode(
        foreign_programs.ExecutionResponse("native", [foreign_programs.pack_values([tensor])])
    )
    (again,) = foreign_programs.unpack_values(
        msgspec.msgpack.decode(sent, type=foreign_programs.ExecutionResponse).outputs[0]
    )
    assert again.dtype == tensor.dtype
    assert again.shape == tensor.shape
    assert again.stride() == tensor.stride()
    assert torch.equal(bits(again), bits(tensor))


def test_other_values_keep_their_type() -> None:
    values = [1, 1.0, True, "text", None, -(2**40), float("inf")]
    sent = msgspec.msgpack.encode(
        foreign_programs.ExecutionResponse("native", [foreign_programs.pack_values(values)])
    )
    again = foreign_programs.unpack_values(
        msgspec.msgpack.decode(sent, type=foreign_programs.ExecutionResponse).outputs[0]
    )
    assert again == values
    assert list(map(type, again)) == list(map(type, values))


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": "nn"},
        {"dtype": "qint8"},
        {"shape": (5,)},
        {"shape": (-1,)},
        {"dim_order": (1,)},
        {"dim_order": (0, 1)},
        {"data": memoryview(bytes(7))},
    ],
)
def test_what_the_child_makes_up_is_refused(change: dict[str, object]) -> None:
    value = foreign_programs.TensorValue.from_tensor(torch.ones(4))
    with pytest.raises(ProgramError, match="came in pieces"):
        msgspec.structs.replace(value, **change).to_tensor()


def test_any_backend_executes_in_the_child() -> None:
    x = torch.randn(4, 2)
    program = program_of(lambda _, x: (x.exp(), x.shape[0]), x, target="portable:fp32")
    execution = foreign_programs.execute("portable", program, [(x,)])
    assert execution.runtime == "native"
    ((output, size),) = execution.outputs
    assert torch.allclose(output, x.exp())
    assert size == 4
    with pytest.raises(ProgramError, match=r"Failed to load|not an ExecuTorch|0x"):
        foreign_programs.execute("portable", program[: len(program) // 2], [(x,)])
    assert not foreign_programs.is_child_process()
