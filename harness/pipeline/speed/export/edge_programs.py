"""Avoid converting a case to an edge program again for each target.

Targets share the exported program, and most of them decompose it alike. exir converts it for each
of them: passes walk the graph and call every operator, with the same result. The first result is
cached with its functional program. Targets get copies, verified with their own options.

Assumes that only ``_skip_dim_order`` of the configuration affects the graph. Verified by snapshots
of the cached program before each reuse, and by digests of the configuration, of the conversion's
passes and of the verifier (``originals``).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any

import torch
from executorch.exir import EdgeCompileConfig
from executorch.exir.passes.dim_order_ops_registry import DimOrderOpsMap, MemoryFormatOpsMap
from executorch.exir.program import _program
from executorch.exir.verification.verifier import EXIREdgeDialectVerifier
from torch.export import ExportedProgram

from harness.pipeline.reference.unchanged import ProgramSnapshot
from harness.pipeline.speed.export.decompositions import find_cached_original
from harness.pipeline.speed.export.functionalization import ProgramParts, copy_parts, copy_program
from harness.vendors.replacements import AttributeReplacer

# A result is cached if the conversion created at most this many elements of new constants.
_FEW = 2**16

_OF_FORMATS = {*DimOrderOpsMap, *MemoryFormatOpsMap}

_upstream: Callable[..., ExportedProgram] = _program._generate_edge_program
# By functional program and configuration: the edge program and its snapshot.
_cache: weakref.WeakKeyDictionary[
    ExportedProgram, dict[Hashable, tuple[ProgramParts, ProgramSnapshot]]
] = weakref.WeakKeyDictionary()


def _generate_edge_program(
    config: EdgeCompileConfig,
    program: ExportedProgram,
    core_aten_ops_exception_list: Any = None,
    preserve_ops: Any = None,
) -> ExportedProgram:
    """Replaces ``exir.program._program._generate_edge_program``."""
    of = None if core_aten_ops_exception_list else find_cached_original(program)
    if of is None:
        return _upstream(config, program, core_aten_ops_exception_list, preserve_ops)
    made = _cache.setdefault(of, {})
    # Passes read only this field; the verifier reads the others and ``preserve_ops``.
    known = made.get(config._skip_dim_order)
    if known is not None and known[1].matches(known[0]):
        try:
            return copy_program(known[0], [_verifier(config, preserve_ops)])
        except Exception:  # upstream raises the error where it occurs
            return _upstream(config, program, None, preserve_ops)
    edge = _upstream(config, program, None, preserve_ops)
    if _new_elements(edge, of) < _FEW:
        its = copy_parts(edge)
        its_like = (True, False) if _has_no_format(edge) else (config._skip_dim_order,)
        made |= dict.fromkeys(its_like, (its, ProgramSnapshot(its)))
    return edge


def _has_no_format(edge: ExportedProgram) -> bool:
    """Return whether no operator creates a tensor in a dim order, the only effect of the option."""
    return not any(node.target in _OF_FORMATS for node in edge.graph.nodes)


def _verifier(config: EdgeCompileConfig, preserve_ops: Any) -> Any:
    return EXIREdgeDialectVerifier(
        edge_compile_config=config, class_only=True, preserve_ops=preserve_ops
    )


def _new_elements(edge: ExportedProgram, of: ExportedProgram) -> int:
    """Count elements of tensors that the functional program does not contain."""
    held = {id(value) for value in _tensors(of)}
    return sum(value.numel() for value in _tensors(edge) if id(value) not in held)


def _tensors(program: ExportedProgram) -> list[torch.Tensor]:
    values = (*program.state_dict.values(), *program.constants.values())
    return [value for value in values if isinstance(value, torch.Tensor)]


def install(replace: AttributeReplacer) -> None:
    """Share edge programs from now on."""
    replace(_program, "_generate_edge_program", _generate_edge_program)
