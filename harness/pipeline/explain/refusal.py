"""Decide whether ExecuTorch itself does not support a program that failed, on any target.

ExecuTorch supports core ATen with the dtypes of its edge dialect, and fallback nodes that its
runtime has kernels for. A program that needs more is unsupported; it is no defect of a backend.

The check runs after a failure. It asks ExecuTorch about each operator. The same program, lowered
without a backend, must need the same unsupported operators: those that a target's partitioner, pass
or decomposition adds are the target's fault. The check is skipped if a limitation predicts the
failure.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from executorch.exir import EdgeCompileConfig
from executorch.exir.backend.partitioner import Partitioner, PartitionResult
from executorch.exir.dialects.edge.dtype.supported import regular_tensor_dtypes_to_str
from executorch.exir.verification.verifier import EXIRATenDialectVerifier
from torch.export import ExportedProgram

from harness.errors import AlteredByCall, MissingKernels, StageFailure
from harness.execution.operators import op_name
from harness.model.recipe import Recipe
from harness.pipeline import stages
from harness.pipeline.delegation.count import graph_modules
from harness.pipeline.reference.assumed_precision import get_semantics
from harness.pipeline.route import prepare
from harness.pipeline.stages import LowerOptions
from harness.pipeline.tester import Tester
from harness.vendors.executorch import EdgeOpOverload, _default_decomposition_table
from harness.vendors.torch import OpOverload, SpecViolationError, tree_leaves


def find_refusal(tester: Tester, failure: StageFailure) -> str | None:
    """Why ExecuTorch does not support the program of a tester on any target.

    Args:
        tester: the tester of the cell.
        failure: its failure.

    Returns:
        None if ExecuTorch supports the program: the target or the case is at fault.
    """
    if failure.stage not in ("lower", "to_executorch", "run"):
        return None
    if isinstance(failure.cause, AlteredByCall):
        return None
    try:
        return _find_refusal(tester, failure)
    except Exception:  # lowering without a backend may fail with any error
        return None


def _find_refusal(tester: Tester, failure: StageFailure) -> str | None:
    undelegated = functools.partial(_lower_without_backend, tester)
    if failure.stage == "lower":
        config = tester.recipe.edge_config()
        if not config._check_ir_validity:
            return None
        config = replace(config, _check_ir_validity=False)
        partitioners = [_NoDelegatePartitioner(one) for one in tester.recipe.partitioners()]
        mine = _lower_without_passes(_export_program(tester), partitioners, config)
        # Lowering has added the operators that partitioners preserve to the configuration.
        operators = _find_non_core_operators(mine, config)
        if operators and operators <= _find_non_core_operators(undelegated(), EdgeCompileConfig()):
            return (
                f"{_join_names(operators)}: not core ATen, and nothing decomposes it; ExecuTorch's "
                "edge dialect refuses it"
            )
    else:
        mine = tester.lowered.exported_program()
        kernels = _find_kernels(mine)
        missing = {name for name, kernel in kernels.items() if not kernel.has_out}
        if isinstance(failure.cause, MissingKernels):
            missing = set(failure.cause.names)
        if _leaves_decoding(tester.recipe, missing):
            return None
        if missing and (
            _needs_kernels_itself(tester.exported, missing, kernels)
            or missing <= _find_kernels(undelegated()).keys()
        ):
            return f"the ExecuTorch runtime has no kernel for {_join_names(missing)}"
    dtypes = _find_unsupported_dtypes(mine)
    if dtypes and dtypes <= _find_unsupported_dtypes(undelegated()):
        return f"ExecuTorch's edge dialect has no tensors of {_join_names(dtypes)}"
    return None


def _leaves_decoding(recipe: Recipe, missing: Set[str]) -> bool:
    """Whether a missing kernel decodes weights of the recipe, which the target left to it."""
    if recipe.quantize_weights is None:
        return False
    decoders = get_semantics(recipe).names()
    return any(name.partition(".")[0] in decoders for name in missing)


def _lower_without_backend(tester: Tester) -> ExportedProgram:
    """The program, lowered without a backend."""
    return _lower_without_passes(
        _export_program(tester), (), EdgeCompileConfig(_check_ir_validity=False)
    )


def _needs_kernels_itself(
    exported: ExportedProgram, missing: set[str], kernels: Mapping[str, _Kernel]
) -> bool:
    """Whether the missing kernels belong to operators that export leaves and nothing decomposes.

    Then the program needs them on any target, and need not be lowered again to show it.
    """
    decomposed = _default_decomposition_table()
    written = {target for _, target in _calls(exported) if target not in decomposed}
    return all(name in kernels and kernels[name].operator in written for name in missing)


def _export_program(tester: Tester) -> ExportedProgram:
    """The ATen program of a tester, as before lowering."""
    if not tester.exported.range_constraints:
        return tester.exported
    # A program with data-dependent sizes can be lowered only once: lowering leaves symbols that
    # belong to no node.
    fresh = Tester(
        tester.case, tester.target, seed=tester.seed, recipe=tester.recipe, backend=tester.backend
    )
    prepare(fresh)
    return fresh.exported


class _NoDelegatePartitioner(Partitioner):  # type: ignore[misc]  # executorch has no types
    """Preserves the operators that a partitioner preserves, and delegates nothing."""

    def __init__(self, partitioner: Partitioner) -> None:
        super().__init__()
        self._partitioner = partitioner
        self._is_partitioned = False

    def ops_to_not_decompose(self, ep: ExportedProgram) -> Any:
        # exir calls this again after partitioning, when no preserved operator may be left.
        return ([], None) if self._is_partitioned else self._partitioner.ops_to_not_decompose(ep)

    def transform_for_pre_decomposition(self, program: ExportedProgram) -> Any:
        return self._partitioner.transform_for_pre_decomposition(program)

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        self._is_partitioned = True
        return PartitionResult(tagged_exported_program=exported_program, partition_tags={})


def _lower_without_passes(
    exported: ExportedProgram, partitioners: Sequence[Partitioner], config: EdgeCompileConfig
) -> ExportedProgram:
    """An edge program without delegates and passes."""
    manager = stages.lower(exported, LowerOptions(partitioners, (), config))
    edge: ExportedProgram = manager.exported_program()
    return edge


def _calls(program: ExportedProgram) -> Iterator[tuple[torch.fx.Node, Any]]:
    """The operator calls outside of delegates, with their targets."""
    for graph_module in graph_modules(program.graph_module):
        for node in graph_module.graph.nodes:
            if isinstance(node.target, EdgeOpOverload | OpOverload):
                yield node, node.target


def _find_non_core_operators(program: ExportedProgram, config: EdgeCompileConfig) -> set[str]:
    """Operators that the verifier of the edge dialect rejects."""
    verifier = EXIRATenDialectVerifier(edge_compile_config=config)
    names = set()
    for _, target in _calls(program):
        try:
            verifier.check_valid_op(getattr(target, "_op", target))
        except SpecViolationError:
            names.add(op_name(target))
    return names


class _Kernel(NamedTuple):
    """The kernel of a call outside of delegates.

    Attributes:
        operator: the ATen operator that is called.
        has_out: whether the operator has an ``out`` variant; if not, the kernel has the name of
            the operator itself.
    """

    operator: Any
    has_out: bool


def _find_kernels(program: ExportedProgram) -> dict[str, _Kernel]:
    """The kernels of calls outside of delegates, by name."""
    names = {}
    for _, target in _calls(program):
        operator, has_out = getattr(target, "_op", target), True
        if isinstance(target, EdgeOpOverload) and "out" not in target._schema.overload_name:
            try:
                target = target.to_out_variant()
            except RuntimeError:  # there is no out variant
                has_out = False
        overload = target._schema.overload_name
        name = f"{target._schema.name}.{overload}" if overload else target._schema.name
        names[name] = _Kernel(operator, has_out)
    return names


def _find_unsupported_dtypes(program: ExportedProgram) -> set[str]:
    """Dtypes of operands and results that the edge dialect does not support."""
    values = [
        [item.meta.get("val") for item in (node, *node.all_input_nodes)]
        for node, _ in _calls(program)
    ]
    dtypes = {leaf.dtype for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)}
    return {
        str(dtype).removeprefix("torch.") for dtype in dtypes - set(regular_tensor_dtypes_to_str)
    }


def _join_names(names: set[str]) -> str:
    return ", ".join(sorted(names))
