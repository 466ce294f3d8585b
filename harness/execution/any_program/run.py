"""Execute any program in a child process, each delegate by the runtime that this host has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
from harness.execution.kernels import Kernels, RuntimeKernels, get_namespace
from harness.execution.operators import find_missing_kernels
from harness.execution.program import Program
from harness.model import registry
from harness.model.backend import Execution
from harness.model.case import Inputs
from harness.vendors.executorch import PTEFile

RUNTIMES = ("native", "reference", "emulated")
"""Kinds of runtimes in order of their distance from the vendor's."""


def execute(
    program: bytes,
    calls: Sequence[Inputs],
    *,
    method: str | None = None,
    seconds: float = foreign_programs.DEFAULT_TIMEOUT_SECONDS,
) -> list[list[OutputValue]]:
    """Execute a program whose delegates have a runtime on this host: native, reference or emulated.

    Args:
        program: the bytes of a ``.pte`` from any source.
        calls: the inputs of each call, flat or nested as in the export; state persists between
            calls.
        method: name of the method; by default ``forward``, or the only one that has inputs.
        seconds: time limit for all calls.

    Returns:
        The outputs of each call, in the method's order; see
        :data:`harness.execution.execute.OutputValue`.

    Raises:
        ProgramError: the bytes are no program, this host cannot execute it, or it fails.
        InputError: the inputs do not fit the program.
    """
    parsed = load_method(program, method)
    flat = [bind_inputs.flatten_inputs(parsed, inputs) for inputs in calls]
    return run_method(program, parsed, flat, seconds).outputs


def load_method(program: bytes, method: str | None = None) -> Program:
    """Parse a program and validate one of its methods.

    Raises:
        ProgramError: the bytes are no program, or the method does not exist.
    """
    file = container.read(program)
    return Program(file, method or choose_method(file))


def choose_method(file: PTEFile) -> str:
    """Return ``forward``, or the only method that has inputs, or the only method.

    Raises:
        ProgramError: there are several candidates, or none.
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
    """Execute a method for flat inputs that fit it.

    Args:
        program: the bytes of the ``.pte``.
        parsed: the method, from :func:`load_method`.
        calls: inputs from :func:`harness.execution.any_program.bind_inputs.flatten_inputs`.
        seconds: time limit for all calls.

    Returns:
        The outputs, and the runtime of a delegate that is the furthest from the vendor's.

    Raises:
        ProgramError: this host cannot execute it, it fails, or it ends the child process.
    """
    require_runtimes(_list_delegates(parsed.plan))
    if missing := _find_missing(parsed.plan):
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
    """Execute a method in this process: natively, or interpreted if a delegate is not native."""
    parsed = Program(container.read(program), method)
    executors = require_runtimes(_list_delegates(parsed.plan))
    runtimes = {one.runtime for one in executors.values()}
    libraries: Mapping[str, Kernels] = {}
    if find_missing_kernels(parsed.plan):
        libraries = registry.kernel_libraries()
        runtimes.add("reference")
    if runtimes <= {"native"}:
        return Execution(run_native(program, calls, method), "native")
    loaders = {delegate: _create_loader(parsed, one) for delegate, one in executors.items()}
    interpreter = Interpreter(parsed, loaders, RuntimeKernels(libraries))
    outputs = [interpreter(inputs) for inputs in calls]
    return Execution(outputs, max(runtimes, key=RUNTIMES.index))


def _find_missing(plan: schema.ExecutionPlan) -> list[str]:
    """List the kernels of a plan that neither the runtime nor a backend's library has."""
    missing = find_missing_kernels(plan)
    libraries = registry.kernel_libraries() if missing else {}
    return [name for name in missing if get_namespace(name) not in libraries]


def _list_delegates(plan: schema.ExecutionPlan) -> list[str]:
    return list(dict.fromkeys(delegate.id for delegate in plan.delegates))


def _create_loader(program: Program, executor: DelegateRuntime) -> DelegateLoader:
    if executor.runtime == "native":
        return native_delegate.create_loader(program)
    return get_delegating_backend(executor.backend).loader(program)
