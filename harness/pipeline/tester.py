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

from harness.errors import ConflictingOptions, StageOrderError
from harness.execution.interface import Interface
from harness.execution.memory import Meter
from harness.execution.program import Program
from harness.model import registry
from harness.model.backend import Backend
from harness.model.case import Built, Case, Given
from harness.model.copies import copy_module
from harness.model.recipe import Lowered, Recipe
from harness.model.seeding import case_seed
from harness.numerics.module_runs import EagerRuns
from harness.passes.pass_log import watched
from harness.pipeline import delegation, stages
from harness.pipeline.artifacts import Artifacts, Exported, Partitioned
from harness.pipeline.case_exporter import ship
from harness.pipeline.dynamic_sizes.extra_calls import Sizes, further_sizes
from harness.pipeline.explain import rejections
from harness.pipeline.graph_checks import GraphChecks
from harness.pipeline.judge import Judging
from harness.pipeline.reference.alterations import Alterations
from harness.pipeline.reference.calls import written_buffers
from harness.pipeline.reference.eager_run import rehearse
from harness.pipeline.siblings import Siblings
from harness.pipeline.stages import LowerOptions, Pass
from harness.record.cell import Intermediate
from harness.record.target import Target

# Stages that are the vendors' work; everything else a cell spends is ours.
VENDOR_STAGES = ("export", "quantize", "to_edge", "transform", "lower", "to_executorch", "ship",
                 "serialize", "run", "steady", "emulate")  # fmt: skip


class Tester(Judging, GraphChecks):
    """The pipeline over one case on one target.

    Several testers may run in threads of one process: each stage but execution holds
    :func:`~harness.execution.process_lock.exclusive`, because export, passes and the reference use
    global state of torch. Threads therefore gain nothing but in execution.
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
        siblings: Siblings | None = None,
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
            siblings: what other cells of the case have computed, and what this one adds to it.

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
        self._siblings = siblings
        self._artifacts = Artifacts()
        self._runs = EagerRuns(case_seed(seed, case.name))
        self.sizes = Sizes()
        self.intermediates: list[Intermediate] = []
        with self._stage("build"):
            self.built: Built = case.make(seed).cast(self.recipe.dtype)
        self._alterations = Alterations(self.built)

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
        with self._vendor("quantize", "quantize_weights"):
            self._artifacts.put("quantize_weights", convert(copy_module(self.built.module)[0]))
        return self

    def export(self, *, dynamic_shapes: Any = None, strict: bool = False) -> Self:
        """``torch.export`` the module; ``dynamic_shapes`` default to the case's."""
        shapes = self.case.dynamic_shapes if dynamic_shapes is None else dynamic_shapes
        converted = self._artifacts.quantize_weights
        self._rehearse()
        with self._vendor("export"):
            module = self.built.module if converted is None else converted

            def make() -> ExportedProgram:
                given = self.built.inputs
                return stages.export(module, given, dynamic_shapes=shapes, strict=strict)

            if self._siblings is None or converted is not None or shapes is not None:
                program = make()
            else:
                program = self._siblings.export(self.case, self.built, self._runs, strict, make)
        written = written_buffers(program)
        held = {**program.state_dict, **program.constants}
        held = {name: value for name, value in held.items() if name not in written}
        self._alterations.hold("the exported program", held)
        graph = self._graph(program) if converted is not None or self.built.quantized else None
        self._artifacts.put("export", Exported(program, shapes, strict, graph))
        return self

    def quantize(self, quantizer: Any = None, calibration: Sequence[Given] | None = None) -> Self:
        """PT2E-quantize the exported program and export the result again, with the same options.

        The float graph that the quantizer rewrote is compared with the module before it is
        calibrated: :attr:`intermediates`.

        Args:
            quantizer: defaults to a new one of the recipe.
            calibration: defaults to the inputs of the case's calls.
        """
        exported: Exported = self._artifacts.need("export", "quantize")
        if quantizer is None and self.recipe.quantizer is None:
            raise ConflictingOptions(f"{self.target} has no quantizer; pass one to quantize()")
        with self._vendor("quantize", "prepare"):
            if quantizer is None and self.recipe.quantizer is not None:
                quantizer = self.recipe.quantizer()
            prepared = stages.prepare(exported.program, quantizer)
        self.intermediates = self._compare_forms(exported.program, prepared)
        with self._vendor("quantize", "convert"):
            graph = stages.convert(prepared, calibration or self.built.calls)
        held = {**dict(graph.named_parameters()), **dict(graph.named_buffers())}
        self._alterations.hold("the quantized graph", held)
        with self._vendor("quantize", "export of the quantized graph"):
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
        with self._vendor("to_edge"):
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
        with self._vendor("transform"):
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
        with self._vendor("lower"):
            resolved = self._resolve_passes(options, transform_passes)
            passes, witness = watched(self.recipe, resolved)
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
            counted = delegation.count(lowered, why)
            rewriting = None if witness is None else witness.rewriting
            partitioned = Partitioned(manager, counted, interface, rewriting)
            self._artifacts.put("lower", partitioned)
        return self

    def to_executorch(self, config: Any = None) -> Self:
        """Plan memory and emit; ``config`` is an ``ExecutorchBackendConfig``."""
        partitioned: Partitioned = self._artifacts.need("lower", "to_executorch")
        with self._vendor("to_executorch"):
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
        with self._vendor("ship"):
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

    def add_sizes(self) -> Self:
        """Add calls at those ends of the ranges of the exported program that the case's own calls
        leave out; see :mod:`harness.pipeline.dynamic_sizes.extra_calls`.

        They do not calibrate a quantizer.
        """
        program, built, runs = self.exported, self.built, self._runs
        with self._stage("build"):
            self.sizes = further_sizes(
                program, built.calls, lambda calls: runs(built.module, calls)
            )
            self.built = replace(built, calls=(*built.calls, *self.sizes.calls))
        return self

    # Inner workings.

    def _rehearse(self) -> None:
        with self._stage("build"):
            rehearse(self.case, self.seed, self.recipe.dtype, self.built, self._runs)

    def _graph(self, program: ExportedProgram) -> torch.fx.GraphModule:
        with self._stage("reference"), self.attributed("export"):
            return stages.flatten(program)

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
