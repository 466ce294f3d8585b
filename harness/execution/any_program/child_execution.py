"""In the child of :mod:`harness.execution.foreign_programs`: executes programs on backends."""

from __future__ import annotations

from pathlib import Path

import msgspec

from harness.vendors.quiet import silence_vendors


def answer(request: bytes) -> bytes:
    """Execute a :class:`~harness.execution.foreign_programs.Task` and answer with a Result."""
    silence_vendors()  # before they are imported, which they log and warn of
    from harness.execution import foreign_programs
    from harness.execution.any_program.native_stderr import printed_to
    from harness.execution.any_program.run import run_here
    from harness.model import registry

    task = msgspec.msgpack.decode(request, type=foreign_programs.Task)
    calls = [tuple(foreign_programs.unpack(values)) for values in task.calls]
    program = Path(task.program).read_bytes()
    with printed_to(task.log):
        if task.backend:
            execution = registry.backend(task.backend).execute(program, calls)
        else:
            execution = run_here(program, calls, task.method)
    outputs = [foreign_programs.pack(values) for values in execution.outputs]
    return msgspec.msgpack.encode(foreign_programs.Result(execution.runtime, outputs))
