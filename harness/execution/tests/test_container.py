"""The file around a program: invalid and truncated files are reported; nothing is copied."""

from __future__ import annotations

import struct

import pytest
import torch
from executorch.exir import schema
from executorch.exir._serialize._flatbuffer_program import _program_to_flatbuffer

from harness import Case, Tester
from harness.errors import ProgramError
from harness.execution import container
from harness.execution.execute import Interpreter
from harness.execution.kernels import AtenKernels
from harness.execution.program import Program
from harness.pipeline.route import lower

X = torch.randn(2, 4)


@pytest.fixture(scope="session", params=["portable:fp32", "xnnpack:fp32"])
def program(request: pytest.FixtureRequest) -> bytes:
    case = Case("test/container", lambda: (torch.nn.Linear(4, 3), (X,)))
    tester = Tester(case, request.param)
    lower(tester)
    return tester.program


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "it is empty"),
        (b"a text that is no program", "bytes 4 to 8"),
        (bytes(64), "bytes 4 to 8"),
        (b"PK\3\4" + bytes(60), "zip archive"),
        (b"\0\0\0\0FT01" + bytes(60), "a .ptd"),
        (b"\0\0\0\0BP08" + bytes(60), "bundled program"),
        (b"\0\0\0\0TFL3" + bytes(60), "TensorFlow Lite"),
        (b"\0\0\0\0ET13" + bytes(60), "format ET13; the installed executorch reads ET12"),
        (b"\x30\0\0\0ET12" + bytes(60), "damaged"),
    ],
)
def test_a_file_that_is_no_program_is_named(data: bytes, problem: str) -> None:
    with pytest.raises(ProgramError, match=problem) as caught:
        container.read(data)
    assert "\n" not in str(caught.value)


def test_a_program_cut_short_anywhere_is_refused(program: bytes) -> None:
    for end in range(len(program)):
        with pytest.raises(ProgramError):
            Program(program[:end])
    Program(program)


def test_a_program_with_a_wrong_header_is_refused_or_read(program: bytes) -> None:
    """The header claims that the file is complete, so tables are read up to its end."""
    refused = 0
    size = struct.unpack_from("<Q", program, 16)[0]
    for end in range(40, size, 7):
        short = bytearray(program[:end])
        short[16:40] = struct.pack("<QQQ", end, 0, 0)
        try:
            _ = Program(bytes(short)).delegates
        except ProgramError:
            refused += 1
    assert refused > size // 7 // 2


def test_constants_payloads_and_named_data_are_not_copied(program: bytes) -> None:
    file = container.read(program)
    parts = [buffer.storage for buffer in file.program.constant_buffer]
    parts += [delegate.data for delegate in file.program.backend_delegate_data]
    parts += list(file.named_data.buffers) if file.named_data else []
    assert len(parts) > 1
    for part in parts:
        assert isinstance(part, memoryview)
        assert part.obj is program


def test_a_program_of_the_time_before_segments_is_read() -> None:
    case = Case("test/container", lambda: (torch.nn.Linear(4, 3), (X,)))
    tester = Tester(case, "null:eager")
    lower(tester)
    tables = container.read(tester.program).program
    tables.constant_segment = schema.SubsegmentOffsets(0, [])
    old = _program_to_flatbuffer(tables).data
    assert old[8:12] != b"eh00"
    expected = Interpreter(tester.program, {}, AtenKernels())((X,))
    assert torch.equal(Interpreter(old, {}, AtenKernels())((X,))[0], expected[0])
