"""In the child of :mod:`harness.execution.foreign`: executes programs on backends."""

from __future__ import annotations

from pathlib import Path

import msgspec

from harness.private.vendors import silence_vendors


def answer(request: bytes) -> bytes:
    """Execute a :class:`~harness.execution.foreign.Task` and answer with a Result."""
    silence_vendors()  # before they are imported, which they log and warn of
    from harness import registry
    from harness.execution import foreign
    from harness.execution.anywhere.run import run_here
    from harness.execution.anywhere.stderr import printed_to

    task = msgspec.msgpack.decode(request, type=foreign.Task)
    calls = [tuple(foreign.unpack(values)) for values in task.calls]
    program = Path(task.program).read_bytes()
    with printed_to(task.log):
        if task.backend:
            execution = registry.backend(task.backend).execute(program, calls)
        else:
            execution = run_here(program, calls, task.method)
    outputs = [foreign.pack(values) for values in execution.outputs]
    return msgspec.msgpack.encode(foreign.Result(execution.runtime, outputs))
