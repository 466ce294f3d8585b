"""In the child of :mod:`harness.execution.foreign`: executes programs on backends."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

import msgspec

# Before the imports: what vendors log when they are imported is nobody's concern.
logging.disable(logging.WARNING)

from harness import registry  # noqa: E402
from harness.execution import foreign  # noqa: E402
from harness.execution.anywhere.run import run_here  # noqa: E402
from harness.execution.anywhere.stderr import printed_to  # noqa: E402


def answer(request: bytes) -> bytes:
    """Execute a :class:`~harness.execution.foreign.Task` and answer with a Result."""
    # A warning would only be printed; what it says of, the parent sees or does not need.
    warnings.simplefilter("ignore")
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
