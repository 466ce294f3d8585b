"""In the child of :mod:`harness.execution.foreign`: executes programs on backends."""

from __future__ import annotations

import logging
import warnings

import msgspec

from harness import registry
from harness.execution import foreign

logging.disable(logging.WARNING)  # what vendors say of themselves; no one asked this process


def answer(request: bytes) -> bytes:
    """Execute a :class:`~harness.execution.foreign.Task` and answer with a Result."""
    # A warning would only be printed; what it says of, the parent sees or does not need.
    warnings.simplefilter("ignore")
    task = msgspec.msgpack.decode(request, type=foreign.Task)
    calls = [tuple(foreign.unpack(values)) for values in task.calls]
    execution = registry.backend(task.backend).execute(task.program, calls)
    outputs = [foreign.pack(values) for values in execution.outputs]
    return msgspec.msgpack.encode(foreign.Result(execution.runtime, outputs))
