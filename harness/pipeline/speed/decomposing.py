"""Decompositions of programs that were decomposed before.

exir decomposes a program up to three times: to make it functional, but for what a partitioner asks
to be left, and once more when that was checked. Each time all of it is traced anew. The first gives
the same for all targets of a case, as they share the exported program; the last usually finds
nothing that is left to decompose.
"""

from __future__ import annotations

import copy
import operator
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.decomp_utils import CustomDecompTable
from torch.fx import GraphModule

from harness.pipeline.unchanged import Snapshot, is_plain

_Table = Mapping[Any, Callable[..., Any]]
_upstream: Callable[..., ExportedProgram] = ExportedProgram.run_decompositions
# How a program was when upstream made it functional, and what came of it; by the program.
_functional: weakref.WeakKeyDictionary[ExportedProgram, tuple[Snapshot, ExportedProgram]] = (
    weakref.WeakKeyDictionary()
)
# How a program was when it had been decomposed; by the program.
_decomposed: weakref.WeakKeyDictionary[ExportedProgram, Snapshot] = weakref.WeakKeyDictionary()


def _run_decompositions(
    program: ExportedProgram, decomp_table: _Table | None = None, **options: Any
) -> ExportedProgram:
    """Stands for ``ExportedProgram.run_decompositions``."""
    if decomp_table is None or options or not is_plain(program):
        return _upstream(program, decomp_table, **options)
    if not decomp_table:
        return _made_functional(program)
    before = _decomposed.get(program)
    untouched = before is not None and before.holds(program, but_targets=True)
    if untouched and _is_done(program, decomp_table):
        return copied(program)
    if isinstance(decomp_table, CustomDecompTable):
        len(decomp_table)  # makes it complete, once
        decomp_table = decomp_table.decomp_table  # upstream copies one operator after the other
    made = _upstream(program, decomp_table)
    _decomposed[made] = Snapshot(made)
    return made


def _made_functional(program: ExportedProgram) -> ExportedProgram:
    known = _functional.get(program)
    if known is None or not known[0].holds(program):
        known = _functional[program] = Snapshot(program), _upstream(program, {})
    made = copied(known[1])
    _decomposed[made] = Snapshot(made)
    return made


def _is_done(program: ExportedProgram, table: _Table) -> bool:
    """Whether a program that was decomposed has no operator that ``table`` decomposes."""
    return all(
        node.op in ("placeholder", "output")
        or (node.op == "call_function" and _stays(node.target, table))
        for node in program.graph.nodes
    )


def _stays(target: Any, table: _Table) -> bool:
    if target is operator.getitem:
        return True
    return (
        isinstance(target, torch._ops.OpOverload)
        and not target._schema.is_mutable
        and target not in table
    )


def copied(program: ExportedProgram) -> ExportedProgram:
    """A program with a graph and a signature of its own; it shares values with the first."""
    graph = copy.deepcopy(program.graph)
    for its, copy_of_it in zip(program.graph.nodes, graph.nodes, strict=True):
        copy_of_it.name = its.name  # a name that Python has too, as "input", was changed
    module = GraphModule(program.graph_module, graph)
    module.meta.update(program.graph_module.meta)
    return ExportedProgram(
        root=module,
        graph=graph,
        graph_signature=copy.deepcopy(program.graph_signature),
        state_dict=dict(program.state_dict),
        range_constraints=dict(program.range_constraints),
        module_call_graph=copy.deepcopy(program.module_call_graph),
        example_inputs=program.example_inputs,
        constants=dict(program.constants),
        verifiers=program._verifiers,
    )


def install() -> None:
    """Decompose a program once where that is enough, from now on."""
    ExportedProgram.run_decompositions = _run_decompositions  # type: ignore[method-assign]
