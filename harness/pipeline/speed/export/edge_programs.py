"""The edge program of a case, made once for all targets that ask for the same one.

Targets share the exported program, and for most of them nothing of it is left whole or decomposed
that is not so for the others. exir makes each an edge program of its own: passes walk the graph and
call every operator anew, for the same nodes. What the first conversion made is kept with the
functional program that it was made of, and handed out as copies, verified as each target asks.
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

# Elements of tensors that a conversion may make and are kept, as of constants in another order.
_FEW = 2**16

_OF_FORMATS = {*DimOrderOpsMap, *MemoryFormatOpsMap}

_upstream: Callable[..., ExportedProgram] = _program._generate_edge_program
# What came of a functional program, by the configuration, with how it was.
_cache: weakref.WeakKeyDictionary[
    ExportedProgram, dict[Hashable, tuple[ProgramParts, ProgramSnapshot]]
] = weakref.WeakKeyDictionary()


def _generate_edge_program(
    config: EdgeCompileConfig,
    program: ExportedProgram,
    core_aten_ops_exception_list: Any = None,
    preserve_ops: Any = None,
) -> ExportedProgram:
    """Stands for ``exir.program._program._generate_edge_program``."""
    of = None if core_aten_ops_exception_list else find_cached_original(program)
    if of is None:
        return _upstream(config, program, core_aten_ops_exception_list, preserve_ops)
    made = _cache.setdefault(of, {})
    # Passes look at one field; the others and what is preserved are for the verifier alone.
    known = made.get(config._skip_dim_order)
    if known is not None and known[1].matches(known[0]):
        try:
            return copy_program(known[0], [_verifier(config, preserve_ops)])
        except Exception:  # upstream says what is wrong where it finds it
            return _upstream(config, program, None, preserve_ops)
    edge = _upstream(config, program, None, preserve_ops)
    if _new_elements(edge, of) < _FEW:
        its = copy_parts(edge)
        its_like = (True, False) if _has_no_format(edge) else (config._skip_dim_order,)
        made |= dict.fromkeys(its_like, (its, ProgramSnapshot(its)))
    return edge


def _has_no_format(edge: ExportedProgram) -> bool:
    """Whether no operator makes a tensor in an order of dimensions: the one field tells which
    operators do."""
    return not any(node.target in _OF_FORMATS for node in edge.graph.nodes)


def _verifier(config: EdgeCompileConfig, preserve_ops: Any) -> Any:
    return EXIREdgeDialectVerifier(
        edge_compile_config=config, class_only=True, preserve_ops=preserve_ops
    )


def _new_elements(edge: ExportedProgram, of: ExportedProgram) -> int:
    """Elements of tensors that the functional program does not hold."""
    held = {id(value) for value in _tensors(of)}
    return sum(value.numel() for value in _tensors(edge) if id(value) not in held)


def _tensors(program: ExportedProgram) -> list[torch.Tensor]:
    values = (*program.state_dict.values(), *program.constants.values())
    return [value for value in values if isinstance(value, torch.Tensor)]


def install(replace: AttributeReplacer) -> None:
    """Make an edge program once from now on."""
    replace(_program, "_generate_edge_program", _generate_edge_program)
