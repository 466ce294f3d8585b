"""Programs that a case's own exporter makes, and what is only seen while it does."""

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
from harness.pipeline.artifacts import Partitioned
from harness.pipeline.delegation import count
from harness.pipeline.explain import rejections
from harness.record.cell import Delegation
from harness.vendors.torch import _pytree


@dataclass(frozen=True)
class Shipment:
    """What an exporter made: the artifacts of the stages that it stands for."""

    exported: ExportedProgram
    partitioned: Partitioned
    emitted: ExecutorchProgramManager


def ship(exporter: Exporter, built: Built, backend: str, recipe: Recipe) -> Shipment:
    """Let an exporter make a program.

    Args:
        exporter: of the case.
        built: the case; the exporter gets copies, because what it does to a module (another
            implementation of a layer, a flag in its configuration) must not reach the reference.
        backend: the name of the target's backend.
        recipe: of the target, for the reasons why nodes were left over.

    Raises:
        CaseError: what it returned was not emitted while it ran.
    """
    module, inputs = copy_module(built.module)[0], copy.deepcopy(built.inputs)
    with _own_trees(), rejections.listening(recipe, ()) as why, _emissions(why) as seen:
        exported, emitted = exporter.make(module, inputs, backend)
    for emission in seen:
        if emission.emitted is emitted:
            interface = Interface.of(exported, emission.signature)
            partitioned = Partitioned(emission.manager, emission.delegation, interface)
            return Shipment(exported, partitioned, emitted)
    raise CaseError(
        f"{exporter.name} returned an ExecutorchProgramManager that no EdgeProgramManager "
        "emitted while it ran"
    )


@contextmanager
def _own_trees() -> Iterator[None]:
    """Types that were there, and that an exporter teaches torch to take apart, are forgotten with
    its end; what it imports may register types of its own, once.

    transformers' registers every kind of cache that is loaded. A module that holds one is from then
    on left with fake tensors in it by ``torch.export``, which puts attributes back as it found them
    while it traced.
    """
    known, modules = set(_pytree.SUPPORTED_NODES), set(sys.modules)
    try:
        yield
    finally:
        for kind in set(_pytree.SUPPORTED_NODES) - known:
            if kind.__module__ in modules:
                _pytree._deregister_pytree_node(kind)


@dataclass(frozen=True)
class _Emission:
    """An edge program as it was before it was emitted, and what was made of it."""

    manager: EdgeProgramManager
    delegation: Delegation
    signature: ExportGraphSignature
    emitted: ExecutorchProgramManager


@contextmanager
def _emissions(why: rejections.Why) -> Iterator[list[_Emission]]:
    """Look at edge programs before they are emitted, which rewrites what no delegate took.

    Yields:
        Those that were, so far.
    """
    seen: list[_Emission] = []
    original = EdgeProgramManager.to_executorch

    def to_executorch(manager: EdgeProgramManager, *args: Any, **kwargs: Any) -> Any:
        edge = manager.exported_program()
        before = manager, count(edge, why), copy.deepcopy(edge.graph_signature)
        emitted = original(manager, *args, **kwargs)
        seen.append(_Emission(*before, emitted))
        return emitted

    EdgeProgramManager.to_executorch = to_executorch
    try:
        yield seen
    finally:
        EdgeProgramManager.to_executorch = original
