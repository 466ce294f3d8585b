"""Avoid rebuilding decomposition tables for every program.

Assumes that a table depends only on the registered operators and on the arguments of the function
that creates it. Verified by digests of these functions and their callees (``originals``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import _decomp
from torch._export import utils as export_utils
from torch.export import decomp_utils, exported_program

from harness.pipeline.speed.memoized import CompositeOverrides, Overrides
from harness.vendors.replacements import AttributeReplacer

_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
_decompose_composite = export_utils._get_decomp_for_cia
_of_composites: dict[Any, Callable[..., Any]] = {}


def _decompose_composite_by_one(op: Any) -> Callable[..., Any]:
    """Replaces ``_get_decomp_for_cia``, which creates a new equivalent function at each call."""
    key = op, op.py_kernels.get(_COMPOSITE)
    if key not in _of_composites:
        _of_composites[key] = _decompose_composite(op)
    return _of_composites[key]


_split = exported_program._split_decomp_table_to_cia_and_python_decomp
_splits: dict[Any, tuple[Any, CompositeOverrides, Overrides]] = {}


def _split_once(table: Overrides) -> tuple[Overrides, Overrides]:
    """Replaces torch.export's split of a table into composite operators and others.

    Upstream copies and looks up all 1,100 operators for every program.
    """
    preservable = export_utils._collect_all_valid_cia_ops()
    # Compared by normalize_override, which lasts as long as the table is kept.
    key = id(preservable), tuple(map(id, table)), tuple(map(id, table.values()))
    kept = _splits.get(key)
    if kept is None:
        asked = dict(table)
        composite, others = _split(table)
        kept = _splits[key] = (preservable, asked), CompositeOverrides(composite), others
    return kept[1], dict(kept[2])


_default = exported_program.default_decompositions
_defaults: tuple[Any, Any] | None = None


def _default_once() -> decomp_utils.CustomDecompTable:
    """Replaces ``default_decompositions``, which looks up 650 operators."""
    global _defaults
    preservable = export_utils._collect_all_valid_cia_ops()
    if _defaults is None or _defaults[0] is not preservable:
        _defaults = preservable, _default()
    kept = _defaults[1]
    table = decomp_utils.CustomDecompTable.__new__(decomp_utils.CustomDecompTable)
    table.decomp_table = kept.decomp_table.copy()
    table.deleted_custom_ops = set()
    table.has_materialized = False
    return table


def _materialize(table: Any) -> dict[Any, Any]:
    """Replaces ``CustomDecompTable.materialize``, which checks the namespace of 1,100 operators."""
    for op in _others_than_atens():
        if op not in table.decomp_table and op not in table.deleted_custom_ops:
            table.decomp_table[op] = _decompose_composite_by_one(op)
    table.has_materialized = True
    table.deleted_custom_ops = set()
    return {**table.decomp_table}


_others: tuple[Any, list[Any]] | None = None


def _others_than_atens() -> list[Any]:
    global _others
    preservable = export_utils._collect_all_valid_cia_ops()
    if _others is None or _others[0] is not preservable:
        found = [op for op in preservable if not export_utils._is_aten_op(op)]
        _others = preservable, found
    return _others[1]


_get_decompositions = _decomp.get_decompositions
_decompositions: dict[Any, dict[Any, Any]] = {}


def _get_decompositions_once(
    aten_ops: Sequence[Any], type: str = "post_autograd"
) -> dict[Any, Callable[..., Any]]:
    """Replaces ``get_decompositions``, which sorts all 1,500 decompositions at each call."""
    known = _decomp.global_decomposition_table.get(type, {})
    key = (tuple(aten_ops), type, len(known), hash(tuple(map(id, known.values()))))
    if key not in _decompositions:
        _decompositions[key] = _get_decompositions(aten_ops, type)
    return dict(_decompositions[key])


def install(replace: AttributeReplacer) -> None:
    """Create each table once from now on."""
    replace(decomp_utils.CustomDecompTable, "materialize", _materialize)
    for original, replacement in (
        (_get_decompositions, _get_decompositions_once),
        (_decompose_composite, _decompose_composite_by_one),
        (_default, _default_once),
        (_split, _split_once),
    ):
        replace.replace_everywhere(original, replacement)
