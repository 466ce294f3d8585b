"""Case: a module and its inputs. Frozen data, shared by every target; built on demand."""

from __future__ import annotations

import copy
import functools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.errors import CaseError, describe, printable
from harness.model.copies import (
    SharedTensor,
    convert_state,
    copy_module,
    find_wrapper_tensors,
    iterate_plain_state,
    normalize_inputs,
    prepare_for_inference,
)
from harness.model.fallbacks import Fallbacks, find_lost_delegation
from harness.model.metric import GivenMetrics, Metric, as_metrics
from harness.model.seeding import seed_generators
from harness.record.cell import Delegation
from harness.record.target import Target, matches_target

if TYPE_CHECKING:
    import torch
    from executorch.exir import ExecutorchProgramManager
    from torch.export import ExportedProgram

Inputs = tuple[Any, ...]


@dataclass(frozen=True)
class Call:
    """The inputs of one call of a module with keyword inputs; a plain tuple is a call without.

    Registered with torch's pytree, so that ``tree_map`` reaches its leaves: those of ``args``, then
    those of ``kwargs``.

    Attributes:
        args: positional inputs.
        kwargs: inputs by name.
    """

    args: Inputs
    kwargs: Mapping[str, Any]

    def __post_init__(self) -> None:
        _register_call()
        object.__setattr__(self, "args", tuple(self.args))
        object.__setattr__(self, "kwargs", dict(self.kwargs))


@functools.cache
def _register_call() -> None:
    from harness.vendors.torch import register_dataclass

    register_dataclass(Call)


CallInputs = Inputs | Call
"""The inputs of one call: a tuple of positional inputs, or a :class:`Call`."""

Build = Callable[
    [], "tuple[torch.nn.Module, Inputs] | tuple[torch.nn.Module, Inputs, Mapping[str, Any]]"
]
Calls = Callable[[], Sequence[CallInputs]]


def arguments(inputs: CallInputs) -> tuple[Inputs, dict[str, Any]]:
    """Return the positional and the keyword inputs of a call."""
    return (inputs.args, dict(inputs.kwargs)) if isinstance(inputs, Call) else (tuple(inputs), {})


def make_call(args: Inputs, kwargs: Mapping[str, Any] | None) -> CallInputs:
    """Return a call with keyword inputs, or a plain tuple if there are none."""
    return Call(args, kwargs) if kwargs else tuple(args)


Make = Callable[
    ["torch.nn.Module", CallInputs, str], "tuple[ExportedProgram, ExecutorchProgramManager]"
]


@dataclass(frozen=True)
class Exporter:
    """A third-party exporter that makes the program instead of the harness, such as the exporter of
    a model's library with its own patches, partitioners and configuration.

    Attributes:
        name: display name.
        make: takes the module, the inputs of the first call (both are copies that it may change)
            and the name of a backend; returns the ATen program that it lowered and the result of
            exir's ``EdgeProgramManager.to_executorch``.
        targets: globs over the targets that it supports, separated by ``|``.
    """

    name: str
    make: Make
    targets: str

    def find_refusal(self, target: Target) -> str | None:
        """Return why the exporter does not support a target, or None."""
        if matches_target(self.targets, target):
            return None
        return f"{self.name} exports for {self.targets.replace('|', ', ')} only"


@dataclass(frozen=True)
class Built:
    """The module in eval mode and the inputs of each call of a case, for one seed.

    Export uses the inputs of the first call.

    Attributes:
        module: the module.
        calls: inputs of each call, whose outputs are judged.
        calibration: inputs that calibrate a quantizer; empty for those of the calls.
    """

    module: torch.nn.Module
    calls: tuple[CallInputs, ...]
    calibration: tuple[CallInputs, ...] = ()

    @property
    def inputs(self) -> CallInputs:
        """The inputs of the first call."""
        return self.calls[0]

    @property
    def constant_methods(self) -> Mapping[str, Any] | None:
        """The constant methods of the program: values by method name; None for none."""
        return getattr(self.module, "constant_methods", None)

    @property
    def state(self) -> list[torch.Tensor]:
        """The parameters and buffers of the module; a tensor that wraps others is replaced by
        these."""
        return list(iterate_plain_state(self.module))

    @property
    def quantized_classes(self) -> list[str]:
        """The classes of weights that wrap other tensors, as torchao's quantized weights do."""
        return sorted({type(tensor).__name__ for tensor in find_wrapper_tensors(self.module)})

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors among the inputs of all calls, and of calibration."""
        import torch

        from harness.vendors.torch import tree_leaves

        return [
            leaf
            for leaf in tree_leaves((self.calls, self.calibration))
            if isinstance(leaf, torch.Tensor)
        ]

    def is_row_major(self, *, dense_only: bool = False) -> bool:
        """Whether all input tensors are contiguous.

        Args:
            dense_only: skip tensors with gaps, which a caller packs before the call.
        """
        import torch

        is_dense = torch.ops.aten.is_non_overlapping_and_dense
        return all(
            tensor.is_contiguous() for tensor in self.tensors if not dense_only or is_dense(tensor)
        )

    def cast(self, dtype: str) -> Built:
        """Return a copy with float32 weights and inputs in another floating dtype.

        A tensor that wraps others is converted by its own ``.to(dtype)``; quantized weights keep
        their codes.

        Args:
            dtype: its name in torch, such as ``bfloat16``.
        """
        import torch

        from harness.vendors.torch import tree_map

        wanted: torch.dtype = getattr(torch, dtype)
        if wanted == torch.float32:
            return self

        def convert(item: Any) -> Any:
            is_float = isinstance(item, torch.Tensor) and item.dtype == torch.float32
            return item.to(wanted) if is_float else item

        # Not Module.to, which casts weights of every floating dtype.
        calls, calibration = tree_map(convert, (self.calls, self.calibration))
        return Built(convert_state(self.module, convert), calls, calibration)

    def to_channels_last(self) -> Built:
        """Return a copy with contiguous 4-d inputs in channels-last memory format.

        Inputs with another layout keep it, because the layout is what their case is about.
        """
        import torch

        from harness.vendors.torch import tree_map

        def convert(item: Any) -> Any:
            is_image = isinstance(item, torch.Tensor) and item.dim() == 4 and item.is_contiguous()
            return item.contiguous(memory_format=torch.channels_last) if is_image else item

        calls, calibration = tree_map(convert, (self.calls, self.calibration))
        return Built(self.module, calls, calibration)


@dataclass(frozen=True)
class Case:
    """A test case: a module, its inputs, and how the inputs may vary.

    Attributes:
        name: unique over all suites; ``op/variant``, no ``@``.
        build: returns ``(module, inputs)`` or ``(module, inputs, keyword inputs)``. It is called
            with every random generator seeded from (run seed, name), so weights and inputs depend
            on nothing else. The module's attribute ``constant_methods`` becomes the constant
            methods of the program.
        op: the operator or model under test, for grouping; default: the name up to ``/``.
        dynamic_shapes: as ``torch.export.export`` takes it. The harness adds calls for the ends of
            the ranges that no call covers (:mod:`harness.pipeline.dynamic_sizes.extra_calls`).
        calls: returns the inputs of further calls of the same program (other shapes within the
            ranges, or the next step of a stateful module): tuples, or a :class:`Call` with keyword
            inputs. They run after the first call.
        calibration: returns inputs that calibrate a quantizer instead of those of the calls, as
            ``calls`` does. A model in use gets other values than its quantizer has seen.
        metric: what says whether the model still does its job: a function of the outputs and those
            of the float model, a :class:`~harness.model.metric.Metric` with limits, or several.
        tags: words for ``-m`` and for grouping, such as ``dynamic`` or ``model``.
        targets: globs over targets, separated by ``|``, if the case suits only some targets; a
            plain run then selects all that match. Empty: every target that a run selects.
        plain_targets: globs over the targets that a plain run selects; the nightly run adds the
            others. ``--targets`` overrides it.
        fallbacks: what targets leave outside of their delegates, as ``fallbacks.json`` of the suite
            has it (:mod:`harness.model.fallbacks`); a cell that leaves more fails.
        vacuous: why the outputs cannot show an error (zeros, a constant), so that a pass is
            vacuous. Without a reason the case is expected to be conclusive
            (:mod:`harness.numerics.metrics.conclusiveness`).
        random_outputs: the module returns random numbers that each target draws itself: outputs are
            compared by their distribution alone. Otherwise such a module is refused.
        requires: requirements of packages that hold weights or inputs, ``silero-vad==6.2.3``; where
            one is not installed the cells are ``unavailable``.
        memory: GiB above the worker's base that a cell may hold, if more than ``--cell-memory``.
            Cells that do not fit next to it wait until it has ended.
        exporter: makes the program instead of the harness' export, lowering and emission; the
            recipe then stands for dtype and bounds. ``targets`` defaults to the exporter's; a cell
            on another target is ``unsupported``. The reference is the module, as for every case.
        changed_ops: on targets with added passes, edge operators by name, with the expected number
            of calls before and after these passes.
        source: the line that makes the case, ``suites/ops/unary.py:12``; found automatically if
            that line is at module level.
    """

    name: str
    build: Build
    op: str = ""
    dynamic_shapes: Any = None
    calls: Calls | None = None
    calibration: Calls | None = None
    metric: GivenMetrics = field(default=None, hash=False)
    tags: frozenset[str] = field(default_factory=frozenset)
    targets: str = ""
    plain_targets: str = "*"
    fallbacks: Mapping[str, Fallbacks] = field(default_factory=dict, hash=False, repr=False)
    vacuous: str = ""
    random_outputs: bool = False
    requires: Sequence[str] = ()
    memory: float = 0.0
    exporter: Exporter | None = None
    changed_ops: Mapping[str, tuple[int, int]] = field(default_factory=dict, hash=False)
    source: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.name or any(c in "@[]" or c.isspace() for c in self.name):
            raise CaseError(f"case name {self.name!r} must be non-empty, without @, [, ] or spaces")
        if printable(self.name) != self.name:
            raise CaseError(f"case name {self.name!r} cannot be written as UTF-8")
        if not 0 <= self.memory < math.inf:
            raise CaseError(f"case {self.name!r} has memory={self.memory:g} GiB; use 0 or more")
        object.__setattr__(self, "tags", frozenset(map(str, self.tags)))
        object.__setattr__(self, "requires", tuple(self.requires))
        if not self.op:
            object.__setattr__(self, "op", self.name.partition("/")[0])
        if self.exporter is not None and not self.targets:
            object.__setattr__(self, "targets", self.exporter.targets)
        if not self.source:
            object.__setattr__(self, "source", _find_module_line())

    @classmethod
    def from_module(
        cls,
        name: str,
        module: torch.nn.Module,
        inputs: Inputs,
        kwargs: Mapping[str, Any] | None = None,
        *,
        dynamic_shapes: Any = None,
        calls: Sequence[CallInputs] = (),
        calibration: Sequence[CallInputs] = (),
        tags: Sequence[str] = (),
    ) -> Case:
        """Make a case from an existing module and inputs; each build copies both.

        Parts of the module that cannot be copied are shared (:mod:`harness.model.copies`); building
        the case fails once a shared tensor has been written to.

        Args:
            name: unique name of the case.
            module: any exportable module.
            inputs: positional inputs, a tuple.
            kwargs: keyword inputs.
            dynamic_shapes: as ``torch.export.export`` takes it.
            calls: inputs of further calls: tuples, or a :class:`Call` with keyword inputs.
            calibration: likewise, inputs that calibrate a quantizer instead of those of the calls.
            tags: words for selection and grouping.
        """
        keyword_inputs = {} if kwargs is None else kwargs
        shared: list[SharedTensor] = []

        def build() -> tuple[torch.nn.Module, Inputs, Mapping[str, Any]]:
            for tensor in shared:
                tensor.check()
            made, shared[:] = copy_module(module)
            return made, *copy.deepcopy(normalize_inputs((inputs, keyword_inputs)))

        return cls(
            name,
            build,
            dynamic_shapes=dynamic_shapes,
            calls=(lambda: copy.deepcopy(normalize_inputs(list(calls)))) if calls else None,
            calibration=(lambda: copy.deepcopy(list(calibration))) if calibration else None,
            tags=frozenset(tags),
        )

    def make(self, seed: int = 0) -> Built:
        """Build the module and inputs for one run seed.

        Raises:
            CaseError: the build raises, or does not return a module with its inputs.
        """
        with seed_generators(seed, self.name):
            try:
                made = self.build()
                further = tuple(self.calls()) if self.calls else ()
                calibration = tuple(self.calibration()) if self.calibration else ()
            except Exception as error:
                raise CaseError(f"case {self.name!r} cannot be built: {describe(error)}") from error
        module, inputs = self._split_build(made)
        calls = tuple(normalize_inputs((inputs, *further)))
        calibration = tuple(normalize_inputs(calibration))
        if not all(isinstance(call, tuple | Call) for call in (*calls, *calibration)):
            raise CaseError(
                f"case {self.name!r}: calls and calibration must be sequences of tuples of inputs"
            )
        return Built(prepare_for_inference(module), calls, calibration)

    @property
    def metrics(self) -> list[Metric]:
        """The metrics of the case."""
        return as_metrics(self.metric)

    def find_lost_delegation(self, target: Target, delegation: Delegation) -> str | None:
        """Return which nodes a program leaves beyond ``fallbacks``, or None."""
        expected = self.fallbacks.get(str(target))
        return None if expected is None else find_lost_delegation(expected, delegation)

    def _split_build(self, made: Any) -> tuple[torch.nn.Module, CallInputs]:
        """Split the result of a build into the module and the inputs of the first call."""
        import torch

        match made:
            case (torch.nn.Module() as module, tuple() as inputs):
                return module, inputs
            case (torch.nn.Module() as module, tuple() as inputs, Mapping() as kwargs):
                return module, make_call(inputs, kwargs)
        raise CaseError(
            f"case {self.name!r}: build must return (module, tuple of inputs) or (module, tuple of "
            f"inputs, mapping of keyword inputs)"
        )


def _find_module_line() -> str:
    """Return ``path:line`` of the module that is being imported; empty if none is."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back  # type: ignore[assignment]  # None ends it
    if frame is None or frame.f_globals.get("__name__") in (None, "__main__"):
        return ""
    return f"{frame.f_globals['__name__'].replace('.', '/')}.py:{frame.f_lineno}"
