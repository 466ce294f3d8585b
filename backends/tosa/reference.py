"""Execute a TOSA payload: each call runs it on the TOSA reference model, in a child process."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import torch

from backends.tosa.graph import read_root
from backends.tosa.served import TosaArray, TosaRequest, TosaResult
from harness import ProgramError
from harness.backend_api import (
    ChildProcess,
    DelegateHandle,
    DelegatePayload,
    read_memory,
    write_memory,
)

# The default of --cell-timeout: time for a whole cell.
CALL_SECONDS = 300.0

# Without the variable, a graph that the model rejects costs seconds: the model forks, and gdb
# prints a backtrace (func_print_backtrace in the model's func_debug.cc).
CHILD = ChildProcess(
    Path(__file__).with_name("served.py"),
    "the TOSA reference model",
    {"TOSA_MODEL_NO_BACKTRACE": "1"},
    limit_memory=True,
)


def load(payload: DelegatePayload) -> DelegateHandle:
    """Read the graph's interface and return a function that executes the graph.

    Raises:
        ProgramError: the payload is not a TOSA graph.
    """
    inputs, outputs = _count_interface(payload.data)
    name = hashlib.sha256(payload.data).hexdigest()
    loaded_in: int | None = None  # process id of the child that has the graph

    def send(request: TosaRequest) -> TosaResult:
        answer = CHILD.ask(msgspec.msgpack.encode(request), CALL_SECONDS)
        try:
            return msgspec.msgpack.decode(answer, type=TosaResult)
        except msgspec.MsgspecError as error:
            raise ProgramError(f"the reference model sent a malformed answer: {error}") from error

    def call(arguments: list[Any]) -> None:
        nonlocal loaded_in
        if len(arguments) != inputs + outputs:
            raise ProgramError(
                f"TOSA graph has {inputs} inputs and {outputs} outputs, "
                f"the program passes {len(arguments)} arguments"
            )
        if not all(isinstance(value, torch.Tensor) for value in arguments):
            raise ProgramError("the TOSA delegate takes and returns tensors only")
        arrays = [TosaArray.of(read_memory(tensor)) for tensor in arguments[:inputs]]
        request = TosaRequest(name, arrays)
        is_loaded = loaded_in is not None and loaded_in == CHILD.pid
        result = send(request) if is_loaded else TosaResult()
        if not result.status:
            with tempfile.NamedTemporaryFile(suffix=".tosa") as file:
                file.write(payload.data)
                file.flush()
                request.file = file.name
                result = send(request)
            loaded_in = CHILD.pid
        if result.status != "GraphStatus.TOSA_VALID":
            raise ProgramError(f"the reference model ended with {result.status}")
        if len(result.outputs) != outputs:
            raise ProgramError(
                f"the reference model returned {len(result.outputs)} outputs, the TOSA graph has "
                f"{outputs}"
            )
        for array, tensor in zip(result.outputs, arguments[inputs:], strict=True):
            try:
                result_array = array.array()
            except (TypeError, ValueError) as error:
                raise ProgramError(
                    f"the reference model returned a malformed array: {error}"
                ) from error
            write_memory(result_array, tensor)

    return call


def _count_interface(data: bytes) -> tuple[int, int]:
    """Return the number of inputs and of outputs of a graph.

    Raises:
        ProgramError: the graph cannot be read.
    """
    try:
        block = read_root(data).Regions(0).Blocks(0)
        return block.InputsLength(), block.OutputsLength()
    except ProgramError:
        raise
    except Exception as error:
        # With an offset outside the bytes, the flatbuffer's accessors raise any kind of error.
        raise ProgramError(f"the TOSA graph cannot be read: {error}") from error
