"""Run programs with the OpenVINO delegate in a child process; define its requests and results.

The environment of the child names OpenVINO's library and limits the instruction sets of its CPU
plugin. Both are read once in a process. A damaged payload may end the process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from harness.execution.foreign_programs import ExecutionRequest


class PrecisionQuery(msgspec.Struct, tag=True):
    """A request for the precision in which the CPU plugin computes float32 programs."""


class NativeRun(msgspec.Struct, tag=True):
    """A request to execute a program; the answer is an encoded ``ExecutionResponse``."""

    execution: ExecutionRequest


class ListingRequest(msgspec.Struct, tag=True):
    """A request for the operations of a payload; the answer is a list of lines.

    Attributes:
        payload: path of a file with the payload.
    """

    payload: str


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
    decoded = msgspec.msgpack.decode(request, type=PrecisionQuery | ListingRequest | NativeRun)
    if isinstance(decoded, PrecisionQuery):
        return msgspec.msgpack.encode(_query_precision())
    if isinstance(decoded, ListingRequest):
        return msgspec.msgpack.encode(_list_operations(Path(decoded.payload).read_bytes()))
    from harness.execution.any_program import child_execution

    return child_execution.answer(msgspec.msgpack.encode(decoded.execution))


def _query_precision() -> PrecisionAnswer:
    import openvino

    hint = openvino.Core().get_property("CPU", "INFERENCE_PRECISION_HINT")
    return PrecisionAnswer(hint.get_type_name(), openvino.get_version())


def _list_operations(payload: bytes) -> list[str]:
    """Compile a payload as the delegate does; return a line for each operation of the plugin."""
    import io

    import openvino

    compiled = openvino.Core().import_model(io.BytesIO(payload), "CPU")
    return [
        f"{at:>5}  {_describe(operation)}"
        for at, operation in enumerate(compiled.get_runtime_model().get_ordered_ops())
    ]


def _describe(operation: Any) -> str:
    facts = operation.get_rt_info()

    def fact(name: str) -> str:
        return str(facts[name].value) if name in facts else ""

    sizes = ", ".join(str(each.get_partial_shape()) for each in operation.outputs())
    # The names of the ATen nodes that the frontend converted, once each, without OpenVINO's own.
    sources = dict.fromkeys(
        part.partition("/")[0] for part in fact("originalLayersNames").split(",") if part
    )
    return (
        f"{fact('layerType'):<16} {sizes} {fact('primitiveType')} of {', '.join(sources)}".rstrip()
    )
