"""The artifacts of a tester's stages: a typed field for each stage, in the order of the stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from executorch.exir import EdgeProgramManager, ExecutorchProgramManager
from torch.export import ExportedProgram

from harness.errors import StageOrderError
from harness.execution.interface import Interface
from harness.model.backend import Execution
from harness.model.case import CallInputs
from harness.model.recipe import Lowered
from harness.numerics.compare import Verdict
from harness.numerics.oracle import Reference
from harness.passes.pass_log import ProgramRewrite
from harness.pipeline.program_statistics import Stopwatch
from harness.pipeline.stages import flatten
from harness.record.cell import Delegation


@dataclass(frozen=True)
class ExportArtifact:
    """An ATen program and its export options.

    Attributes:
        program: the ATen program.
        dynamic_shapes: the argument of ``torch.export.export``.
        strict: traced with Dynamo.
        graph: the quantized graph from which the reference is computed, where the recipe or the
            module itself quantizes weights or activations; None if the module is the reference.
        constants: the program's constants and buffers without state, by name. Lowering may remove
            them from the program.
    """

    program: ExportedProgram
    dynamic_shapes: Any = None
    strict: bool = False
    graph: torch.fx.GraphModule | None = None
    constants: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "constants", dict(self.program.constants))


@dataclass(frozen=True)
class LowerArtifact:
    """A lowered edge program, and facts about it that ``to_executorch`` will hide.

    Attributes:
        manager: the program.
        delegation: its delegates, delegated and fallback nodes.
        interface: its inputs and outputs.
        rewriting: the programs before and after the passes that the target adds; None without
            such passes.
    """

    manager: EdgeProgramManager
    delegation: Delegation
    interface: Interface
    rewriting: ProgramRewrite | None = None


@dataclass(frozen=True)
class RunArtifact:
    """The inputs, outputs and times of the executed calls."""

    calls: Sequence[CallInputs]
    execution: Execution
    stopwatch: Stopwatch


@dataclass
class Artifacts:
    """One field for each stage, with the name of the stage's method.

    Setting a field clears all later fields, which were made from the earlier artifact.
    """

    quantize_weights: torch.nn.Module | None = None
    export: ExportArtifact | None = None
    quantize: ExportArtifact | None = None
    to_edge: EdgeProgramManager | None = None
    transform: EdgeProgramManager | None = None
    lower: LowerArtifact | None = None
    to_executorch: ExecutorchProgramManager | None = None
    serialize: Lowered | None = None
    run: RunArtifact | None = None
    compute_reference: Reference | None = None
    compare: Verdict | None = None

    def put(self, stage: str, artifact: Any) -> None:
        """Set the field of a stage and clear all later fields."""
        names = [field.name for field in fields(self)]
        for name in names[names.index(stage) :]:
            setattr(self, name, None)
        setattr(self, stage, artifact)

    def need(self, stage: str, wanted_by: str) -> Any:
        """The artifact of a stage.

        Raises:
            StageOrderError: the stage has not run, or an earlier stage ran after it.
        """
        artifact = getattr(self, stage)
        if artifact is None:
            raise StageOrderError(f"{wanted_by} needs stage {stage!r}; call .{stage}() first")
        return artifact


class ArtifactReader:
    """The artifacts of a tester as properties. An error names the missing stage."""

    _artifacts: Artifacts

    @property
    def exported(self) -> ExportedProgram:
        """The ATen program to lower; quantized if :meth:`quantize` ran."""
        return self._need_exported("exported").program

    def flatten_exported(self) -> torch.fx.GraphModule:
        """Return the ATen program to lower as a module, also after it was lowered."""
        exported = self._need_exported("flatten_exported")
        constants = exported.program.constants
        # The delegate of Metal moves them into its payload when it takes the whole program.
        constants.update({k: v for k, v in exported.constants.items() if k not in constants})
        return flatten(exported.program)

    @property
    def float_program(self) -> ExportedProgram:
        """The ATen program before quantization."""
        exported: ExportArtifact = self._artifacts.need("export", "float_program")
        return exported.program

    @property
    def quantized(self) -> torch.fx.GraphModule:
        """The PT2E-quantized graph as an eager module."""
        graph: torch.fx.GraphModule = self._artifacts.need("quantize", "quantized").graph
        return graph

    @property
    def edge(self) -> EdgeProgramManager:
        """The edge program of :meth:`to_edge`, or of :meth:`transform` if it ran."""
        return self._artifacts.transform or self._artifacts.need("to_edge", "edge")

    @property
    def lowered(self) -> EdgeProgramManager:
        """The edge program with its delegates."""
        partitioned: LowerArtifact = self._artifacts.need("lower", "lowered")
        return partitioned.manager

    @property
    def delegation(self) -> Delegation:
        """Delegates, delegated nodes and fallback nodes of the lowered program."""
        partitioned: LowerArtifact = self._artifacts.need("lower", "delegation")
        return partitioned.delegation

    @property
    def interface(self) -> Interface:
        """The inputs and outputs of the lowered program."""
        partitioned: LowerArtifact = self._artifacts.need("lower", "interface")
        return partitioned.interface

    @property
    def rewriting(self) -> ProgramRewrite | None:
        """The program before and after the target's added passes; None if it adds none."""
        partitioned: LowerArtifact = self._artifacts.need("lower", "rewriting")
        return partitioned.rewriting

    @property
    def executorch_program(self) -> ExecutorchProgramManager:
        """The emitted program."""
        return self._artifacts.need("to_executorch", "executorch_program")

    @property
    def serialized(self) -> Lowered:
        """The serialized program with its exported and edge programs and its delegation."""
        lowered: Lowered = self._artifacts.need("serialize", "serialized")
        return lowered

    @property
    def program(self) -> bytes:
        """The bytes of the ``.pte``."""
        lowered: Lowered = self._artifacts.need("serialize", "program")
        return lowered.data

    @property
    def execution(self) -> Execution:
        """The outputs and the runtime that computed them."""
        ran: RunArtifact = self._artifacts.need("run", "execution")
        return ran.execution

    @property
    def stopwatch(self) -> Stopwatch:
        """The times of the executed calls."""
        ran: RunArtifact = self._artifacts.need("run", "stopwatch")
        return ran.stopwatch

    @property
    def reference(self) -> Reference:
        """Oracle, bound and eager outputs."""
        reference: Reference = self._artifacts.need("compute_reference", "reference")
        return reference

    @property
    def reference_or_none(self) -> Reference | None:
        """The reference; None before it is computed, or where the module draws random numbers."""
        return self._artifacts.compute_reference

    @property
    def verdict(self) -> Verdict:
        """The verdict of :meth:`compare`."""
        verdict: Verdict = self._artifacts.need("compare", "verdict")
        return verdict

    def _need_exported(self, wanted_by: str) -> ExportArtifact:
        exported: ExportArtifact = self._artifacts.quantize or self._artifacts.need(
            "export", wanted_by
        )
        return exported

    def _calls(self) -> list[torch.fx.Node]:
        artifacts = self._artifacts
        manager = artifacts.lower.manager if artifacts.lower else None
        manager = manager or artifacts.transform or artifacts.to_edge
        if manager is None and not (artifacts.quantize or artifacts.export):
            raise StageOrderError("a graph check needs stage 'export'; call .export() first")
        program = self.exported if manager is None else manager.exported_program()
        return [node for node in program.graph.nodes if node.op == "call_function"]
