"""What the stages of a tester leave behind: a typed slot each, in the order of the stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from executorch.exir import EdgeProgramManager, ExecutorchProgramManager
from torch.export import ExportedProgram

from harness.errors import StageOrderError
from harness.execution.interface import Interface
from harness.model.backend import Execution
from harness.model.case import Given
from harness.model.recipe import Lowered
from harness.numerics.compare import Verdict
from harness.numerics.oracle import Reference
from harness.passes.pass_log import Rewriting
from harness.pipeline.program_statistics import Stopwatch
from harness.record.cell import Delegation


@dataclass(frozen=True)
class Exported:
    """An ATen program, how it was exported, and the graph that stands for its module.

    Attributes:
        program: the ATen program.
        dynamic_shapes: as ``torch.export.export`` took them.
        strict: traced with Dynamo.
        graph: what the reference is computed of in place of the module, where weights or
            activations are quantized (by the recipe, or in the module as it was given); None for
            the module itself.
    """

    program: ExportedProgram
    dynamic_shapes: Any = None
    strict: bool = False
    graph: torch.fx.GraphModule | None = None


@dataclass(frozen=True)
class Partitioned:
    """An edge program with its delegates, and what emitting it will hide.

    Attributes:
        manager: the program.
        delegation: who took which node.
        interface: what it takes and returns.
        rewriting: what the passes that the target adds were given and made; None without any.
    """

    manager: EdgeProgramManager
    delegation: Delegation
    interface: Interface
    rewriting: Rewriting | None = None


@dataclass(frozen=True)
class Ran:
    """The inputs of each call that was executed, what came of them, and when."""

    calls: Sequence[Given]
    execution: Execution
    watch: Stopwatch


@dataclass
class Artifacts:
    """One slot a stage, of the stage's name. Filling one empties all that come after it: what was
    made of an earlier artifact is gone with it."""

    quantize_weights: torch.nn.Module | None = None
    export: Exported | None = None
    quantize: Exported | None = None
    to_edge: EdgeProgramManager | None = None
    transform: EdgeProgramManager | None = None
    lower: Partitioned | None = None
    to_executorch: ExecutorchProgramManager | None = None
    serialize: Lowered | None = None
    run: Ran | None = None
    refer: Reference | None = None
    compare: Verdict | None = None

    def put(self, stage: str, artifact: Any) -> None:
        """Fill the slot of a stage and empty all later ones."""
        names = [field.name for field in fields(self)]
        for name in names[names.index(stage) :]:
            setattr(self, name, None)
        setattr(self, stage, artifact)

    def need(self, stage: str, wanted_by: str) -> Any:
        """The artifact of a stage.

        Raises:
            StageOrderError: the stage has not run, or an earlier one has since.
        """
        artifact = getattr(self, stage)
        if artifact is None:
            raise StageOrderError(f"{wanted_by} needs stage {stage!r}; call .{stage}() first")
        return artifact


class ArtifactReader:
    """The artifacts of a tester as properties; each says which stage is missing."""

    _artifacts: Artifacts

    @property
    def exported(self) -> ExportedProgram:
        """The ATen program that is lowered: quantized when a quantizing stage ran."""
        return self._need_exported("exported").program

    @property
    def float_program(self) -> ExportedProgram:
        """The ATen program as a quantizer gets it."""
        exported: Exported = self._artifacts.need("export", "float_program")
        return exported.program

    @property
    def quantized(self) -> torch.fx.GraphModule:
        """The PT2E-quantized graph as an eager module."""
        graph: torch.fx.GraphModule = self._artifacts.need("quantize", "quantized").graph
        return graph

    @property
    def edge(self) -> EdgeProgramManager:
        """The edge program of the two-step path, transformed when :meth:`transform` ran."""
        return self._artifacts.transform or self._artifacts.need("to_edge", "edge")

    @property
    def lowered(self) -> EdgeProgramManager:
        """The edge program with its delegates."""
        partitioned: Partitioned = self._artifacts.need("lower", "lowered")
        return partitioned.manager

    @property
    def delegation(self) -> Delegation:
        """Delegates, delegated and left-over operators of the lowered program."""
        partitioned: Partitioned = self._artifacts.need("lower", "delegation")
        return partitioned.delegation

    @property
    def interface(self) -> Interface:
        """What the lowered program takes and returns."""
        partitioned: Partitioned = self._artifacts.need("lower", "interface")
        return partitioned.interface

    @property
    def rewriting(self) -> Rewriting | None:
        """The program before and after the passes that the target adds; None without any."""
        partitioned: Partitioned = self._artifacts.need("lower", "rewriting")
        return partitioned.rewriting

    @property
    def executorch_program(self) -> ExecutorchProgramManager:
        """The emitted program."""
        return self._artifacts.need("to_executorch", "executorch_program")

    @property
    def shipped(self) -> Lowered:
        """The case as it was lowered, for what judges its program."""
        lowered: Lowered = self._artifacts.need("serialize", "shipped")
        return lowered

    @property
    def program(self) -> bytes:
        """The bytes of the ``.pte``."""
        lowered: Lowered = self._artifacts.need("serialize", "program")
        return lowered.data

    @property
    def execution(self) -> Execution:
        """The outputs and who produced them."""
        ran: Ran = self._artifacts.need("run", "execution")
        return ran.execution

    @property
    def watch(self) -> Stopwatch:
        """How long the calls took."""
        ran: Ran = self._artifacts.need("run", "watch")
        return ran.watch

    @property
    def reference(self) -> Reference:
        """Oracle, bound and eager outputs."""
        reference: Reference = self._artifacts.need("refer", "reference")
        return reference

    @property
    def referred(self) -> Reference | None:
        """The same; None where the cell has none, as of a module that draws."""
        return self._artifacts.refer

    @property
    def verdict(self) -> Verdict:
        """What :meth:`compare` found."""
        verdict: Verdict = self._artifacts.need("compare", "verdict")
        return verdict

    def _need_exported(self, wanted_by: str) -> Exported:
        exported: Exported = self._artifacts.quantize or self._artifacts.need("export", wanted_by)
        return exported

    def _calls(self) -> list[torch.fx.Node]:
        artifacts = self._artifacts
        manager = artifacts.lower.manager if artifacts.lower else None
        manager = manager or artifacts.transform or artifacts.to_edge
        if manager is None and not (artifacts.quantize or artifacts.export):
            raise StageOrderError("a graph check needs stage 'export'; call .export() first")
        program = self.exported if manager is None else manager.exported_program()
        return [node for node in program.graph.nodes if node.op == "call_function"]
