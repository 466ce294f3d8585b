"""Run any program: each delegate by whoever executes it here, in a child process."""

from __future__ import annotations

from collections.abc import Sequence

from executorch.exir import schema

from harness.errors import ProgramError
from harness.execution import container, foreign_programs
from harness.execution.any_program import bind_inputs, native_delegate
from harness.execution.any_program.delegate_runtimes import (
    DelegateRuntime,
    get_delegating_backend,
    require_runtimes,
)
from harness.execution.execute import DelegateLoader, Interpreter, OutputValue, run_native
from harness.execution.kernels import RuntimeKernels
from harness.execution.operators import find_missing_kernels
from harness.execution.program import Program
from harness.model.backend import Execution
from harness.model.case import Inputs
from harness.vendors.executorch import PTEFile

# The further from the vendor's runtime, the later.
_RUNTIMES = ("native", "reference", "emulated")


def execute(
    program: bytes,
    calls: Sequence[Inputs],
    *,
    method: str | None = None,
    seconds: float = foreign_programs.DEFAULT_TIMEOUT_SECONDS,
) -> list[list[OutputValue]]:
    """Run a program whose delegates have a runtime on this host: native, reference or emulated.

    Args:
        program: the bytes of a ``.pte``, whoever emitted it.
        calls: the inputs of each call, flat or nested as they were exported; state persists from
            call to call.
        method: which method; by default ``forward``, or the only one that takes inputs.
        seconds: how long all calls may take.

    Returns:
        For each call every value that the method returns, in its order; see
        :data:`harness.execution.execute.OutputValue`.

    Raises:
        ProgramError: the bytes are no program, nothing here can execute it, or it fails.
        InputError: the inputs do not fit it.
    """
    parsed = load_method(program, method)
    flat = [bind_inputs.flatten_inputs(parsed, inputs) for inputs in calls]
    return run_method(program, parsed, flat, seconds).outputs


def load_method(program: bytes, method: str | None = None) -> Program:
    """Parse a program and validate a method of it.

    Raises:
        ProgramError: it is none, or the method is not there.
    """
    file = container.read(program)
    return Program(file, method or choose_method(file))


def choose_method(file: PTEFile) -> str:
    """``forward``, or the only method that takes inputs, or the only one.

    Raises:
        ProgramError: there are several, or none.
    """
    plans = file.program.execution_plan
    names = [plan.name for plan in plans]
    busy = [plan.name for plan in plans if plan.inputs] or names
    if "forward" in names or len(busy) == 1:
        return "forward" if "forward" in names else busy[0]
    raise ProgramError(f"which method? the program has {', '.join(map(str, busy)) or 'none'}")


def run_method(
    program: bytes,
    parsed: Program,
    calls: Sequence[Inputs],
    seconds: float = foreign_programs.DEFAULT_TIMEOUT_SECONDS,
) -> Execution:
    """Run a method for flat inputs that fit it.

    Args:
        program: the bytes.
        parsed: the method, as :func:`load_method` returned it.
        calls: as :func:`harness.execution.any_program.bind_inputs.flatten_inputs` returned them.
        seconds: how long all calls may take.

    Returns:
        The outputs, and of all runtimes that took part the one furthest from the vendor's.

    Raises:
        ProgramError: nothing here can execute it, it fails, or it ends the process that ran it.
    """
    require_runtimes(_delegates(parsed.plan))
    if missing := find_missing_kernels(parsed.plan):
        raise ProgramError(
            f"the runtime has no kernel {', '.join(missing)}, which the program calls"
        )
    if outside := container.list_external_constants(parsed.file):
        raise ProgramError(
            f"constants are not in the program but in a .ptd beside it, which is not read: "
            f"{', '.join(outside[:3])}{' …' if len(outside) > 3 else ''}"
        )
    arranged = [parsed.arrange(inputs) for inputs in calls]
    return foreign_programs.execute("", program, arranged, method=parsed.plan.name, seconds=seconds)


def run_in_this_process(program: bytes, calls: Sequence[Inputs], method: str) -> Execution:
    """Run a method in this process: natively, or interpreted where a delegate is not native."""
    parsed = Program(container.read(program), method)
    executors = require_runtimes(_delegates(parsed.plan))
    runtimes = {one.runtime for one in executors.values()}
    if runtimes <= {"native"}:
        return Execution(run_native(program, calls, method), "native")
    loaders = {delegate: _loader(parsed, one) for delegate, one in executors.items()}
    interpreter = Interpreter(parsed, loaders, RuntimeKernels())
    outputs = [interpreter(inputs) for inputs in calls]
    return Execution(outputs, max(runtimes, key=_RUNTIMES.index))


def _delegates(plan: schema.ExecutionPlan) -> list[str]:
    return list(dict.fromkeys(delegate.id for delegate in plan.delegates))


def _loader(program: Program, executor: DelegateRuntime) -> DelegateLoader:
    if executor.runtime == "native":
        return native_delegate.create_loader(program)
    return get_delegating_backend(executor.backend).loader(program)
