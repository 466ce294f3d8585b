"""Prints a program and its outputs to a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.execution.any_program import bind_inputs
from harness.execution.any_program.description import MethodFacts, ProgramFacts, ValueFacts
from reports import text
from reports.console import new_grid, new_table, print_section, safe_text

if TYPE_CHECKING:
    from rich.console import Console

    from harness.execution.any_program.delegate_runtimes import DelegateRuntime
    from harness.execution.program import Program
    from harness.model.backend import Execution


def show(path: Path, program: ProgramFacts, out: Console) -> None:
    """Print the contents of a program."""
    out.rule(safe_text(str(path), "bold"), align="left")
    grid = new_grid()
    named = program.named_data
    for name, value in (
        ("size", _bytes(program.bytes)),
        ("constants", _format_amount(program.constants.count, program.constants.bytes, "tensor")),
        (
            "initial state",
            _format_amount(program.initial_state.count, program.initial_state.bytes, "buffer"),
        ),
        ("named data", _format_amount(len(named), sum(named.values()), "blob")),
    ):
        grid.add_row(name, value)
    if program.external:
        names = ", ".join(program.external[:3]) + (" …" if len(program.external) > 3 else "")
        what = text.count(len(program.external), "constant")
        grid.add_row("external", safe_text(f"{what} in a separate .ptd: {names}", "yellow"))
    out.print(grid)
    constant = [method for method in program.methods if _is_constant(method)]
    for method in program.methods:
        if method not in constant:
            _method(method, out)
    if constant:
        print_section(out, "methods that return a constant")
        grid = new_grid()
        for method in constant:
            grid.add_row(safe_text(method.name), safe_text(_type(method.outputs[0])))
        out.print(grid)


def _is_constant(method: MethodFacts) -> bool:
    return not method.inputs and not method.instructions and len(method.outputs) == 1


def _method(method: MethodFacts, out: Console) -> None:
    print_section(out, f"method {method.name}")
    memory = ", ".join(
        _bytes(one.bytes) + (f" on {one.device}" if one.device != "cpu" else "")
        for one in method.memory
    )
    out.print(f"{text.count(method.instructions, 'instruction')}, planned memory: {memory or '0'}")
    if method.problem:
        out.print(safe_text(method.problem, "bold red"))
    values = new_table("", "", "name", "type")
    for role, found in (("input", method.inputs), ("output", method.outputs)):
        for number, value in enumerate(found):
            values.add_row(role, str(number), safe_text(value.name), safe_text(_type(value)))
    out.print(values)
    if method.delegates:
        delegates = new_table("", "delegate", "payload", "calls", "executed here")
        for number, one in enumerate(method.delegates):
            here = "no: " + one.reason if one.runtime == "none" else one.runtime
            style = "bold red" if one.runtime == "none" else ""
            row = (safe_text(one.id), _bytes(one.bytes), str(one.calls), safe_text(here, style))
            delegates.add_row(str(number), *row)
        out.print(delegates)
    if method.kernels:
        kernels = new_table("kernel", "calls", "in the runtime here")
        for kernel in method.kernels:
            has = safe_text("yes") if kernel.here else safe_text("no", "bold red")
            kernels.add_row(safe_text(kernel.name), str(kernel.calls), has)
        out.print(kernels)
    for number, one in enumerate(method.delegates):
        if one.listing:
            print_section(out, f"{one.id}, delegate {number} of {method.name}")
            for line in one.listing:
                # A listing has its own columns.
                out.print(safe_text(line), soft_wrap=True, highlight=False)


def show_outputs(
    program: Program, execution: Execution, executors: Mapping[str, DelegateRuntime], out: Console
) -> None:
    """Print which runtimes executed a program, and a row for each output of each call."""
    parts = [f"{delegate} {one.runtime}" for delegate, one in executors.items()]
    kernels = len(program.plan.operators)
    if kernels or not parts:
        parts.append(f"{text.count(kernels, 'kernel')} of the ExecuTorch runtime")
    out.print(safe_text(f"{program.plan.name}: {execution.runtime} ({', '.join(parts)})", "bold"))
    names = bind_inputs.list_output_names(program.plan)
    several = len(execution.outputs) > 1
    table = new_table(
        *(["call"] if several else []), "output", "name", "type", "min", "max", "mean", "finite"
    )
    for call, outputs in enumerate(execution.outputs):
        for number, (name, value) in enumerate(zip(names, outputs, strict=True)):
            prefix = [str(call)] if several else []
            table.add_row(*prefix, str(number), safe_text(name), *_figures(value))
    out.print(table)


def _figures(value: Any) -> Sequence[str]:
    """Format type, minimum, maximum, mean, and whether all values are finite."""
    import torch

    if not isinstance(value, torch.Tensor):
        return (f"{type(value).__name__} {value!r}", "", "", "", "")
    kind = f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    if value.numel() == 0 or value.dtype.is_complex:
        return (kind, "", "", "", "")
    wide = value.double()
    finite = wide.isfinite()
    share = "yes" if bool(finite.all()) else f"no: {int((~finite).sum())} of {value.numel()} not"
    figures = (text.measure(float(one)) for one in (wide.min(), wide.max(), wide.mean()))
    return (kind, *figures, share)


def _type(value: ValueFacts) -> str:
    if value.type != "tensor":
        return f"{value.type} {value.value!r}"
    is_row_major = value.dim_order == list(range(len(value.dim_order)))
    order = "" if is_row_major else f", dim order {tuple(value.dim_order)}"
    return f"{value.dtype} {'at most ' if value.dynamic else ''}{tuple(value.shape)}{order}"


def _format_amount(count: int, size: int, noun: str) -> str:
    return f"{text.count(count, noun)}, {_bytes(size)}" if count else "none"


def _bytes(size: int) -> str:
    return f"{size:,} B"
