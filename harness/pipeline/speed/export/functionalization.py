"""Avoid tracing exported programs that are functional already.

exir first traces every exported program to remove mutations and operators that may copy. Most
programs have neither: a trace finds the same nodes, with more metadata about their origin.

Assumes the conditions of :func:`is_functional`. Verified, with ``decompositions``, by digests of
torch's decomposition and of what copies of a program contain (``originals``).
"""

from __future__ import annotations

import copy
import functools
import operator
from dataclasses import replace
from typing import Any

import torch
from torch._export import utils as export_utils
from torch._export.verifier import Verifier
from torch._subclasses import FakeTensor
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry
from torch.export.graph_signature import ExportGraphSignature
from torch.fx import GraphModule, Node
from torch.fx.traceback import NodeSource, NodeSourceAction

# Verifier of functional programs.
_AS_ATEN: list[type[Verifier]] = [Verifier]
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd


def is_functional(program: ExportedProgram) -> bool:
    """Return whether a trace that makes a plain program functional would keep its nodes."""
    # A trace would decompose tensor subclasses, such as quantized weights.
    if not all(type(one.meta.get("val")) is FakeTensor for one in _inputs(program)):
        return False
    outputs = program.graph.output_node().args[0]
    made = isinstance(outputs, tuple | list) and all(
        isinstance(one, Node) and one.op == "call_function" for one in outputs
    )
    return made and all(
        node.op in ("placeholder", "output")
        or (node.op == "call_function" and bool(node.users) and _stays(node.target))
        for node in program.graph.nodes
    )


def _inputs(program: ExportedProgram) -> list[Node]:
    return [node for node in program.graph.nodes if node.op == "placeholder"]


def _stays(target: Any) -> bool:
    if target is operator.getitem:
        return True
    return isinstance(target, torch._ops.OpOverload) and _is_kept(target)


@functools.cache
def _is_kept(target: torch._ops.OpOverload) -> bool:
    """Return whether a trace keeps calls of an operator.

    The operator mutates nothing, and if it is composite, torch.export can preserve it.
    """
    if target._schema.is_mutable or target.namespace != "aten" or target in _LIFTS:
        return False
    if torch.Tag.nondeterministic_seeded in target.tags:
        return False
    name = target._schema.name, target._schema.overload_name
    qualified = ".".join(filter(None, name))
    is_composite = torch._C._dispatch_has_kernel_for_dispatch_key(qualified, _COMPOSITE)
    return not is_composite or target in export_utils._collect_all_valid_cia_ops()


_LIFTS = frozenset({torch.ops.aten.lift_fresh_copy.default, torch.ops.aten.lift_fresh.default})


def make_functional(program: ExportedProgram) -> ExportedProgram:
    """Copy a functional program, with the metadata that a trace would add."""
    made = copy_program(program, _AS_ATEN)
    for before, node in zip(program.graph.nodes, made.graph.nodes, strict=True):
        if node.op != "call_function":
            continue
        of = before.args[0] if before.target is operator.getitem else before
        node.meta["original_aten"] = of.target
        node.meta["from_node"] = [
            NodeSource(of, "ExportedProgram.module()", NodeSourceAction.CREATE)
        ]
        if (told := node.meta.get("tensor_meta")) is not None:
            node.meta["tensor_meta"] = told._replace(requires_grad=False)
    return made


def copy_program(
    program: ExportedProgram, verifiers: list[type[Verifier]] | None = None
) -> ExportedProgram:
    """Copy those parts of a program that passes modify; the copy shares tensors with the program.

    Args:
        program: a plain program.
        verifiers: verifiers of the copy; by default those of the program.
    """
    graph = copy.deepcopy(program.graph)
    for its, copy_of_it in zip(program.graph.nodes, graph.nodes, strict=True):
        copy_of_it.name = its.name  # the copy renames nodes with names of Python, such as "input"
    module = GraphModule(program.graph_module, graph)
    module.meta.update(program.graph_module.meta)
    return ExportedProgram(
        root=module,
        graph=graph,
        graph_signature=_signature(program.graph_signature),
        state_dict=dict(program.state_dict),
        range_constraints=dict(program.range_constraints),
        module_call_graph=[_call(entry) for entry in program.module_call_graph],
        example_inputs=program.example_inputs,
        constants=dict(program.constants),
        verifiers=program.verifiers if verifiers is None else verifiers,
    )


def _signature(of: ExportGraphSignature) -> ExportGraphSignature:
    """Copy a signature as deep as passes modify it."""
    return ExportGraphSignature(
        [replace(spec, arg=copy.copy(spec.arg)) for spec in of.input_specs],
        [replace(spec, arg=copy.copy(spec.arg)) for spec in of.output_specs],
    )


def _call(entry: ModuleCallEntry) -> ModuleCallEntry:
    if (signature := entry.signature) is None:
        return ModuleCallEntry(entry.fqn)
    inputs, outputs = (list(map(copy.copy, args)) for args in (signature.inputs, signature.outputs))
    return ModuleCallEntry(entry.fqn, replace(signature, inputs=inputs, outputs=outputs))
