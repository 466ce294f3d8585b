"""Cost of faithful execution: the child process of the TOSA reference model, and the runtime's
kernels.

    python -m benchmarks.execution [CALLS]

Prints milliseconds as medians of CALLS calls (default 50): a TOSA graph run in this process and in
its child process, for a small and a large tensor; a fallback operator run by ATen and as a program
of the runtime, with the cost of loading it; and the start time of the child processes. The aim is
that a normal cell pays less than 10 ms for the child process and less than 5 ms for its fallback
operators.
"""

from __future__ import annotations

import functools
import statistics
import sys
import time
import warnings
from collections.abc import Callable

import torch
import tosa_reference_model
from rich.console import Console
from rich.table import Table

from backends.tosa import reference
from harness import Case, Tester
from harness.backend_api import AtenKernels, DelegatePayload, Interpreter, Program, RuntimeKernels
from harness.execution.kernels import Kernels
from harness.execution.native import kernel_call
from harness.pipeline.route import lower

AIM_CHILD_MS, AIM_KERNELS_MS = 10.0, 5.0
SHAPES = ((2, 3), (1, 3, 224, 224))


class Sum(torch.nn.Module):
    """One operator."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The input twice."""
        return x + x


class Chain(torch.nn.Module):
    """Five different operators that nothing delegates."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Elementary functions."""
        return torch.sin(torch.erf(torch.tanh(torch.exp(torch.cos(x)))))


def measure_milliseconds(call: Callable[[], object], count: int) -> float:
    """Return the median time of the calls after the first."""
    call()
    taken = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        taken.append((time.perf_counter() - start) * 1e3)
    return statistics.median(taken)


def lower_module(module: torch.nn.Module, target: str, *inputs: torch.Tensor) -> Program:
    """Return the lowered program of a module."""
    tester = Tester(Case("benchmark/execution", lambda: (module, inputs)), target)
    lower(tester)
    return Program(tester.program)


def run_in_process(payload: DelegatePayload, x: torch.Tensor, out: torch.Tensor) -> None:
    """Run the reference model without a child process."""
    results, _ = tosa_reference_model.run(
        payload.data, [reference.to_array(x)], initialize_variable_tensor_from_numpy=1
    )
    reference.store(results[0], out)


def measure_start(x: torch.Tensor, payload: DelegatePayload) -> float:
    """Return the seconds of a first call, which starts the child process and sends it the graph."""
    reference.CHILD.close()
    start = time.perf_counter()
    reference.load(payload)([x, torch.empty_like(x)])
    return time.perf_counter() - start


def measure_load(program: Program, kernels: Kernels, x: torch.Tensor, count: int) -> float:
    """Return the milliseconds of a new interpreter with its first call, as in a cell."""

    def cell() -> None:
        kernel_call._SHARED.clear()
        Interpreter(program, {}, kernels)((x,))

    return measure_milliseconds(cell, count)


def main(count: int = 50) -> None:
    """Measure and print."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    console = Console()
    table = Table(title="TOSA reference model, milliseconds a call")
    for column in ("input", "in process", "child", "difference"):
        table.add_column(column, justify="left" if column == "input" else "right")
    for shape in SHAPES:
        x, out = torch.randn(shape), torch.empty(shape)
        (payload,) = lower_module(Sum(), "tosa:fp", x).delegates
        started = measure_start(x, payload)
        handle = reference.load(payload)
        here = measure_milliseconds(functools.partial(run_in_process, payload, x, out), count)
        there = measure_milliseconds(functools.partial(handle, [x, out]), count)
        table.add_row(str(shape), f"{here:.2f}", f"{there:.2f}", f"{there - here:+.2f}")
    console.print(table)
    console.print(
        f"starting the child process and its first call: {started:.2f} s, once for each process"
    )
    x = torch.randn(64)
    program = lower_module(Chain(), "null:eager", x)
    operators = len(program.plan.chains[0].instructions)
    table = Table(title=f"{operators} fallback operators, milliseconds")
    for column in ("kernels", "cell with one call", "each further call"):
        table.add_column(column, justify="left" if column == "kernels" else "right")
    for name, kernels in (("ATen's", AtenKernels()), ("the runtime's", RuntimeKernels())):
        interpreter = Interpreter(program, {}, kernels)
        table.add_row(
            name,
            f"{measure_load(program, kernels, x, count):.2f}",
            f"{measure_milliseconds(functools.partial(interpreter, (x,)), count):.2f}",
        )
    console.print(table)
    console.print(
        f"aims: {AIM_CHILD_MS:.0f} ms for the child, {AIM_KERNELS_MS:.0f} ms for operators"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
