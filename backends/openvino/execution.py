"""Execute programs natively in child processes that have OpenVINO's environment variables."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from backends.openvino.library import FLOAT32_ISA, ISA_VARIABLE, LIBRARY_VARIABLE, find_library
from backends.openvino.served import (
    ListingRequest,
    NativeRun,
    PrecisionAnswer,
    PrecisionQuery,
)
from harness import Inputs, ProgramError
from harness.backend_api import ChildProcess, DelegatePayload, Execution, Program
from harness.errors import MissingKernels, printable
from harness.execution import foreign_programs
from harness.execution.native.runtime_log import extract_failure
from harness.execution.operators import find_missing_kernels

_QUERY_SECONDS = 60.0


def execute(program: bytes, calls: Sequence[Inputs]) -> Execution:
    """Load a program once in a child process and run it for each call.

    Args:
        program: the bytes of the ``.pte``.
        calls: flat inputs of each call.

    Raises:
        MissingKernels: the runtime has no kernels for fallback nodes.
        ProgramError: the program is rejected, ends the child, or exceeds the time limit.
    """
    parsed = Program(program)
    if missing := find_missing_kernels(parsed.plan):
        raise MissingKernels(missing)
    child = _child(max(map(_read_limit, parsed.delegates), default=""))
    with tempfile.TemporaryDirectory(prefix="conform-") as folder:
        file, log = Path(folder, "program.pte"), Path(folder, "log")
        file.write_bytes(program)
        log.touch()
        packed = [foreign_programs.pack_values(inputs) for inputs in calls]
        request = NativeRun(
            foreign_programs.ExecutionRequest(str(file), packed, "", parsed.plan.name, str(log))
        )
        try:
            answer = child.ask(
                msgspec.msgpack.encode(request), foreign_programs.DEFAULT_TIMEOUT_SECONDS
            )
        except ProgramError as error:
            said = printable(extract_failure(log.read_text("utf-8", "replace")))
            if not said or "the runtime says" in str(error):
                raise
            raise type(error)(f"{error} (the runtime says: {said})") from error
    try:
        response = msgspec.msgpack.decode(answer, type=foreign_programs.ExecutionResponse)
    except msgspec.MsgspecError as error:
        raise ProgramError(f"the OpenVINO runtime sent a malformed answer: {error}") from error
    outputs = [foreign_programs.unpack_values(values) for values in response.outputs]
    return Execution(outputs, response.runtime)


def query_precision() -> PrecisionAnswer:
    """Ask the CPU plugin in which precision it computes float32 programs on this processor.

    Raises:
        ProgramError: OpenVINO does not load.
    """
    answer = _child("").ask(msgspec.msgpack.encode(PrecisionQuery()), _QUERY_SECONDS)
    return msgspec.msgpack.decode(answer, type=PrecisionAnswer)


def list_operations(payload: DelegatePayload) -> list[str]:
    """List the operations of the CPU plugin for a payload, a line each.

    Raises:
        ProgramError: OpenVINO does not load the payload, or it ends the child.
    """
    with tempfile.NamedTemporaryFile(suffix=".blob") as file:
        file.write(payload.data)
        file.flush()
        request = msgspec.msgpack.encode(ListingRequest(file.name))
        answer = _child(_read_limit(payload)).ask(request, _QUERY_SECONDS)
    return msgspec.msgpack.decode(answer, type=list[str])


def _read_limit(payload: DelegatePayload) -> str:
    """Return the instruction set that a payload is limited to; empty for no limit."""
    is_limited = payload.compile_specs.get(ISA_VARIABLE) == FLOAT32_ISA.encode()
    return FLOAT32_ISA if is_limited else ""


@functools.cache
def _child(max_isa: str) -> ChildProcess:
    """Return the child for an instruction set; empty for all that the processor has."""
    environment = {LIBRARY_VARIABLE: str(find_library())}
    if max_isa:
        environment[ISA_VARIABLE] = max_isa
    return ChildProcess(
        Path(__file__).with_name("served.py"),
        "the OpenVINO runtime",
        environment,
        limit_memory=True,
    )
