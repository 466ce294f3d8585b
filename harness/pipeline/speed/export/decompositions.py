"""Decompositions of programs that were decomposed before.

exir decomposes a program up to three times: to make it functional, but for what a partitioner asks
to be left, and once more when that was checked. Each time all of it is traced anew. The first gives
the same for all targets of a case, as they share the exported program; so does the second where
what they leave whole is not met on the way; the last usually finds nothing that is left to
decompose.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.decomp_utils import CustomDecompTable
from torch.fx import Node

from harness.pipeline.reference.unchanged import ProgramSnapshot, is_plain
from harness.pipeline.speed.export.functionalization import (
    copy_program,
    is_functional,
    make_functional,
)
from harness.pipeline.speed.memoized import (
    can_record_operators,
    normalize_override,
    record_decomposed_operators,
)
from harness.vendors.replacements import AttributeReplacer

_Table = Mapping[Any, Callable[..., Any]]
_upstream: Callable[..., ExportedProgram] = ExportedProgram.run_decompositions
# How a program was when upstream made it functional, and what came of it; by the program.
_functional: weakref.WeakKeyDictionary[ExportedProgram, tuple[ProgramSnapshot, ExportedProgram]] = (
    weakref.WeakKeyDictionary()
)
# How a program was when it had been decomposed, and of which one that was kept it is a copy; by the
# program.
_decomposed: weakref.WeakKeyDictionary[
    ExportedProgram, tuple[ProgramSnapshot, ExportedProgram | None]
] = weakref.WeakKeyDictionary()
# What programs became, by the functional one that they were copies of: what the table had for each
# operator that was met, and how the outcome was.
_outcomes: weakref.WeakKeyDictionary[
    ExportedProgram, list[tuple[dict[Any, Any], ProgramSnapshot, ExportedProgram]]
] = weakref.WeakKeyDictionary()


def _run_decompositions(
    program: ExportedProgram, decomp_table: _Table | None = None, **options: Any
) -> ExportedProgram:
    """Stands for ``ExportedProgram.run_decompositions``."""
    if decomp_table is None or options or not is_plain(program):
        return _upstream(program, decomp_table, **options)
    if not decomp_table:
        return _make_functional(program)
    before, of = _decomposed.get(program, (None, None))
    untouched = before is not None and before.matches(program, ignore_targets=True)
    if untouched and _is_done(program, decomp_table):
        return _remember(copy_program(program), of)
    if isinstance(decomp_table, CustomDecompTable):
        len(decomp_table)  # makes it complete, once
        decomp_table = decomp_table.decomp_table  # upstream copies one operator after the other
    of = find_cached_original(program)
    if of is None or not can_record_operators() or not _are_operators(program):
        return _remember(_upstream(program, decomp_table))
    return _decompose_copy(of, program, decomp_table)


def _are_operators(program: ExportedProgram) -> bool:
    """Whether all calls are of operators that a decomposition asks its table about."""
    return all(
        node.op in ("placeholder", "output")
        or isinstance(node.target, torch._ops.OpOverload)
        or node.target is operator.getitem
        for node in program.graph.nodes
    )


def _decompose_copy(
    of: ExportedProgram, program: ExportedProgram, table: _Table
) -> ExportedProgram:
    """What a copy of a functional program becomes: what became of another copy, if this table has
    the same for each operator that was met."""
    outcomes = _outcomes.setdefault(of, [])
    for met, before, made in outcomes:
        alike = all(normalize_override(table.get(op)) == function for op, function in met.items())
        if alike and before.matches(made):
            return _remember(copy_program(made), made)
    with record_decomposed_operators() as operators:
        made = _upstream(program, table)
    if not is_plain(made):
        return _remember(made)
    kept = copy_program(made)
    met = {op: normalize_override(table.get(op)) for op in operators}
    outcomes.append((met, ProgramSnapshot(kept), kept))
    return _remember(made, kept)


def find_cached_original(program: ExportedProgram) -> ExportedProgram | None:
    """The program that was kept of which another is a copy; None where there is none, or where
    anything of the copy is another by now."""
    before, of = _decomposed.get(program, (None, None))
    if before is None or of is None or not before.matches(program, ignore_targets=True):
        return None
    pairs = zip(program.graph.nodes, of.graph.nodes, strict=True)
    return of if all(_alike(*pair) for pair in pairs) else None


def _alike(node: Node, other: Node) -> bool:
    meta, others = node.meta, other.meta
    return (
        node.target is other.target
        and node.name == other.name
        and meta.keys() == others.keys()
        and all(meta[key] is others[key] for key in meta)
    )


def _remember(program: ExportedProgram, of: ExportedProgram | None = None) -> ExportedProgram:
    """A program that has been decomposed, and of which one that was kept it is a copy."""
    _decomposed[program] = ProgramSnapshot(program), of
    return program


def _make_functional(program: ExportedProgram) -> ExportedProgram:
    known = _functional.get(program)
    if known is None or not known[0].matches(program):
        made = make_functional(program) if is_functional(program) else _upstream(program, {})
        known = _functional[program] = ProgramSnapshot(program), made
    return _remember(copy_program(known[1]), known[1])


def _is_done(program: ExportedProgram, table: _Table) -> bool:
    """Whether a program that was decomposed has no operator that ``table`` decomposes. Where it
    writes to an input, decomposing it again makes the write an operator."""
    if program.graph_signature.user_inputs_to_mutate:
        return False
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


def install(replace: AttributeReplacer) -> None:
    """Decompose a program once where that is enough, from now on."""
    replace(ExportedProgram, "run_decompositions", _run_decompositions)
