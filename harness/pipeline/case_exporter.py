"""Run a case's own exporter and record its intermediate programs."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from executorch.exir import EdgeProgramManager, ExecutorchProgramManager
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature

from harness.errors import CaseError
from harness.execution.interface import Interface
from harness.model.case import Built, Exporter
from harness.model.copies import copy_module
from harness.model.recipe import Recipe
from harness.pipeline.artifacts import LowerArtifact
from harness.pipeline.delegation.count import count_delegation
from harness.pipeline.explain import rejections
from harness.record.cell import Delegation
from harness.vendors.replacements import AttributeReplacer
from harness.vendors.torch import _pytree


@dataclass(frozen=True)
class ExporterResult:
    """The artifacts of the stages that an exporter replaces."""

    exported: ExportedProgram
    partitioned: LowerArtifact
    emitted: ExecutorchProgramManager


def run_exporter(exporter: Exporter, built: Built, backend: str, recipe: Recipe) -> ExporterResult:
    """Make a program with a case's exporter.

    Args:
        exporter: the case's exporter.
        built: the case. The exporter gets copies, because its changes to the module (another
            implementation of a layer, a flag in a configuration) must not affect the reference.
        backend: the name of the target's backend.
        recipe: the target's recipe, which explains fallback nodes.

    Raises:
        CaseError: the exporter returned a program that was not emitted while it ran.
    """
    module, inputs = copy_module(built.module)[0], copy.deepcopy(built.inputs)
    with (
        _unregister_new_pytrees(),
        rejections.record_rejections(recipe, ()) as why,
        _record_emissions(why) as seen,
    ):
        exported, emitted = exporter.make(module, inputs, backend)
    for emission in seen:
        if emission.emitted is emitted:
            interface = Interface.from_export(exported, emission.signature)
            partitioned = LowerArtifact(emission.manager, emission.delegation, interface)
            return ExporterResult(exported, partitioned, emitted)
    raise CaseError(
        f"{exporter.name} returned an ExecutorchProgramManager that no EdgeProgramManager "
        "emitted while it ran"
    )


@contextmanager
def _unregister_new_pytrees() -> Iterator[None]:
    """Unregister pytree types that the exporter registers for classes loaded before it ran.

    The exporter of transformers registers every loaded kind of cache. ``torch.export`` would then
    leave fake tensors in a module that holds such a cache. Modules that the exporter imports may
    register their own types.
    """
    registered, loaded = set(_pytree.SUPPORTED_NODES), set(sys.modules)
    try:
        yield
    finally:
        for kind in set(_pytree.SUPPORTED_NODES) - registered:
            if kind.__module__ in loaded:
                _pytree._deregister_pytree_node(kind)


@dataclass(frozen=True)
class _Emission:
    """An edge program before it was emitted, and the emitted program."""

    manager: EdgeProgramManager
    delegation: Delegation
    signature: ExportGraphSignature
    emitted: ExecutorchProgramManager


@contextmanager
def _record_emissions(why: rejections.ExplainFallback) -> Iterator[list[_Emission]]:
    """Record edge programs before ``to_executorch`` rewrites their fallback nodes.

    Yields:
        The programs emitted so far.
    """
    seen: list[_Emission] = []
    original = EdgeProgramManager.to_executorch

    def to_executorch(manager: EdgeProgramManager, *args: Any, **kwargs: Any) -> Any:
        edge = manager.exported_program()
        before = manager, count_delegation(edge, why), copy.deepcopy(edge.graph_signature)
        emitted = original(manager, *args, **kwargs)
        seen.append(_Emission(*before, emitted))
        return emitted

    with AttributeReplacer("exporter").replace_within(
        EdgeProgramManager, "to_executorch", to_executorch
    ):
        yield seen
