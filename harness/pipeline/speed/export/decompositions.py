"""Avoid tracing a program again for decompositions whose result is known.

exir decomposes a program up to three times: to make it functional, without the operators that a
partitioner preserves, and after checking those. Each time it traces the whole program. The first
result is the same for all targets of a case, which share the exported program. The second is the
same if the trace does not meet the operators that differ between targets. The last one usually
finds nothing to decompose.

Assumes that a decomposition depends only on the program and the table's entries for operators that
the trace looks up. Verified by snapshots of the program (``ProgramSnapshot``) before each reuse,
and by digests of torch's decomposition and of what copies of a program contain (``originals``).
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
# By program: its snapshot when it was made functional, and the result.
_functional: weakref.WeakKeyDictionary[ExportedProgram, tuple[ProgramSnapshot, ExportedProgram]] = (
    weakref.WeakKeyDictionary()
)
# By decomposed program: its snapshot, and the cached program that it is a copy of.
_decomposed: weakref.WeakKeyDictionary[
    ExportedProgram, tuple[ProgramSnapshot, ExportedProgram | None]
] = weakref.WeakKeyDictionary()
# By cached functional program: results of its copies, each with the table's entries for operators
# that the trace looked up, and the result's snapshot.
_outcomes: weakref.WeakKeyDictionary[
    ExportedProgram, list[tuple[dict[Any, Any], ProgramSnapshot, ExportedProgram]]
] = weakref.WeakKeyDictionary()


def _run_decompositions(
    program: ExportedProgram, decomp_table: _Table | None = None, **options: Any
) -> ExportedProgram:
    """Replaces ``ExportedProgram.run_decompositions``."""
    if decomp_table is None or options or not is_plain(program):
        return _upstream(program, decomp_table, **options)
    if not decomp_table:
        return _make_functional(program)
    before, of = _decomposed.get(program, (None, None))
    untouched = before is not None and before.matches(program, ignore_targets=True)
    if untouched and _is_done(program, decomp_table):
        return _remember(copy_program(program), of)
    if isinstance(decomp_table, CustomDecompTable):
        len(decomp_table)  # materializes it
        decomp_table = decomp_table.decomp_table  # upstream copies it one operator at a time
    of = _find_cached_original(program)
    if of is None or not can_record_operators() or not _are_operators(program):
        return _remember(_upstream(program, decomp_table))
    return _decompose_copy(of, program, decomp_table)


def _are_operators(program: ExportedProgram) -> bool:
    """Return whether a decomposition looks up all called operators in its table."""
    return all(
        node.op in ("placeholder", "output")
        or isinstance(node.target, torch._ops.OpOverload)
        or node.target is operator.getitem
        for node in program.graph.nodes
    )


def _decompose_copy(
    of: ExportedProgram, program: ExportedProgram, table: _Table
) -> ExportedProgram:
    """Decompose a copy of a functional program.

    Returns a copy of a cached result if the table has the same entries for the operators that the
    trace of that result looked up.
    """
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


def _find_cached_original(program: ExportedProgram) -> ExportedProgram | None:
    """Return the cached program that a program is a copy of; None if it has changed since."""
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
    """Record a decomposed program, and the cached program that it is a copy of."""
    _decomposed[program] = ProgramSnapshot(program), of
    return program


def _make_functional(program: ExportedProgram) -> ExportedProgram:
    known = _functional.get(program)
    if known is None or not known[0].matches(program):
        made = make_functional(program) if is_functional(program) else _upstream(program, {})
        known = _functional[program] = ProgramSnapshot(program), made
    return _remember(copy_program(known[1]), known[1])


def _is_done(program: ExportedProgram, table: _Table) -> bool:
    """Return whether ``table`` decomposes no operator of a decomposed program.

    A second decomposition turns the mutation of an input into an operator.
    """
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
    """Reuse decompositions from now on."""
    replace(ExportedProgram, "run_decompositions", _run_decompositions)
