"""Check the properties that a pass must keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import torch
from executorch.exir.serde import serialize as serde
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind

from harness.errors import describe
from harness.execution.operators import op_name
from harness.model.recipe import KnownPass
from harness.passes.equality import describe_difference
from harness.passes.interpreter import ObservedRun, observe
from harness.passes.pass_log import ProgramRewrite
from harness.record.cell import PassProperty

Bounds = Callable[[], Sequence[Sequence["torch.Tensor | None"]]]
"""Largest accepted change of each output of each call; None where it must be identical."""


Calls: TypeAlias = Sequence[Sequence[Any]]
"""Values per call."""


class PropertySkipped(Exception):
    """The reason why a property cannot be checked for a program."""


@dataclass(frozen=True)
class PassCheck:
    """Input of the properties: the programs, and the results of running them.

    Attributes:
        rewrite: the program before and after.
        calls: the leaves of the inputs of each call.
        known: the passes, which declare properties that they do not keep.
        changes: the number of calls before and after, for some operators.
        bounds: bounds of outputs, for passes that round.
        meanings: implementations of operators without a kernel, by name.
    """

    rewrite: ProgramRewrite
    calls: Calls
    known: Sequence[KnownPass]
    changes: Mapping[str, tuple[int, int]]
    bounds: Bounds | None = None
    meanings: Mapping[str, Callable[..., Any]] = field(default_factory=dict)

    @cached_property
    def before(self) -> ObservedRun:
        """The run of the program before the passes."""
        return observe(self.rewrite.before, self.calls, self.meanings)

    @cached_property
    def after(self) -> ObservedRun:
        """The run of the program after the passes."""
        return observe(self.rewrite.after, self.calls, self.meanings)

    @property
    def rounds(self) -> bool:
        """Whether a pass declares that it rounds."""
        return any(one.rounds for one in self.known)


def check_properties(pass_check: PassCheck) -> list[PassProperty]:
    """Return every property by name: kept, broken, or not checked and why."""
    found = []
    for name, check in _PROPERTIES.items():
        try:
            problem = check(pass_check)
        except PropertySkipped as reason:
            found.append(PassProperty(name=name, holds=None, detail=str(reason)))
        except Exception as error:
            # The program after the pass cannot be run, saved or passed again.
            found.append(PassProperty(name=name, holds=False, detail=describe(error)))
        else:
            found.append(PassProperty(name=name, holds=problem is None, detail=problem or ""))
    return found


def _check_outputs(pass_check: PassCheck) -> str | None:
    bounds = pass_check.bounds() if pass_check.rounds and pass_check.bounds is not None else None
    found = _find_difference(pass_check.before.outputs, pass_check.after.outputs, bounds)
    return None if found is None else "output {} of call {} {}".format(*found)


def _find_difference(
    before: Calls, after: Calls, bounds: Sequence[Sequence[torch.Tensor | None]] | None = None
) -> tuple[int, int, str] | None:
    """Return the first value that changed: its position, its call, and a description."""
    for call, (were, are) in enumerate(zip(before, after, strict=True)):
        if len(were) != len(are):
            return min(len(were), len(are)), call, f"is of {len(are)}, was of {len(were)}"
        for at, (one, other) in enumerate(zip(were, are, strict=True)):
            problem = describe_difference(one, other, None if bounds is None else bounds[call][at])
            if problem is not None:
                return at, call, problem
    return None


def _check_signature(pass_check: PassCheck) -> str | None:
    before, after = pass_check.rewrite.before, pass_check.rewrite.after
    taken = [node.name for node in after.graph.nodes if node.op == "placeholder"]
    named = [spec.arg.name for spec in after.graph_signature.input_specs]
    if taken != named:
        return f"the graph takes {_join(taken)}, the signature says {_join(named)}"
    (output,) = (node for node in after.graph.nodes if node.op == "output")
    returned = [each.name for each in output.args[0] if isinstance(each, torch.fx.Node)]
    named = [spec.arg.name for spec in after.graph_signature.output_specs if _is_node(spec)]
    if returned != named:
        return f"the graph returns {_join(returned)}, the signature says {_join(named)}"
    for part, get_part in _SIGNATURE.items():
        one, other = get_part(before), get_part(after)
        if one != other:
            return f"{part}: {_join(other)}, was {_join(one)}"
    return None


def _is_node(spec: Any) -> bool:
    return not hasattr(spec.arg, "value")  # a program may return a constant


_SIGNATURE: dict[str, Callable[[ExportedProgram], list[Any]]] = {
    "inputs": lambda program: list(program.graph_signature.user_inputs),
    "kinds of outputs": lambda program: [
        spec.kind.name for spec in program.graph_signature.output_specs
    ],
    "changed buffers": lambda program: sorted(program.graph_signature.buffers_to_mutate.values()),
    "changed inputs": lambda program: sorted(
        program.graph_signature.user_inputs_to_mutate.values()
    ),
    "dtypes and shapes of outputs": lambda program: [
        _describe_type(spec.arg.name, program)
        for spec in program.graph_signature.output_specs
        if spec.kind is OutputKind.USER_OUTPUT and _is_node(spec)
    ],
}


def _describe_type(name: str, program: ExportedProgram) -> str:
    """Return dtype and shape of a value, symbolic sizes as they are spelled."""
    node = next(node for node in program.graph.nodes if node.name == name)
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    return f"{value.dtype}{list(map(str, value.shape))}"


def _check_metadata(pass_check: PassCheck) -> str | None:
    was, now = pass_check.before.wrong, pass_check.after.wrong
    fresh = [problem for name, problem in now.items() if name not in was]
    return "; ".join(fresh[:3]) or None


def _check_stack_traces(pass_check: PassCheck) -> str | None:
    before, after = pass_check.rewrite.before, pass_check.rewrite.after
    if _find_untraced(before):
        raise PropertySkipped("nodes have no stack trace before it either")
    missing = _find_untraced(after)
    if missing:
        return f"no stack trace: {_join(missing)}"
    return None


def _find_untraced(program: ExportedProgram) -> list[str]:
    return [
        node.name
        for node in program.graph.nodes
        if node.op == "call_function" and not node.meta.get("stack_trace")
    ]


def _check_mutation(pass_check: PassCheck) -> str | None:
    if (found := _find_difference(pass_check.before.inputs, pass_check.after.inputs)) is not None:
        return "input {} after call {} {}".format(*found)
    program = pass_check.rewrite.before
    before = {**program.state_dict, **program.constants, **pass_check.before.state}
    rounds = pass_check.rounds and program.graph_signature.buffers_to_mutate
    for name, value in pass_check.after.state.items():
        if name not in before or (rounds and name in rounds.values()):
            continue  # added by the pass, or judged by the outputs of later calls
        if (problem := describe_difference(before[name], value, None)) is not None:
            return f"{name} after the last call {problem}"
    return None


def _check_aliasing(pass_check: PassCheck) -> str | None:
    shared = pass_check.after.shared - pass_check.before.shared
    if not shared:
        return None
    found = "; ".join(f"{one} and {other}" for one, other in sorted(shared))
    if any(one.aliases for one in pass_check.known):
        raise PropertySkipped(f"it declares that values may share memory: {found}")
    return f"share memory: {found}"


def _check_idempotence(pass_check: PassCheck) -> str | None:
    if not all(one.idempotent for one in pass_check.known):
        raise PropertySkipped("it declares that a second time changes more")
    once = _count_operators(pass_check.rewrite.after)
    twice = _count_operators(pass_check.rewrite.apply_again())
    return None if once == twice else f"a second time changes more: {_list_changes(once, twice)}"


def _check_verifier(pass_check: PassCheck) -> str | None:
    try:
        pass_check.rewrite.before.validate()  # type: ignore[no-untyped-call]
    except Exception as error:
        raise PropertySkipped(
            f"the program before it is refused as well: {describe(error)[:200]}"
        ) from error
    if any(one.in_place for one in pass_check.known):
        raise PropertySkipped("it declares that it writes in place, which the edge dialect has not")
    pass_check.rewrite.after.validate()  # type: ignore[no-untyped-call]
    pass_check.rewrite.after.graph.lint()
    return None


def _check_serialization(pass_check: PassCheck) -> str | None:
    if any(one.in_place for one in pass_check.known):
        raise PropertySkipped("it declares that it writes in place, which the edge dialect has not")
    try:
        _save_and_load(pass_check.rewrite.before)
    except Exception as error:
        raise PropertySkipped(
            f"the program before it cannot be saved and loaded either: {describe(error)[:200]}"
        ) from error
    loaded = observe(
        _save_and_load(pass_check.rewrite.after), pass_check.calls, pass_check.meanings
    )
    found = _find_difference(pass_check.after.outputs, loaded.outputs)
    return None if found is None else "output {} of call {}, saved and loaded, {}".format(*found)


def _save_and_load(program: ExportedProgram) -> ExportedProgram:
    loaded: ExportedProgram = serde.deserialize(serde.serialize(program))
    return loaded


def _check_node_counts(pass_check: PassCheck) -> str | None:
    before = _count_operators(pass_check.rewrite.before)
    after = _count_operators(pass_check.rewrite.after)
    for name, (had, has) in pass_check.changes.items():
        if (before[name], after[name]) != (had, has):
            return f"{name}: {before[name]} -> {after[name]}, expected {had} -> {has}"
    return None


_PROPERTIES: dict[str, Callable[[PassCheck], str | None]] = {
    "outputs": _check_outputs,
    "signature": _check_signature,
    "metadata": _check_metadata,
    "stack traces": _check_stack_traces,
    "mutation": _check_mutation,
    "aliasing": _check_aliasing,
    "idempotence": _check_idempotence,
    "verifier": _check_verifier,
    "serialization": _check_serialization,
    "node counts": _check_node_counts,
}


def count_changed_operators(rewrite: ProgramRewrite) -> dict[str, tuple[int, int]]:
    """Return the number of calls before and after, for operators where passes changed it."""
    before, after = _count_operators(rewrite.before), _count_operators(rewrite.after)
    return {
        name: (before[name], after[name])
        for name in sorted(before | after)
        if before[name] != after[name]
    }


def _count_operators(program: ExportedProgram) -> Counter[str]:
    """Count the calls of each operator, in branches and loops as well."""
    return Counter(
        op_name(node.target)
        for module in program.graph_module.modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
        if node.op == "call_function"
    )


def _list_changes(once: Counter[str], twice: Counter[str]) -> str:
    return ", ".join(
        f"{name} {once[name]} -> {twice[name]}"
        for name in sorted(once | twice)
        if once[name] != twice[name]
    )


def _join(items: Sequence[Any]) -> str:
    shown = ", ".join(map(str, items[:6]))
    return f"[{shown}{', ...' if len(items) > 6 else ''}]"
