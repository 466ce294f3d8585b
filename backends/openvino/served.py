"""Run programs with the OpenVINO delegate in a child process; define its requests and results.

The environment of the child names OpenVINO's library and limits the instruction sets of its CPU
plugin. Both are read once in a process. A damaged payload may end the process.
"""

from __future__ import annotations

import msgspec

from harness.execution.foreign_programs import ExecutionRequest


class PrecisionQuery(msgspec.Struct, tag=True):
    """A request for the precision in which the CPU plugin computes float32 programs."""


class NativeRun(msgspec.Struct, tag=True):
    """A request to execute a program; the answer is an encoded ``ExecutionResponse``."""

    execution: ExecutionRequest


class PrecisionAnswer(msgspec.Struct):
    """The answer to a :class:`PrecisionQuery`.

    Attributes:
        precision: OpenVINO's name of the type, such as ``bf16``.
        version: OpenVINO's version.
    """

    precision: str
    version: str


def answer(request: bytes) -> bytes:
    """Answer an encoded request.

    Raises:
        ProgramError: the program is rejected.
        Exception: any other error; the supervisor gets its text.
    """
    decoded = msgspec.msgpack.decode(request, type=PrecisionQuery | NativeRun)
    if isinstance(decoded, PrecisionQuery):
        return msgspec.msgpack.encode(_query_precision())
    from harness.execution.any_program import child_execution

    return child_execution.answer(msgspec.msgpack.encode(decoded.execution))


def _query_precision() -> PrecisionAnswer:
    import openvino

    hint = openvino.Core().get_property("CPU", "INFERENCE_PRECISION_HINT")
    return PrecisionAnswer(hint.get_type_name(), openvino.get_version())
