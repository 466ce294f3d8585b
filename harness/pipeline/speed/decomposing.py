"""Decompositions of programs that were decomposed before.

exir decomposes a program up to three times: to make it functional, but for what a partitioner asks
to be left, and once more when that was checked. Each time all of it is traced anew. The first gives
the same for all targets of a case, as they share the exported program; the last usually finds
nothing that is left to decompose.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.decomp_utils import CustomDecompTable

from harness.pipeline.speed.functional import as_functional, copied, is_functional
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
        return _noted(copied(program))
    if isinstance(decomp_table, CustomDecompTable):
        len(decomp_table)  # makes it complete, once
        decomp_table = decomp_table.decomp_table  # upstream copies one operator after the other
    return _noted(_upstream(program, decomp_table))


def _noted(program: ExportedProgram) -> ExportedProgram:
    """A program that has been decomposed."""
    _decomposed[program] = Snapshot(program)
    return program


def _made_functional(program: ExportedProgram) -> ExportedProgram:
    if is_functional(program):
        return _noted(as_functional(program))
    known = _functional.get(program)
    if known is None or not known[0].holds(program):
        known = _functional[program] = Snapshot(program), _upstream(program, {})
    return _noted(copied(known[1]))


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


def install() -> None:
    """Decompose a program once where that is enough, from now on."""
    ExportedProgram.run_decompositions = _run_decompositions  # type: ignore[method-assign]
