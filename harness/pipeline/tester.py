"""Tester: run one case on one target, stage by stage.

::

    Tester(case, "xnnpack:fp32").export().lower().to_executorch().serialize().run().compare()

Every stage takes options and defaults to the recipe's. Its artifact stays available until an
earlier stage runs again. A stage that is called too early raises an error that names the missing
stage. :func:`harness.pipeline.runner.run_cell` calls the stages and makes the record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self

import torch
from executorch.exir import EdgeCompileConfig, EdgeProgramManager, ExecutorchProgramManager
from torch.export import ExportedProgram

from harness.errors import ConflictingOptions, StageOrderError
from harness.execution.interface import Interface
from harness.execution.program import Program
from harness.model import registry
from harness.model.backend import Backend, get_library
from harness.model.case import Built, CallInputs, Case
from harness.model.copies import copy_module
from harness.model.recipe import Lowered, Recipe
from harness.model.seeding import case_seed
from harness.numerics.module_runs import EagerRuns
from harness.passes.pass_log import add_recorder
from harness.pipeline import stages
from harness.pipeline.artifacts import Artifacts, ExportArtifact, LowerArtifact
from harness.pipeline.case_exporter import run_exporter
from harness.pipeline.delegation.count import count_delegation
from harness.pipeline.dynamic_sizes.extra_calls import ExecutedSizes, choose_sizes
from harness.pipeline.explain import rejections
from harness.pipeline.graph_checks import GraphChecks
from harness.pipeline.judge import ExecutionStages
from harness.pipeline.quantization.quality import QualityOptions
from harness.pipeline.reference.alterations import AlterationCheck
from harness.pipeline.reference.calls import find_written_buffers
from harness.pipeline.reference.eager_run import run_module_eagerly
from harness.pipeline.shared_case_work import SharedCaseWork
from harness.pipeline.stages import LowerOptions, Pass
from harness.record.cell import Intermediate
from harness.record.evidence import Quality
from harness.record.target import Target
from harness.workers.memory import MemoryMeter

# Stages that run vendors' code. The rest of a cell's time is the harness's own.
VENDOR_STAGES = ("export", "quantize", "to_edge", "transform", "lower", "to_executorch", "ship",
                 "serialize", "run", "steady", "emulate")  # fmt: skip


class Tester(ExecutionStages, GraphChecks):
    """Runs the stages of one case on one target.

    Several testers may run in threads of one process. Only execution runs in parallel: all other
    stages hold :func:`~harness.execution.process_lock.hold_process_lock`, because export, passes
    and the reference use global state of torch.
    """

    __test__ = False  # pytest must not collect it

    def __init__(
        self,
        case: Case,
        target: Target | str,
        *,
        seed: int = 0,
        recipe: Recipe | None = None,
        backend: Backend | None = None,
        transform_passes: Sequence[Pass] | None = None,
        meter: MemoryMeter | None = None,
        shared_work: SharedCaseWork | None = None,
        quality: QualityOptions = QualityOptions(),  # noqa: B008  (frozen)
    ) -> None:
        """Build the case for a target.

        Args:
            case: the case.
            target: the target, or its spelling ``backend:recipe``.
            seed: run seed.
            recipe: used instead of the target's recipe.
            backend: used instead of the target's backend.
            transform_passes: used instead of the recipe's passes, on either lowering path.
            meter: measures the memory of each stage; by default a new one.
            shared_work: results that the cells of one case share; by default nothing is shared.
            quality: what to measure of a quantized graph.

        Raises:
            UnknownTarget: the backend or recipe does not exist.
            StageFailure: stage ``build``: the case cannot be built.
        """
        super().__init__(meter)
        self.case = case
        self.target = Target.parse(target) if isinstance(target, str) else target
        self.backend = backend or registry.backend(self.target.backend)
        self.recipe = recipe or registry.recipe(self.target, self.backend)
        self.seed = seed
        self._passes = transform_passes
        self._shared_work = shared_work
        self._quality_options = quality
        self._artifacts = Artifacts()
        self._runs = EagerRuns(case_seed(seed, case.name))
        self.sizes = ExecutedSizes()
        self.intermediates: list[Intermediate] = []
        self.quality: Quality | None = None
        with self._stage("build"):
            built = case.make(seed).cast(self.recipe.dtype)
            self.built: Built = built.to_channels_last() if self.recipe.channels_last else built
        self._alteration_check = AlterationCheck(self.built)

    # Stages, in order.

    def quantize_weights(
        self, convert: Callable[[torch.nn.Module], torch.nn.Module] | None = None
    ) -> Self:
        """Quantize the weights of a copy of the module; :meth:`export` then exports the copy.

        Args:
            convert: quantizes a module; by default the recipe's ``quantize_weights``.

        Raises:
            StageOrderError: the float module was exported already.
            ConflictingOptions: the recipe has no ``quantize_weights`` and none is given.
        """
        if self._artifacts.export is not None:
            raise StageOrderError("quantize_weights comes before .export()")
        convert = convert or self.recipe.quantize_weights
        if convert is None:
            raise ConflictingOptions(
                f"{self.target} does not quantize weights; pass a function to quantize_weights()"
            )
        self._run_module_eagerly()
        with self._vendor_stage("quantize", "quantize_weights"):
            self._artifacts.put("quantize_weights", convert(copy_module(self.built.module)[0]))
        return self

    def export(self, *, dynamic_shapes: Any = None, strict: bool | None = None) -> Self:
        """Export the module with ``torch.export``.

        Args:
            dynamic_shapes: by default those of the case.
            strict: by default as the recipe says.
        """
        strict = self.recipe.strict if strict is None else strict
        shapes = self.case.dynamic_shapes if dynamic_shapes is None else dynamic_shapes
        converted = self._artifacts.quantize_weights
        self._run_module_eagerly()
        with self._vendor_stage("export"):
            module = self.built.module if converted is None else converted

            def make() -> ExportedProgram:
                given = self.built.inputs
                return stages.export(module, given, dynamic_shapes=shapes, strict=strict)

            if self._shared_work is None or converted is not None or shapes is not None:
                program = make()
            else:
                program = self._shared_work.export(self.case, self.built, self._runs, strict, make)
        self._track_exported(program)
        graph = (
            self._graph(program) if converted is not None or self.built.quantized_classes else None
        )
        self._artifacts.put("export", ExportArtifact(program, shapes, strict, graph))
        return self

    def quantize(
        self, quantizer: Any = None, calibration: Sequence[CallInputs] | None = None
    ) -> Self:
        """PT2E-quantize the exported program and export the result again, with the same options.

        The quantizer may rewrite the float graph. The rewritten graph is compared with the module
        before calibration, and the quantized graph with what its observers chose
        (docs/quantization.md). The results are in :attr:`intermediates`.

        Args:
            quantizer: by default a new quantizer of the recipe.
            calibration: inputs to calibrate with; by default the case's calibration, else those of
                its calls.
        """
        exported: ExportArtifact = self._artifacts.need("export", "quantize")
        if quantizer is None and self.recipe.quantizer is None:
            raise ConflictingOptions(f"{self.target} has no quantizer; pass one to quantize()")
        # Nothing here may write to a buffer, whatever the program writes when it runs.
        has_state = bool(find_written_buffers(exported.program))
        if has_state:
            self._track_exported(exported.program, written=True)
        with self._vendor_stage("quantize", "prepare"):
            if quantizer is None and self.recipe.quantizer is not None:
                quantizer = self.recipe.quantizer()
            prepared = stages.prepare(exported.program, quantizer, qat=self.recipe.qat)
        self.intermediates = self._compare_forms(exported.program, prepared)
        calibration = calibration or self.built.calibration or self.built.calls
        with self._vendor_stage("quantize", "calibration"):
            stages.calibrate(prepared, calibration)
        prediction = self._predict_quantized(exported.program, prepared, calibration)
        with self._vendor_stage("quantize", "convert"):
            graph = stages.convert(prepared)
        held = {**dict(graph.named_parameters()), **dict(graph.named_buffers())}
        self._alteration_check.track("the quantized graph", held)
        if has_state:
            self._track_exported(exported.program)
        with self._vendor_stage("quantize", "export of the quantized graph"):
            program = stages.export(
                graph,
                self.built.inputs,
                dynamic_shapes=stages.spread_variadic(self.built.module, exported.dynamic_shapes),
                strict=exported.strict,
            )
            store = self.recipe.store_constants
            stored = graph if store is None else store(graph)
            self._artifacts.put("quantize", replace(exported, program=program, graph=stored))
        if prediction is not None:
            form, self.quality = self._compare_quantized(exported.program, graph, prediction)
            self.intermediates += [form]
        return self

    def _track_exported(self, program: ExportedProgram, written: bool = False) -> None:
        """Hold vendor calls to the tensors of an exported program.

        Args:
            program: the exported program.
            written: include the buffers that it writes; exir's emission runs delegates on them.
        """
        held = {**program.state_dict, **program.constants}
        for name in () if written else find_written_buffers(program):
            held.pop(name, None)
        self._alteration_check.track("the exported program", held)

    def to_edge(self, edge_config: EdgeCompileConfig | None = None) -> Self:
        """Convert to edge dialect without partitioning; :meth:`lower` then lowers the result."""
        exported = self._need_exported("to_edge")
        with self._vendor_stage("to_edge"):
            edge = stages.to_edge(
                exported.program,
                edge_config or self.recipe.edge_config(),
                self.built.constant_methods,
            )
            self._artifacts.put("to_edge", edge)
        return self

    def transform(self, passes: Sequence[Pass] | None = None) -> Self:
        """Run passes over the edge program made by :meth:`to_edge`.

        Raises:
            ConflictingOptions: the tester has other ``transform_passes``.
        """
        edge: EdgeProgramManager = self._artifacts.need("to_edge", "transform")
        if passes is not None and self._passes is not None and list(passes) != list(self._passes):
            raise ConflictingOptions(
                "the Tester and transform() were given different transform_passes; give them once"
            )
        with self._vendor_stage("transform"):
            chosen = passes if passes is not None else self._default_passes()
            self._artifacts.put("transform", stages.transform(edge, chosen))
        return self

    def lower(
        self,
        options: LowerOptions | None = None,
        *,
        partitioners: Sequence[Any] | None = None,
        transform_passes: Sequence[Pass] | None = None,
        edge_config: EdgeCompileConfig | None = None,
    ) -> Self:
        """Partition and lower.

        Starts from the edge program if :meth:`to_edge` ran, else from the exported program.
        ``transform_passes`` apply to both paths and may be given here, in ``options`` or to the
        Tester. Constant methods default to the module's.

        Raises:
            ConflictingOptions: an option is given twice with different values, passes are given
                after :meth:`transform` ran, or an option is given that :meth:`to_edge` has used.
        """
        if options is not None and (partitioners is not None or edge_config is not None):
            raise ConflictingOptions("give partitioners and edge_config in options or beside them")
        exported = self._need_exported("lower")
        edge = self._artifacts.transform or self._artifacts.to_edge
        with self._vendor_stage("lower"):
            resolved = self._resolve_passes(options, transform_passes)
            passes, recorder = add_recorder(self.recipe, resolved)
            if options is None:
                chosen = self.recipe.partitioners() if partitioners is None else partitioners
                options = LowerOptions(chosen, (), edge_config)
            options = replace(options, transform_passes=passes)
            if edge is None:
                options = replace(
                    options,
                    edge_config=options.edge_config or self.recipe.edge_config(),
                    constant_methods=options.constant_methods or self.built.constant_methods,
                )
            with rejections.record_rejections(self.recipe, options.partitioners) as why:
                manager = stages.lower_any(edge or exported.program, options)
            lowered = manager.exported_program()
            # Count before to_executorch, which rewrites the lowered graph into out-variants.
            interface = Interface.from_export(exported.program, lowered.graph_signature)
            counted = count_delegation(lowered, why, get_library(self.backend))
            rewriting = None if recorder is None else recorder.rewrite
            partitioned = LowerArtifact(manager, counted, interface, rewriting)
            self._artifacts.put("lower", partitioned)
        return self

    def to_executorch(self, config: Any = None) -> Self:
        """Plan memory and emit; ``config`` is an ``ExecutorchBackendConfig``, by default the
        recipe's."""
        partitioned: LowerArtifact = self._artifacts.need("lower", "to_executorch")
        with self._vendor_stage("to_executorch"):
            config = config or self.recipe.backend_config()
            emitted = stages.to_executorch(partitioned.manager, config)
            self._artifacts.put("to_executorch", emitted)
        return self

    def run_case_exporter(self) -> Self:
        """Make the program with the case's own exporter.

        This replaces :meth:`export`, :meth:`lower` and :meth:`to_executorch` and provides their
        artifacts.

        Raises:
            ConflictingOptions: the case has no exporter, or the Tester has ``transform_passes``,
                which an exporter does not run.
        """
        exporter = self.case.exporter
        if exporter is None:
            raise ConflictingOptions(f"case {self.case.name!r} has no exporter")
        if self._passes is not None:
            raise ConflictingOptions(f"{exporter.name} runs its own passes; give no others")
        self._run_module_eagerly()
        with self._vendor_stage("ship"):
            shipment = run_exporter(exporter, self.built, self.target.backend, self.recipe)
        graph = self._graph(shipment.exported) if self.built.quantized_classes else None
        self._artifacts.put("export", ExportArtifact(shipment.exported, graph=graph))
        self._artifacts.put("lower", shipment.partitioned)
        self._artifacts.put("to_executorch", shipment.emitted)
        return self

    def serialize(self) -> Self:
        """Serialize the program to the bytes of the ``.pte``."""
        emitted: ExecutorchProgramManager = self._artifacts.need("to_executorch", "serialize")
        with self._stage("serialize"):
            data = stages.serialize(emitted)
        partitioned: LowerArtifact = self._artifacts.need("lower", "serialize")
        with self.attribute_errors("serialize"):
            lowered = Lowered(
                exported=self.exported,
                edge=partitioned.manager.exported_program(),
                data=data,
                program=Program(data),
                delegation=partitioned.delegation,
            )
        self._artifacts.put("serialize", lowered)
        return self

    def add_sizes(self) -> Self:
        """Add calls at the ends of the program's dynamic ranges that the case does not cover.

        See :mod:`harness.pipeline.dynamic_sizes.extra_calls`. The calls do not calibrate a
        quantizer.
        """
        program, built, runs = self.exported, self.built, self._runs
        with self._stage("build"):
            self.sizes = choose_sizes(program, built.calls, lambda calls: runs(built.module, calls))
            self.built = replace(built, calls=(*built.calls, *self.sizes.calls))
        return self

    def _run_module_eagerly(self) -> None:
        with self._stage("build"):
            run_module_eagerly(self.case, self.seed, self.recipe.dtype, self.built, self._runs)

    def _graph(self, program: ExportedProgram) -> torch.fx.GraphModule:
        with self._stage("reference"), self.attribute_errors("export"):
            return stages.flatten(program)

    def _default_passes(self) -> Sequence[Pass]:
        return self.recipe.transform_passes() if self._passes is None else self._passes

    def _resolve_passes(
        self, options: LowerOptions | None, given: Sequence[Pass] | None
    ) -> Sequence[Pass]:
        if self._artifacts.transform is not None:
            if stages.merge_passes(options, given):
                raise ConflictingOptions("transform() already ran; pass no transform_passes")
            return ()
        stated = stages.merge_passes(options, given, self._passes)
        return self.recipe.transform_passes() if stated is None else stated
