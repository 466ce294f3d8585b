"""Tester: one case on one target, stage by stage.

::

    Tester(case, "xnnpack:fp32").export().lower().to_executorch().serialize().run().compare()

Every stage takes its options explicitly and otherwise uses the recipe's; every artifact stays
reachable until an earlier stage runs again; a stage called too early says which one is missing.
:func:`harness.pipeline.runner.run_cell` drives it and makes the record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self

import torch
from executorch.exir import EdgeCompileConfig, EdgeProgramManager, ExecutorchProgramManager
from torch.export import ExportedProgram
from torch.utils._pytree import tree_leaves

from harness import registry
from harness.backend import Attempt, Backend, Emulating, Execution, Lowered, Recipe
from harness.case import Built, Case, Given, Inputs, case_seed
from harness.copies import copy_module
from harness.errors import ConflictingOptions, StageOrderError
from harness.execution.interface import Interface
from harness.execution.locking import exclusive
from harness.execution.memory import Meter
from harness.execution.program import Program
from harness.numerics.compare import Verdict, compare
from harness.numerics.distribution import compare_draws
from harness.numerics.eager import EagerRuns
from harness.numerics.oracle import Reference, refer
from harness.pipeline import delegation, stages
from harness.pipeline.artifacts import ArtifactReader, Artifacts, Exported, Partitioned, Ran
from harness.pipeline.checks import GraphChecks
from harness.pipeline.explaining import rejections
from harness.pipeline.figures import Stopwatch
from harness.pipeline.rehearsal import rehearse
from harness.pipeline.sequence import observing_state, writes_state
from harness.pipeline.shipping import ship
from harness.pipeline.stage_clock import StageClock
from harness.pipeline.stages import LowerOptions, Pass
from harness.pipeline.supposed import precision_of, semantics_of
from harness.precision import Precision
from harness.target import Target

# Stages that are the vendors' work; everything else a cell spends is ours.
VENDOR_STAGES = ("export", "quantize", "to_edge", "transform", "lower", "to_executorch", "ship",
                 "serialize", "run", "steady", "emulate")  # fmt: skip


class Tester(StageClock, ArtifactReader, GraphChecks):
    """The pipeline over one case on one target.

    Several testers may run in threads of one process: each stage but execution holds
    :func:`~harness.execution.locking.exclusive`, because export, passes and the reference use
    global state of torch. Threads therefore gain nothing but in execution.

    Attributes:
        built: module and inputs, seeded from (seed, case) alone and cast to the recipe's dtype.
    """

    __test__ = False  # the name begins like a test class of pytest

    def __init__(
        self,
        case: Case,
        target: Target | str,
        *,
        seed: int = 0,
        recipe: Recipe | None = None,
        backend: Backend | None = None,
        transform_passes: Sequence[Pass] | None = None,
        meter: Meter | None = None,
    ) -> None:
        """Build the case for a target.

        Args:
            case: what is tested.
            target: where and how, ``backend:recipe``.
            seed: run seed.
            recipe: used instead of the one the target names.
            backend: used instead of the one the target names.
            transform_passes: used instead of the recipe's passes, on either lowering path.
            meter: told what the stages hold; by default a new one.

        Raises:
            UnknownTarget: no such backend or recipe.
            StageFailure: stage ``build``: the case cannot be built.
        """
        super().__init__(meter)
        self.case = case
        self.target = Target.parse(target) if isinstance(target, str) else target
        self.backend = backend or registry.backend(self.target.backend)
        self.recipe = recipe or registry.recipe(self.target, self.backend)
        self.seed = seed
        self._passes = transform_passes
        self._artifacts = Artifacts()
        self._runs = EagerRuns(case_seed(seed, case.name))
        with self._stage("build"):
            self.built: Built = case.make(seed).cast(self.recipe.dtype)

    # Stages, in order.

    def quantize_weights(
        self, convert: Callable[[torch.nn.Module], torch.nn.Module] | None = None
    ) -> Self:
        """Quantize the weights of a copy of the module, which :meth:`export` then exports.

        Args:
            convert: defaults to the recipe's.

        Raises:
            StageOrderError: the float module was exported already.
        """
        if self._artifacts.export is not None:
            raise StageOrderError("quantize_weights comes before .export()")
        convert = convert or self.recipe.quantize_weights
        if convert is None:
            raise ConflictingOptions(f"{self.target} quantizes no weights; pass what does")
        self._rehearse()
        with self._stage("quantize"):
            self._artifacts.put("quantize_weights", convert(copy_module(self.built.module)[0]))
        return self

    def export(self, *, dynamic_shapes: Any = None, strict: bool = False) -> Self:
        """``torch.export`` the module; ``dynamic_shapes`` default to the case's."""
        shapes = self.case.dynamic_shapes if dynamic_shapes is None else dynamic_shapes
        converted = self._artifacts.quantize_weights
        self._rehearse()
        with self._stage("export"):
            module = self.built.module if converted is None else converted
            program = stages.export(module, self.built.inputs, dynamic_shapes=shapes, strict=strict)
        graph = self._graph(program) if converted is not None or self.built.quantized else None
        self._artifacts.put("export", Exported(program, shapes, strict, graph))
        return self

    def quantize(self, quantizer: Any = None, calibration: Sequence[Given] | None = None) -> Self:
        """PT2E-quantize the exported program and export the result again, with the same options.

        Args:
            quantizer: defaults to a new one of the recipe.
            calibration: defaults to the inputs of the case's calls.
        """
        exported: Exported = self._artifacts.need("export", "quantize")
        if quantizer is None and self.recipe.quantizer is None:
            raise ConflictingOptions(f"{self.target} has no quantizer; pass one to quantize()")
        with self._stage("quantize"):
            if quantizer is None and self.recipe.quantizer is not None:
                quantizer = self.recipe.quantizer()
            graph = stages.quantize(exported.program, quantizer, calibration or self.built.calls)
            program = stages.export(
                graph,
                self.built.inputs,
                dynamic_shapes=exported.dynamic_shapes,
                strict=exported.strict,
            )
            self._artifacts.put("quantize", replace(exported, program=program, graph=graph))
        return self

    def to_edge(self, edge_config: EdgeCompileConfig | None = None) -> Self:
        """Convert to edge dialect without partitioning; ``lower`` then takes it from there."""
        exported = self._need_exported("to_edge")
        with self._stage("to_edge"):
            edge = stages.to_edge(
                exported.program, edge_config or self.recipe.edge_config(), self.built.published
            )
            self._artifacts.put("to_edge", edge)
        return self

    def transform(self, passes: Sequence[Pass] | None = None) -> Self:
        """Run passes over the edge program made by :meth:`to_edge`.

        Raises:
            ConflictingOptions: the tester was given other ``transform_passes``.
        """
        edge: EdgeProgramManager = self._artifacts.need("to_edge", "transform")
        if passes is not None and self._passes is not None and list(passes) != list(self._passes):
            raise ConflictingOptions(
                "transform_passes were given to the Tester and others to transform(); "
                "give them once"
            )
        with self._stage("transform"):
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

        From the exported program in one step; or, when :meth:`to_edge` ran, from the edge
        program. ``transform_passes`` reach both, given here, in ``options`` or to the Tester.
        Constant methods are the options', else the module's.

        Raises:
            ConflictingOptions: an option is given twice with different values, or passes are
                given after :meth:`transform` has run, or what :meth:`to_edge` has settled.
        """
        if options is not None and (partitioners is not None or edge_config is not None):
            raise ConflictingOptions("give partitioners and edge_config in options or beside them")
        exported = self._need_exported("lower")
        edge = self._artifacts.transform or self._artifacts.to_edge
        with self._stage("lower"):
            passes = tuple(self._resolve_passes(options, transform_passes))
            if options is None:
                chosen = self.recipe.partitioners() if partitioners is None else partitioners
                options = LowerOptions(chosen, (), edge_config)
            options = replace(options, transform_passes=passes)
            if edge is None:
                options = replace(
                    options,
                    edge_config=options.edge_config or self.recipe.edge_config(),
                    constant_methods=options.constant_methods or self.built.published,
                )
            with rejections.listening(self.recipe, options.partitioners) as why:
                manager = stages.lower_any(edge or exported.program, options)
            lowered = manager.exported_program()
            # Counted here: emitting rewrites the lowered graph into out-variants.
            interface = Interface.of(exported.program, lowered.graph_signature)
            partitioned = Partitioned(manager, delegation.count(lowered, why), interface)
            self._artifacts.put("lower", partitioned)
        return self

    def to_executorch(self, config: Any = None) -> Self:
        """Plan memory and emit; ``config`` is an ``ExecutorchBackendConfig``."""
        partitioned: Partitioned = self._artifacts.need("lower", "to_executorch")
        with self._stage("to_executorch"):
            emitted = stages.to_executorch(partitioned.manager, config)
            self._artifacts.put("to_executorch", emitted)
        return self

    def ship(self) -> Self:
        """Let the case's own exporter make the program, in place of :meth:`export`, :meth:`lower`
        and :meth:`to_executorch`, whose artifacts are there afterwards.

        Raises:
            ConflictingOptions: the case has none, or passes were given that it does not run.
        """
        exporter = self.case.exporter
        if exporter is None:
            raise ConflictingOptions(f"case {self.case.name!r} has no exporter")
        if self._passes is not None:
            raise ConflictingOptions(f"{exporter.name} runs its own passes; give no others")
        self._rehearse()
        with self._stage("ship"):
            shipment = ship(exporter, self.built, self.target.backend, self.recipe)
        graph = self._graph(shipment.exported) if self.built.quantized else None
        self._artifacts.put("export", Exported(shipment.exported, graph=graph))
        self._artifacts.put("lower", shipment.partitioned)
        self._artifacts.put("to_executorch", shipment.emitted)
        return self

    def serialize(self) -> Self:
        """Make the bytes of the program."""
        emitted: ExecutorchProgramManager = self._artifacts.need("to_executorch", "serialize")
        with self._stage("serialize"):
            data = stages.serialize(emitted)
        partitioned: Partitioned = self._artifacts.need("lower", "serialize")
        with self.attributed("serialize"):
            lowered = Lowered(
                exported=self.exported,
                edge=partitioned.manager.exported_program(),
                data=data,
                program=Program(data),
                delegation=partitioned.delegation,
            )
        self._artifacts.put("serialize", lowered)
        return self

    def run(self, calls: Sequence[Given] | None = None, *, steady: bool = False) -> Self:
        """Execute the serialized bytes for each call.

        Args:
            calls: defaults to the case's, and one more where the program has state, so that what
                the last call left behind is seen.
            steady: execute the first call a few more times when all is done, for its time alone;
                not where the program has state.
        """
        lowered: Lowered = self._artifacts.need("serialize", "run")
        chosen = calls
        if chosen is None:
            with exclusive(), self.attributed("reference"):
                chosen = observing_state(
                    self._runs, self.reference_module, self.exported, self.built.calls
                )
        with self.attributed("run"):
            chosen = [self.interface.arrange(inputs) for inputs in chosen]
            flat = self._flat(chosen)
        watch = Stopwatch()
        with self._stage("run"), watch.listening():
            execution = self.backend.execute(lowered.data, flat)
        if steady and not writes_state(self.exported):
            with self._stage("steady"):
                watch.repeat()
        watch.let_go()
        self._artifacts.put("run", Ran(chosen, execution, watch))
        return self

    def refer(self, calls: Sequence[Given] | None = None) -> Self:
        """Compute what the outputs should be: of :attr:`reference_module`."""
        ran, module = self._artifacts.run, self.reference_module
        if calls is None:
            calls = self.built.calls if ran is None else ran.calls
        with self._stage("reference"):
            reference = refer(
                module,
                calls,
                self._precision(),
                self._runs.seed,
                semantics_of(self.recipe),
                changed=() if self._artifacts.lower is None else self.interface.changed,
                model=None if module is self.built.module else self.built.module,
                runs=self._runs,
            )
            self._artifacts.put("refer", reference)
        return self

    def compare(self, reference: Reference | None = None) -> Self:
        """Judge the outputs; the verdict is a value, nothing is raised for a mismatch.

        Args:
            reference: used instead of the one that :meth:`refer` computes.
        """
        ran: Ran = self._artifacts.need("run", "compare")
        if reference is None and self._artifacts.refer is None and not self.case.draws:
            self.refer()
        verdict = self._judge(ran.calls, ran.execution, reference or self._artifacts.refer)
        self._artifacts.put("compare", verdict)
        return self

    def emulate(self) -> Verdict:
        """Judge what the backend's emulation computes for the same calls, after
        :meth:`compare`.

        Raises:
            ConflictingOptions: the backend has one runtime only.
        """
        lowered: Lowered = self._artifacts.need("serialize", "emulate")
        self._artifacts.need("compare", "emulate")
        if not isinstance(self.backend, Emulating):
            raise ConflictingOptions(f"{self.backend.name} has no emulation to compare with")
        ran: Ran = self._artifacts.need("run", "emulate")
        flat = self._flat(ran.calls)
        with self._stage("emulate"):
            execution = self.backend.emulate(lowered.data, flat)
        return self._judge(ran.calls, execution, self._artifacts.refer)

    @property
    def reference_module(self) -> torch.nn.Module:
        """What the reference is computed of: the module, or the graph in which its weights or
        activations are quantized, be it by the recipe or before they were given."""
        exported = self._artifacts.quantize or self._artifacts.export
        graph = None if exported is None else exported.graph
        return self.built.module if graph is None else graph

    @property
    def attempt(self) -> Attempt:
        """The cell as far as it came, once it is serialized."""
        ran, verdict = self._artifacts.run, self._artifacts.compare
        calls = self.built.calls if ran is None else ran.calls
        return Attempt(
            lowered=self.shipped,
            calls=self._flat([self.interface.arrange(inputs) for inputs in calls]),
            precision=self._precision(),
            semantics=semantics_of(self.recipe),
            seed=self._runs.seed,
            problem=None if verdict is None else verdict.problem,
            numerics=() if verdict is None else verdict.numerics,
        )

    # Inner workings.

    def _rehearse(self) -> None:
        with self._stage("build"):
            rehearse(self.case, self.seed, self.recipe.dtype, self.built, self._runs)

    def _graph(self, program: ExportedProgram) -> torch.fx.GraphModule:
        with self._stage("reference"), self.attributed("export"):
            return stages.flatten(program)

    def _judge(
        self, calls: Sequence[Given], execution: Execution, reference: Reference | None
    ) -> Verdict:
        with self._stage("compare"):
            if reference is None:  # what a module draws has none
                return compare_draws(
                    self.built.module, calls, execution.outputs, self.interface, self._runs.seed
                )
            return compare(
                execution.outputs,
                reference,
                interface=self.interface,
                declared=self.shipped.program.outputs,
            )

    def _flat(self, calls: Sequence[Given]) -> list[Inputs]:
        return [self.shipped.program.arrange(tree_leaves(inputs)) for inputs in calls]

    def _precision(self) -> Precision:
        lowered = self._artifacts.lower
        delegation = None if lowered is None else lowered.delegation
        return precision_of(self.recipe, delegation, self.reference_module)

    def _default_passes(self) -> Sequence[Pass]:
        return self.recipe.transform_passes() if self._passes is None else self._passes

    def _resolve_passes(
        self, options: LowerOptions | None, given: Sequence[Pass] | None
    ) -> Sequence[Pass]:
        if self._artifacts.transform is not None:
            if stages.agreed_passes(options, given):
                raise ConflictingOptions("transform() already ran; pass no transform_passes")
            return ()
        stated = stages.agreed_passes(options, given, self._passes)
        return self.recipe.transform_passes() if stated is None else stated
