"""Case: what is tested. Frozen data, shared by every target; nothing is built until needed."""

from __future__ import annotations

import copy
import functools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.errors import CaseError, describe, printable
from harness.model.copies import Shared, convert_state, copy_module, is_lazy, plain_state, wrappers
from harness.model.seeding import seeded
from harness.record.target import Target, speaks_of

if TYPE_CHECKING:
    import torch
    from executorch.exir import ExecutorchProgramManager
    from torch.export import ExportedProgram

Inputs = tuple[Any, ...]


@dataclass(frozen=True)
class Call:
    """The inputs of one call of a module, where some have names; a plain tuple is a call without.

    A node of torch's trees, so that ``tree_map`` and the like reach its leaves: those of ``args``,
    then those of ``kwargs``.

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


Given = Inputs | Call
"""The inputs of one call: a tuple of positional ones, or a :class:`Call`."""

Build = Callable[
    [], "tuple[torch.nn.Module, Inputs] | tuple[torch.nn.Module, Inputs, Mapping[str, Any]]"
]
Calls = Callable[[], Sequence[Given]]


def arguments(given: Given) -> tuple[Inputs, dict[str, Any]]:
    """The positional inputs of a call, and those by name."""
    return (given.args, dict(given.kwargs)) if isinstance(given, Call) else (tuple(given), {})


def named(args: Inputs, kwargs: Mapping[str, Any] | None) -> Given:
    """A call with inputs by name, or a plain tuple where there are none."""
    return Call(args, kwargs) if kwargs else tuple(args)


Make = Callable[["torch.nn.Module", Given, str], "tuple[ExportedProgram, ExecutorchProgramManager]"]


@dataclass(frozen=True)
class Exporter:
    """Another way to a program than this harness': people ship what the exporter of their model's
    library made, with patches, partitioners and a configuration of its own.

    Attributes:
        name: whose it is, for people.
        make: takes the module, the inputs of the first call (both are copies, which it may change)
            and the name of a backend; returns the ATen program that it lowered and what exir's
            ``EdgeProgramManager.to_executorch`` emitted of it.
        targets: globs over the targets that it has a backend for, separated by ``|``.
    """

    name: str
    make: Make
    targets: str

    def refuses(self, target: Target) -> str | None:
        """Why it makes no program for a target, or None."""
        if speaks_of(self.targets, target):
            return None
        return f"{self.name} exports for {self.targets.replace('|', ', ')} only"


@dataclass(frozen=True)
class Built:
    """A case made concrete for one seed: the module in eval mode and the inputs of each call.

    The first call's inputs are the ones that are exported and calibrated with.
    """

    module: torch.nn.Module
    calls: tuple[Given, ...]

    @property
    def inputs(self) -> Given:
        """The inputs of the first call."""
        return self.calls[0]

    @property
    def published(self) -> Mapping[str, Any] | None:
        """The values that its program publishes, by method name; None for none."""
        return getattr(self.module, "constant_methods", None)

    @property
    def state(self) -> list[torch.Tensor]:
        """The parameters and buffers of the module; in place of one that wraps others, those."""
        return list(plain_state(self.module))

    @property
    def quantized(self) -> list[str]:
        """Classes of the weights that wrap other tensors: what torchao and its like quantized."""
        return sorted({type(tensor).__name__ for tensor in wrappers(self.module)})

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors among the inputs of all calls."""
        import torch

        from harness.vendors.torch import tree_leaves

        return [leaf for leaf in tree_leaves(self.calls) if isinstance(leaf, torch.Tensor)]

    def is_row_major(self, *, dense_only: bool = False) -> bool:
        """Whether all input tensors lie row by row.

        Args:
            dense_only: leave out those with gaps, which a caller packs before it passes them.
        """
        import torch

        is_dense = torch.ops.aten.is_non_overlapping_and_dense
        return all(
            tensor.is_contiguous() for tensor in self.tensors if not dense_only or is_dense(tensor)
        )

    def cast(self, dtype: str) -> Built:
        """The same with float32 weights and inputs in another floating dtype, by its name.

        Of a tensor that wraps others it is what the class makes of ``.to(dtype)``; quantized
        weights keep their codes.
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
        return Built(convert_state(self.module, convert), tuple(tree_map(convert, self.calls)))


@dataclass(frozen=True)
class Case:
    """What is tested: a module, its inputs, and how they may vary.

    Attributes:
        name: unique over all suites; ``op/variant``, no ``@``.
        build: makes ``(module, inputs)`` or ``(module, inputs, inputs by name)``. Called with every
            random generator seeded from (run seed, name), so weights and inputs depend on nothing
            else. An attribute ``constant_methods`` of the module is what its program publishes
            (exir's word).
        op: the operator or model under test, for grouping; by default the name up to ``/``.
        dynamic_shapes: as ``torch.export.export`` takes it. Ends of the ranges that no call has
            are added (:mod:`harness.pipeline.dynamic_sizes.extra_calls`).
        calls: makes the inputs of further calls of the same program (other shapes within
            the bounds, or the next step of a stateful module), run after the first: tuples, or
            a :class:`Call` where some have names.
        tags: words for ``-m`` and for grouping, such as ``dynamic`` or ``model``.
        targets: globs over targets, separated by ``|``, of a case that is meant for some only;
            a plain run takes it to all that match. Empty: every target that a run selects.
        by_day: globs over those of them that are cheap enough for every change; a plain run leaves
            the others to the night. What ``--targets`` asks for runs.
        untelling: why its outputs carry no signal (zeros, a constant), so that a pass is vacuous;
            a case without a reason is expected to be conclusive
            (:mod:`harness.numerics.metrics.conclusiveness`).
        draws: the module draws random numbers, and targets make draws of their own: outputs are
            compared by their distribution alone. Without it such a module is refused.
        memory: GiB above the worker's base that a cell of it may hold, where that is more than
            ``--cell-memory``. Cells that do not fit beside it wait until it has ended.
        exporter: makes its program in place of the harness' export, lowering and emission; the
            recipe then stands for dtype and bounds. Its targets are the case's, unless
            ``targets`` says otherwise; a cell on another one is ``unsupported``. The reference is
            the module's own, as for every case.
        changes: on targets that add passes, operators of the edge dialect by name, and how often
            they must be there before and after these.
        source: the line that makes it, ``suites/ops/unary.py:12``; found by itself where that is
            in a module's own body.
    """

    name: str
    build: Build
    op: str = ""
    dynamic_shapes: Any = None
    calls: Calls | None = None
    tags: frozenset[str] = field(default_factory=frozenset)
    targets: str = ""
    by_day: str = "*"
    untelling: str = ""
    draws: bool = False
    memory: float = 0.0
    exporter: Exporter | None = None
    changes: Mapping[str, tuple[int, int]] = field(default_factory=dict, hash=False)
    source: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.name or any(c in "@[]" or c.isspace() for c in self.name):
            raise CaseError(f"case name {self.name!r} must be non-empty, without @, [, ] or spaces")
        if printable(self.name) != self.name:
            raise CaseError(f"case name {self.name!r} cannot be written as UTF-8")
        if not 0 <= self.memory < math.inf:
            raise CaseError(f"case {self.name!r} asks for {self.memory:g} GiB of memory; 0 or more")
        object.__setattr__(self, "tags", frozenset(map(str, self.tags)))
        if not self.op:
            object.__setattr__(self, "op", self.name.partition("/")[0])
        if self.exporter is not None and not self.targets:
            object.__setattr__(self, "targets", self.exporter.targets)
        if not self.source:
            object.__setattr__(self, "source", _line_of_module())

    @classmethod
    def from_module(
        cls,
        name: str,
        module: torch.nn.Module,
        inputs: Inputs,
        kwargs: Mapping[str, Any] | None = None,
        *,
        dynamic_shapes: Any = None,
        calls: Sequence[Given] = (),
        tags: Sequence[str] = (),
    ) -> Case:
        """A case around a module and inputs that exist already; both are copied on build.

        What of the module cannot be copied is shared (:mod:`harness.model.copies`), and the case
        cannot be built once somebody has written to a tensor of that.

        Args:
            name: unique name of the case.
            module: any exportable module.
            inputs: positional inputs, a tuple.
            kwargs: inputs by name.
            dynamic_shapes: as ``torch.export.export`` takes it.
            calls: inputs of further calls: tuples, or a :class:`Call` where some have names.
            tags: words for selection and grouping.
        """
        given = {} if kwargs is None else kwargs
        shared: list[Shared] = []

        def build() -> tuple[torch.nn.Module, Inputs, Mapping[str, Any]]:
            for tensor in shared:
                tensor.check()
            made, shared[:] = copy_module(module)
            return made, *copy.deepcopy(_settled((inputs, given)))

        return cls(
            name,
            build,
            dynamic_shapes=dynamic_shapes,
            calls=(lambda: copy.deepcopy(_settled(list(calls)))) if calls else None,
            tags=frozenset(tags),
        )

    def make(self, seed: int = 0) -> Built:
        """Build the module and inputs for one run seed.

        Raises:
            CaseError: the build raises or returns something else than a module with its inputs.
        """

        with seeded(seed, self.name):
            try:
                made = self.build()
                further = tuple(self.calls()) if self.calls else ()
            except Exception as error:
                raise CaseError(f"case {self.name!r} cannot be built: {describe(error)}") from error
        module, inputs = self._taken_apart(made)
        calls = tuple(_settled((inputs, *further)))
        if not all(isinstance(call, tuple | Call) for call in calls):
            raise CaseError(f"case {self.name!r}: calls must be a sequence of tuples of inputs")
        return Built(_for_inference(module), calls)

    def _taken_apart(self, made: Any) -> tuple[torch.nn.Module, Given]:
        """What a build returned: the module, and the inputs of the first call."""
        import torch

        match made:
            case (torch.nn.Module() as module, tuple() as inputs):
                return module, inputs
            case (torch.nn.Module() as module, tuple() as inputs, Mapping() as kwargs):
                return module, named(inputs, kwargs)
        raise CaseError(
            f"case {self.name!r}: build must return (module, tuple of inputs) or (module, tuple of "
            f"inputs, mapping of inputs by name)"
        )


def _line_of_module() -> str:
    """The line of the module that is being imported, by its dotted name; empty where none is."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back  # type: ignore[assignment]  # None ends it
    if frame is None or frame.f_globals.get("__name__") in (None, "__main__"):
        return ""
    return f"{frame.f_globals['__name__'].replace('.', '/')}.py:{frame.f_lineno}"


def _for_inference(module: torch.nn.Module) -> torch.nn.Module:
    """The module in eval mode and without gradients; what ``torch.export`` made has one mode and
    refuses to change it.

    Raises:
        CaseError: another module refuses, or it is none that can be exported.
    """
    import torch

    if isinstance(module, torch.jit.ScriptModule):
        raise CaseError("the module is TorchScript, which torch.export does not take")
    if lazy := [name for name, item in module.named_parameters() if is_lazy(item)]:
        raise CaseError(f"the module has no values for {', '.join(lazy)} yet; call it once")
    try:
        module.eval()
    except Exception as error:
        if "eval" not in vars(module):  # where ExportedProgram.module puts one that refuses
            raise CaseError(f"the module has no eval mode: {describe(error)}") from error
    return module.requires_grad_(False)


def _settled(inputs: Any) -> Any:
    """Inputs as an application passes them: no gradients, and each element in a place of its own,
    because a program knows an order of dimensions and no strides."""
    import torch

    from harness.vendors.torch import _debug_has_internal_overlap, tree_map

    def settle(item: Any) -> Any:
        if not isinstance(item, torch.Tensor):
            return item
        item = item.detach()
        overlapping = _debug_has_internal_overlap(item) == 1
        return item.contiguous() if overlapping else item

    return tree_map(settle, inputs)
