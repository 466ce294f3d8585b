"""Tester: one case on one target, stage by stage.

::

    Tester(case, "xnnpack:fp32").export().lower().to_executorch().serialize().run().compare()

Every stage takes its options explicitly and otherwise uses the recipe's; every artifact stays
reachable; a stage called too early says which one is missing. :func:`harness.runner.run_cell`
drives it and makes the record.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

import torch
from executorch.exir import EdgeCompileConfig, EdgeProgramManager, ExecutorchProgramManager
from torch.export import ExportedProgram
from torch.utils._pytree import tree_leaves

from harness import delegation, registry, speed, stages
from harness.backend import Backend, Emulating, Execution, Recipe
from harness.case import Built, Case, Inputs, case_seed
from harness.cell import Delegation
from harness.checks import GraphChecks
from harness.compare import Verdict, compare
from harness.errors import (
    ConflictingOptions,
    StageFailure,
    StageOrderError,
)
from harness.oracle import Reference, refer, run_calls
from harness.program import Program
from harness.stages import LowerOptions, Pass
from harness.target import Target

# Stages that are the vendors' work; everything else a cell spends is ours.
VENDOR_STAGES = (
    "export",
    "quantize",
    "to_edge",
    "transform",
    "lower",
    "to_executorch",
    "serialize",
    "run",
    "emulate",
)


class Tester(GraphChecks):
    """The pipeline over one case on one target.

    Attributes:
        built: module and inputs, seeded from (seed, case) alone and cast to the recipe's dtype.
        seconds: wall-clock seconds of each stage that ran, in order.
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
    ) -> None:
        """Build the case for a target.

        Args:
            case: what is tested.
            target: where and how, ``backend:recipe``.
            seed: run seed.
            recipe: used instead of the one the target names.
            backend: used instead of the one the target names.
            transform_passes: used instead of the recipe's passes, on either lowering path.

        Raises:
            UnknownTarget: no such backend or recipe.
            StageFailure: stage ``build``: the case cannot be built.
        """
        speed.install()
        self.case = case
        self.target = Target.parse(target) if isinstance(target, str) else target
        self.backend = backend or registry.backend(self.target.backend)
        self.recipe = recipe or registry.recipe(self.target, self.backend)
        self.seed = seed
        self.seconds: dict[str, float] = {}
        self._passes = transform_passes
        self._artifacts: dict[str, Any] = {}
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
        if "export" in self._artifacts:
            raise StageOrderError("quantize_weights comes before .export()")
        convert = convert or self.recipe.quantize_weights
        if convert is None:
            raise ConflictingOptions(f"{self.target} quantizes no weights; pass what does")
        with self._stage("quantize"):
            self._artifacts["quantize_weights"] = convert(copy.deepcopy(self.built.module))
        return self

    def export(self, *, dynamic_shapes: Any = None, strict: bool = False) -> Self:
        """``torch.export`` the module; ``dynamic_shapes`` default to the case's."""
        shapes = self.case.dynamic_shapes if dynamic_shapes is None else dynamic_shapes
        module = self._artifacts.get("quantize_weights", self.built.module)
        with self._stage("export"):
            self._artifacts["export"] = stages.export(
                module, self.built.inputs, dynamic_shapes=shapes, strict=strict
            )
        if module is not self.built.module:
            with self._stage("reference"):
                self._artifacts["quantize"] = stages.flatten(self._artifacts["export"])
        return self

    def quantize(self, quantizer: Any = None, calibration: Sequence[Inputs] | None = None) -> Self:
        """PT2E-quantize the exported program and export the result again.

        Args:
            quantizer: defaults to a new one of the recipe.
            calibration: defaults to the inputs of the case's calls.
        """
        exported: ExportedProgram = self._need("export", "quantize")
        if quantizer is None:
            if self.recipe.quantizer is None:
                raise ConflictingOptions(f"{self.target} has no quantizer; pass one to quantize()")
            quantizer = self.recipe.quantizer()
        with self._stage("quantize"):
            graph = stages.quantize(exported, quantizer, calibration or self.built.calls)
            self._artifacts["quantize"] = graph
            self._artifacts["export"] = stages.export(
                graph, self.built.inputs, dynamic_shapes=self.case.dynamic_shapes
            )
        return self

    def to_edge(self, edge_config: EdgeCompileConfig | None = None) -> Self:
        """Convert to edge dialect without partitioning; ``lower`` then takes it from there."""
        exported: ExportedProgram = self._need("export", "to_edge")
        with self._stage("to_edge"):
            self._artifacts["to_edge"] = stages.to_edge(
                exported, edge_config or self.recipe.edge_config()
            )
        return self

    def transform(self, passes: Sequence[Pass] | None = None) -> Self:
        """Run passes over the edge program made by :meth:`to_edge`.

        Raises:
            ConflictingOptions: the tester was given other ``transform_passes``.
        """
        edge: EdgeProgramManager = self._need("to_edge", "transform")
        if passes is not None and self._passes is not None and list(passes) != list(self._passes):
            raise ConflictingOptions(
                "transform_passes were given to the Tester and others to transform(); "
                "give them once"
            )
        chosen = passes if passes is not None else self._default_passes()
        with self._stage("transform"):
            self._artifacts["transform"] = stages.transform(edge, chosen)
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

        Raises:
            ConflictingOptions: an option is given twice with different values, or passes are
                given after :meth:`transform` has run.
        """
        if options is not None and (partitioners is not None or edge_config is not None):
            raise ConflictingOptions("give partitioners and edge_config in options or beside them")
        passes = self._resolve_passes(options, transform_passes)
        if options is None:
            chosen = self.recipe.partitioners() if partitioners is None else partitioners
            published = getattr(self.built.module, "constant_methods", None)
            options = LowerOptions(chosen, (), edge_config or self.recipe.edge_config(), published)
        options = replace(options, transform_passes=tuple(passes))
        edge = self._artifacts.get("transform") or self._artifacts.get("to_edge")
        exported: ExportedProgram | None = (
            None if edge is not None else self._need("export", "lower")
        )
        with self._stage("lower"):
            self._artifacts["lower"] = (
                stages.lower(exported, options)
                if exported is not None
                else stages.lower_edge(edge, options)
            )
        return self

    def to_executorch(self, config: Any = None) -> Self:
        """Plan memory and emit; ``config`` is an ``ExecutorchBackendConfig``."""
        lowered: EdgeProgramManager = self._need("lower", "to_executorch")
        with self.attributed("lower"):
            # Counted first: emitting rewrites the lowered graph into out-variants.
            self._artifacts["delegation"] = delegation.count(lowered.exported_program())
        with self._stage("to_executorch"):
            self._artifacts["to_executorch"] = stages.to_executorch(lowered, config)
        return self

    def serialize(self) -> Self:
        """Make the bytes of the program."""
        program: ExecutorchProgramManager = self._need("to_executorch", "serialize")
        with self._stage("serialize"):
            self._artifacts["serialize"] = stages.serialize(program)
        return self

    def run(self, calls: Sequence[Inputs] | None = None) -> Self:
        """Execute the serialized bytes for each call; calls default to the case's."""
        program: bytes = self._need("serialize", "run")
        chosen = self.built.calls if calls is None else tuple(calls)
        with self.attributed("run"):
            self._artifacts["parsed"] = Program(program)
            flat = self._flat(chosen)
        with self._stage("run"):
            self._artifacts["run"] = self.backend.execute(program, flat)
        self._artifacts["calls"] = chosen
        return self

    def refer(self, calls: Sequence[Inputs] | None = None) -> Self:
        """Compute what the outputs should be: of the quantized graph when :meth:`quantize` or
        :meth:`quantize_weights` ran, else of the module."""
        graph: torch.fx.GraphModule | None = self._artifacts.get("quantize")
        with self._stage("reference"):
            self._artifacts["refer"] = refer(
                self.built.module if graph is None else graph,
                self._artifacts.get("calls", self.built.calls) if calls is None else calls,
                self.recipe.precision,
                case_seed(self.seed, self.case.name),
                self.recipe.semantics(),
            )
        return self

    def compare(self, reference: Reference | None = None) -> Self:
        """Judge the outputs; the verdict is a value, nothing is raised for a mismatch.

        Args:
            reference: used instead of the one that :meth:`refer` computes.
        """
        execution: Execution = self._need("run", "compare")
        if reference is None:
            if "refer" not in self._artifacts:
                self.refer()
            reference = self.reference
        graph = self._artifacts.get("quantize")
        with self._stage("compare"):
            calls = self._artifacts["calls"]
            self._artifacts["compare"] = compare(
                execution.outputs,
                reference,
                declared=self._artifacts["parsed"].outputs,
                model=None if graph is None else run_calls(self.built.module, calls),
            )
        return self

    def emulate(self) -> Verdict:
        """Judge what the backend's emulation computes for the same calls, after
        :meth:`compare`.

        Raises:
            ConflictingOptions: the backend has one runtime only.
        """
        program: bytes = self._need("serialize", "emulate")
        self._need("compare", "emulate")
        if not isinstance(self.backend, Emulating):
            raise ConflictingOptions(f"{self.backend.name} has no emulation to compare with")
        with self._stage("emulate"):
            calls = self._flat(self._artifacts["calls"])
            execution = self.backend.emulate(program, calls)
        with self._stage("compare"):
            return compare(
                execution.outputs, self.reference, declared=self._artifacts["parsed"].outputs
            )

    # Artifacts.

    @property
    def exported(self) -> ExportedProgram:
        """The ATen program that is lowered: quantized when a quantizing stage ran."""
        return self._need("export", "exported")  # type: ignore[no-any-return]

    @property
    def quantized(self) -> torch.fx.GraphModule:
        """The quantized graph as an eager module."""
        return self._need("quantize", "quantized")  # type: ignore[no-any-return]

    @property
    def edge(self) -> EdgeProgramManager:
        """The edge program of the two-step path, transformed when :meth:`transform` ran."""
        found = self._artifacts.get("transform") or self._need("to_edge", "edge")
        return found

    @property
    def lowered(self) -> EdgeProgramManager:
        """The edge program with its delegates."""
        return self._need("lower", "lowered")

    @property
    def delegation(self) -> Delegation:
        """Delegates, delegated and left-over operators of the lowered program."""
        if "delegation" in self._artifacts:
            return self._artifacts["delegation"]  # type: ignore[no-any-return]
        return delegation.count(self.lowered.exported_program())

    @property
    def executorch_program(self) -> ExecutorchProgramManager:
        """The emitted program."""
        return self._need("to_executorch", "executorch_program")

    @property
    def program(self) -> bytes:
        """The bytes of the ``.pte``."""
        return self._need("serialize", "program")  # type: ignore[no-any-return]

    @property
    def execution(self) -> Execution:
        """The outputs and who produced them."""
        return self._need("run", "execution")  # type: ignore[no-any-return]

    @property
    def reference(self) -> Reference:
        """Oracle, bound and eager outputs."""
        return self._need("refer", "reference")  # type: ignore[no-any-return]

    @property
    def verdict(self) -> Verdict:
        """What :meth:`compare` found."""
        return self._need("compare", "verdict")  # type: ignore[no-any-return]

    # Inner workings.

    def _flat(self, calls: Sequence[Inputs]) -> list[Inputs]:
        return [self._artifacts["parsed"].arrange(tree_leaves(inputs)) for inputs in calls]

    def _need(self, stage: str, wanted_by: str) -> Any:
        if stage not in self._artifacts:
            raise StageOrderError(f"{wanted_by} needs stage {stage!r}; call .{stage}() first")
        return self._artifacts[stage]

    @contextmanager
    def attributed(self, stage: str) -> Iterator[None]:
        """Whatever fails in here failed in that stage."""
        try:
            yield
        except (StageOrderError, ConflictingOptions, StageFailure):
            # A backend may find while running what an earlier stage did wrong.
            raise
        except Exception as error:
            raise StageFailure(stage, error) from error

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            with self.attributed(name):
                yield
        finally:
            spent = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + spent

    def _default_passes(self) -> Sequence[Pass]:
        return self.recipe.transform_passes() if self._passes is None else self._passes

    def _resolve_passes(
        self, options: LowerOptions | None, given: Sequence[Pass] | None
    ) -> Sequence[Pass]:
        stated = (options or LowerOptions()).with_passes(given).transform_passes or given
        if stated is not None and self._passes is not None:
            stated = LowerOptions((), tuple(self._passes)).with_passes(stated).transform_passes
        if "transform" in self._artifacts:
            if stated:
                raise ConflictingOptions("transform() already ran; pass no transform_passes")
            return ()
        return self._default_passes() if stated is None else stated

    def _calls(self) -> list[torch.fx.Node]:
        for stage in ("lower", "transform", "to_edge", "export"):
            artifact = self._artifacts.get(stage)
            if artifact is not None:
                program = artifact if stage == "export" else artifact.exported_program()
                return [n for n in program.graph.nodes if n.op == "call_function"]
        raise StageOrderError("a graph check needs stage 'export'; call .export() first")
