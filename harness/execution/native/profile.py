"""Measure the time of delegates and kernels of a program in the ExecuTorch runtime (ETDump)."""

from __future__ import annotations

import statistics
import tempfile
from collections import defaultdict
from pathlib import Path

from harness.model.case import Inputs
from harness.record.program_data import RunProfile

_MAX_RUNS = 5
# Executions are as many as fit into this time, and at least one.
_SECONDS = 2.0
_DELEGATE, _KERNEL = "DELEGATE_CALL", "native_call_"
_MILLISECOND = 1e-3


def profile_program(
    data: bytes, inputs: Inputs, expected: float = 0.0, method: str = "forward"
) -> RunProfile | None:
    """Execute a program some times and measure its delegates and its kernels.

    The first execution is not measured: delegates prepare themselves there.

    Args:
        data: the bytes of the ``.pte``.
        inputs: flat inputs of one call.
        expected: seconds that an execution takes; fewer executions are measured if it takes long.
        method: which of its methods.

    Returns:
        The median over the executions; None if the runtime was built without event tracing.

    Raises:
        RuntimeError: the runtime fails.
    """
    from executorch.devtools import Inspector
    from executorch.runtime import Runtime

    # The variable keeps the bytes alive: a method reads them without a reference.
    program = Runtime.get().load_program(data, enable_etdump=True)
    loaded = program.load_method(method)
    if loaded is None:
        return None
    runs = max(1, min(_MAX_RUNS, int(_SECONDS / max(expected, _MILLISECOND))))
    for _ in range(runs + 1):
        loaded.execute(list(inputs))
    with tempfile.TemporaryDirectory(prefix="conform-") as folder:
        dump = Path(folder) / "events.etdp"
        program.write_etdump_result_to_file(str(dump), str(Path(folder) / "debug.bin"))
        if not dump.exists():
            return None
        blocks = Inspector(etdump_path=str(dump)).event_blocks
    delegates = [0.0] * runs
    fallback: dict[str, list[float]] = defaultdict(lambda: [0.0] * runs)
    for event in (event for block in blocks for event in block.events):
        is_kernel = event.name.startswith(_KERNEL)
        if event.perf_data is None or not (is_kernel or event.name == _DELEGATE):
            continue
        times = fallback[event.name.removeprefix(_KERNEL)] if is_kernel else delegates
        for run, spent in enumerate(event.perf_data.raw[-runs:]):
            times[run] += spent * _MILLISECOND
    return RunProfile(
        delegates=statistics.median(delegates),
        fallback={name: statistics.median(times) for name, times in fallback.items()},
    )
