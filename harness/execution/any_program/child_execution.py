"""The file that the child process of :mod:`harness.execution.foreign_programs` serves."""

from __future__ import annotations

from pathlib import Path

import msgspec

from harness.vendors.quiet import silence_vendors


def answer(request: bytes) -> bytes:
    """Execute an encoded :class:`~harness.execution.foreign_programs.ExecutionRequest`.

    Returns:
        An encoded :class:`~harness.execution.foreign_programs.ExecutionResponse`.
    """
    silence_vendors()  # before imports that log and warn
    from harness.execution import foreign_programs
    from harness.execution.any_program.native_stderr import redirect_native_stderr
    from harness.execution.any_program.run import run_in_this_process
    from harness.model import registry

    task = msgspec.msgpack.decode(request, type=foreign_programs.ExecutionRequest)
    calls = [tuple(foreign_programs.unpack_values(values)) for values in task.calls]
    program = Path(task.program).read_bytes()
    with redirect_native_stderr(task.log):
        if task.backend:
            execution = registry.backend(task.backend).execute(program, calls)
        else:
            execution = run_in_this_process(program, calls, task.method)
    outputs = [foreign_programs.pack_values(values) for values in execution.outputs]
    return msgspec.msgpack.encode(foreign_programs.ExecutionResponse(execution.runtime, outputs))
