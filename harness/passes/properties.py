"""What a pass must keep, property by property."""

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
from harness.passes.equality import unequal
from harness.passes.interpreter import Observed, observe
from harness.passes.pass_log import Rewriting
from harness.record.cell import PassProperty

Bounds = Callable[[], Sequence[Sequence["torch.Tensor | None"]]]
"""How far each output of each call may be from what it was; None where it must be the same."""


Calls: TypeAlias = Sequence[Sequence[Any]]
"""The values of each call."""


class NotLooked(Exception):
    """Why a property says nothing of a program."""


@dataclass(frozen=True)
class Proof:
    """What the properties look at: the programs, and what came of running them.

    Attributes:
        rewriting: the program before and after.
        calls: the leaves of the inputs of each call.
        known: the passes, which declare what they do not keep.
        changes: how often an operator is called before and after, for those that are named.
        bounds: of outputs, where a pass rounds.
        meanings: what operators without a kernel compute, by name.
    """

    rewriting: Rewriting
    calls: Calls
    known: Sequence[KnownPass]
    changes: Mapping[str, tuple[int, int]]
    bounds: Bounds | None = None
    meanings: Mapping[str, Callable[..., Any]] = field(default_factory=dict)

    @cached_property
    def before(self) -> Observed:
        """What the program does before the passes."""
        return observe(self.rewriting.before, self.calls, self.meanings)

    @cached_property
    def after(self) -> Observed:
        """What it does after them."""
        return observe(self.rewriting.after, self.calls, self.meanings)

    @property
    def rounds(self) -> bool:
        """Whether a pass declares that it rounds."""
        return any(one.rounds for one in self.known)


def properties(proof: Proof) -> list[PassProperty]:
    """Every property by name: kept, broken, or not looked at and why."""
    found = []
    for name, look in _PROPERTIES.items():
        try:
            problem = look(proof)
        except NotLooked as reason:
            found.append(PassProperty(name=name, holds=None, detail=str(reason)))
        except Exception as error:
            # What the pass made cannot be run, saved or passed again.
            found.append(PassProperty(name=name, holds=False, detail=describe(error)))
        else:
            found.append(PassProperty(name=name, holds=problem is None, detail=problem or ""))
    return found


def _outputs(proof: Proof) -> str | None:
    bounds = proof.bounds() if proof.rounds and proof.bounds is not None else None
    found = _differing(proof.before.outputs, proof.after.outputs, bounds)
    return None if found is None else "output {} of call {} {}".format(*found)


def _differing(
    before: Calls, after: Calls, bounds: Sequence[Sequence[torch.Tensor | None]] | None = None
) -> tuple[int, int, str] | None:
    """The first value that is not what it was: its place, its call, and how it differs."""
    for call, (were, are) in enumerate(zip(before, after, strict=True)):
        if len(were) != len(are):
            return min(len(were), len(are)), call, f"is of {len(are)}, was of {len(were)}"
        for at, (one, other) in enumerate(zip(were, are, strict=True)):
            problem = unequal(one, other, None if bounds is None else bounds[call][at])
            if problem is not None:
                return at, call, problem
    return None


def _signature(proof: Proof) -> str | None:
    before, after = proof.rewriting.before, proof.rewriting.after
    taken = [node.name for node in after.graph.nodes if node.op == "placeholder"]
    named = [spec.arg.name for spec in after.graph_signature.input_specs]
    if taken != named:
        return f"the graph takes {_list(taken)}, the signature says {_list(named)}"
    (output,) = (node for node in after.graph.nodes if node.op == "output")
    returned = [each.name for each in output.args[0] if isinstance(each, torch.fx.Node)]
    named = [spec.arg.name for spec in after.graph_signature.output_specs if _is_node(spec)]
    if returned != named:
        return f"the graph returns {_list(returned)}, the signature says {_list(named)}"
    for what, said in _SIGNATURE.items():
        one, other = said(before), said(after)
        if one != other:
            return f"{what}: {_list(other)}, was {_list(one)}"
    return None


def _is_node(spec: Any) -> bool:
    return not hasattr(spec.arg, "value")  # a constant, which a program may return


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
        _form(spec.arg.name, program)
        for spec in program.graph_signature.output_specs
        if spec.kind is OutputKind.USER_OUTPUT and _is_node(spec)
    ],
}


def _form(name: str, program: ExportedProgram) -> str:
    """Dtype, shape and dim order of a value, symbolic sizes as they are spelled."""
    node = next(node for node in program.graph.nodes if node.name == name)
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    return f"{value.dtype}{list(map(str, value.shape))}"


def _metadata(proof: Proof) -> str | None:
    was, now = proof.before.wrong, proof.after.wrong
    fresh = [problem for name, problem in now.items() if name not in was]
    return "; ".join(fresh[:3]) or None


def _traces(proof: Proof) -> str | None:
    before, after = proof.rewriting.before, proof.rewriting.after
    if _untraced(before):
        raise NotLooked("nodes have no stack trace before it either")
    missing = _untraced(after)
    if missing:
        return f"no stack trace: {_list(missing)}"
    return None


def _untraced(program: ExportedProgram) -> list[str]:
    return [
        node.name
        for node in program.graph.nodes
        if node.op == "call_function" and not node.meta.get("stack_trace")
    ]


def _mutation(proof: Proof) -> str | None:
    if (found := _differing(proof.before.inputs, proof.after.inputs)) is not None:
        return "input {} after call {} {}".format(*found)
    program = proof.rewriting.before
    held = {**program.state_dict, **program.constants, **proof.before.state}
    rounds = proof.rounds and program.graph_signature.buffers_to_mutate
    for name, value in proof.after.state.items():
        if name not in held or (rounds and name in rounds.values()):
            continue  # the pass' own, or judged by what later calls return
        if (problem := unequal(held[name], value, None)) is not None:
            return f"{name} after the last call {problem}"
    return None


def _aliasing(proof: Proof) -> str | None:
    shared = proof.after.shared - proof.before.shared
    if not shared:
        return None
    found = "; ".join(f"{one} and {other}" for one, other in sorted(shared))
    if any(one.aliases for one in proof.known):
        raise NotLooked(f"it declares that values may share memory: {found}")
    return f"share memory: {found}"


def _idempotence(proof: Proof) -> str | None:
    if not all(one.idempotent for one in proof.known):
        raise NotLooked("it declares that a second time changes more")
    once, twice = _ops(proof.rewriting.after), _ops(proof.rewriting.again())
    return None if once == twice else f"a second time changes more: {_changed(once, twice)}"


def _verifier(proof: Proof) -> str | None:
    try:
        proof.rewriting.before.validate()  # type: ignore[no-untyped-call]
    except Exception as error:
        raise NotLooked(
            f"the program before it is refused as well: {describe(error)[:200]}"
        ) from error
    if any(one.in_place for one in proof.known):
        raise NotLooked("it declares that it writes in place, which the edge dialect has not")
    proof.rewriting.after.validate()  # type: ignore[no-untyped-call]
    proof.rewriting.after.graph.lint()
    return None


def _serialization(proof: Proof) -> str | None:
    if any(one.in_place for one in proof.known):
        raise NotLooked("it declares that it writes in place, which the edge dialect has not")
    try:
        _loaded(proof.rewriting.before)
    except Exception as error:
        raise NotLooked(
            f"the program before it cannot be saved and loaded either: {describe(error)[:200]}"
        ) from error
    loaded = observe(_loaded(proof.rewriting.after), proof.calls, proof.meanings)
    found = _differing(proof.after.outputs, loaded.outputs)
    return None if found is None else "output {} of call {}, saved and loaded, {}".format(*found)


def _loaded(program: ExportedProgram) -> ExportedProgram:
    loaded: ExportedProgram = serde.deserialize(serde.serialize(program))
    return loaded


def _counts(proof: Proof) -> str | None:
    before, after = _ops(proof.rewriting.before), _ops(proof.rewriting.after)
    for name, (had, has) in proof.changes.items():
        if (before[name], after[name]) != (had, has):
            return f"{name}: {before[name]} -> {after[name]}, expected {had} -> {has}"
    return None


_PROPERTIES: dict[str, Callable[[Proof], str | None]] = {
    "outputs": _outputs,
    "signature": _signature,
    "metadata": _metadata,
    "stack traces": _traces,
    "mutation": _mutation,
    "aliasing": _aliasing,
    "idempotence": _idempotence,
    "verifier": _verifier,
    "serialization": _serialization,
    "node counts": _counts,
}


def changed_ops(rewriting: Rewriting) -> dict[str, tuple[int, int]]:
    """The operators that passes changed the number of: before and after."""
    before, after = _ops(rewriting.before), _ops(rewriting.after)
    return {
        name: (before[name], after[name])
        for name in sorted(before | after)
        if before[name] != after[name]
    }


def _ops(program: ExportedProgram) -> Counter[str]:
    """How often each operator is called, in branches and loops, too."""
    return Counter(
        op_name(node.target)
        for module in program.graph_module.modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
        if node.op == "call_function"
    )


def _changed(once: Counter[str], twice: Counter[str]) -> str:
    return ", ".join(
        f"{name} {once[name]} -> {twice[name]}"
        for name in sorted(once | twice)
        if once[name] != twice[name]
    )


def _list(items: Sequence[Any]) -> str:
    shown = ", ".join(map(str, items[:6]))
    return f"[{shown}{', ...' if len(items) > 6 else ''}]"
