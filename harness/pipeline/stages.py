"""The stages as plain functions: explicit options in, a typed artifact out.

Each can be called alone; :class:`harness.pipeline.tester.Tester` chains them. None of them catches
anything: attributing an error to a stage is the tester's work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from executorch.exir import (
    EdgeCompileConfig,
    EdgeProgramManager,
    ExecutorchBackendConfig,
    ExecutorchProgramManager,
    to_edge as exir_to_edge,
    to_edge_transform_and_lower,
)
from executorch.exir.backend.partitioner import Partitioner
from torch.export import ExportedProgram

from harness.errors import ConflictingOptions
from harness.model.case import Given, arguments
from harness.model.copies import copy_tensor
from harness.pipeline.reference.calls import written_buffers
from harness.vendors.torch import is_traceable_wrapper_subclass, tree_map

Pass = Any
"""A graph pass: a callable on a GraphModule that returns a PassResult."""


@dataclass(frozen=True)
class LowerOptions:
    """Everything that lowering takes; the same object serves both lowering paths.

    Attributes:
        partitioners: in the order they are applied; empty for no delegate.
        transform_passes: run on the edge program before partitioning.
        edge_config: how ATen becomes edge dialect.
        constant_methods: values that the program publishes to its runner, by method name.
    """

    partitioners: Sequence[Partitioner] = ()
    transform_passes: Sequence[Pass] = ()
    edge_config: EdgeCompileConfig | None = None
    constant_methods: Mapping[str, Any] | None = None

    def with_passes(self, passes: Sequence[Pass] | None) -> LowerOptions:
        """These options with ``passes``, unless the options name other ones already.

        Raises:
            ConflictingOptions: both are given and they are not the same passes.
        """
        if passes is None or list(passes) == list(self.transform_passes):
            return self
        if self.transform_passes:
            raise ConflictingOptions(
                f"transform_passes are given twice: {_names(self.transform_passes)} in the "
                f"options and {_names(passes)} beside them; give them once"
            )
        return replace(self, transform_passes=tuple(passes))


def export(
    module: torch.nn.Module,
    inputs: Given,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
) -> ExportedProgram:
    """``torch.export`` to the ATen dialect.

    The program shares its weights with the module, but for buffers that it writes to.

    Args:
        module: in eval mode.
        inputs: example inputs: a tuple, or a call where some have names.
        dynamic_shapes: as ``torch.export.export`` takes it.
        strict: trace with Dynamo instead of by running the module.
    """
    args, kwargs = arguments(inputs)
    with _attributes_kept(module):
        program = torch.export.export(
            module, args, kwargs or None, dynamic_shapes=dynamic_shapes, strict=strict
        )
    _own_state(program)
    return program


@contextmanager
def _attributes_kept(module: torch.nn.Module) -> Iterator[None]:
    """Leave the same objects in a module's attributes.

    torch.export puts back what it took apart while it traced: of an object that is a pytree, such
    as a cache of transformers' once anybody registered it, a copy with fake tensors.
    """
    held = {name: value for name, value in vars(module).items() if name != "training"}
    try:
        yield
    finally:
        for name, value in held.items():
            if vars(module).get(name) is not value:
                vars(module)[name] = value


def _own_state(program: ExportedProgram) -> None:
    """Give a program buffers of its own where it writes to them: exir runs delegates on them while
    it emits (``call_delegate_cpu``), in place, and the module is the reference."""
    copies: dict[int, torch.Tensor] = {}  # what is one buffer under two names stays one
    for name in written_buffers(program):
        held: dict[str, Any] = program.state_dict
        if name not in held:  # not persistent
            held = program.constants
        held[name] = copies.setdefault(id(held[name]), held[name].clone())


def quantize(
    exported: ExportedProgram, quantizer: Any, calibration: Sequence[Given]
) -> torch.fx.GraphModule:
    """PT2E quantization: :func:`prepare`, then :func:`convert`."""
    return convert(prepare(exported, quantizer), calibration)


def prepare(exported: ExportedProgram, quantizer: Any) -> torch.fx.GraphModule:
    """Let a quantizer rewrite and annotate a program, and insert observers.

    Args:
        exported: the float program; it shares its state with the module that was exported.
        quantizer: a PT2E quantizer.

    Returns:
        The rewritten float graph with its observers. It shares the state of ``exported``.
    """
    from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

    # Guards are call_module nodes, which annotation passes of backends refuse.
    prepared: torch.fx.GraphModule = prepare_pt2e(exported.module(check_guards=False), quantizer)
    return prepared


def convert(prepared: torch.fx.GraphModule, calibration: Sequence[Given]) -> torch.fx.GraphModule:
    """Calibrate a prepared graph and convert it.

    Calibration leaves inputs and state as they were: the calls write to copies of the inputs, and
    buffers get their values back.

    Args:
        prepared: what :func:`prepare` returns.
        calibration: inputs that the observers see, at least one.

    Returns:
        The quantized graph, which is itself a module that runs eagerly.
    """
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

    observed = {id(each) for observer in observers(prepared) for each in observer.buffers()}
    buffers = [each for each in prepared.buffers() if id(each) not in observed]
    state = [(buffer, buffer.clone()) for buffer in buffers]
    for inputs in calibration:
        args, kwargs = arguments(tree_map(_copy, inputs))
        prepared(*args, **kwargs)
    for buffer, value in state:
        buffer.detach().copy_(value)
    converted: torch.fx.GraphModule = convert_pt2e(prepared)
    return converted


def observers(prepared: torch.nn.Module) -> list[torch.nn.Module]:
    """The observers and fake quantizers of a prepared graph, nested graphs included."""
    from torch.ao.quantization import (
        FakeQuantizeBase as TorchFakeQuantize,
        ObserverBase as TorchObserver,
    )
    from torchao.quantization.pt2e import FakeQuantizeBase, ObserverBase

    kinds = (FakeQuantizeBase, ObserverBase, TorchFakeQuantize, TorchObserver)
    return [module for module in prepared.modules() if isinstance(module, kinds)]


@contextmanager
def unobserved(prepared: torch.fx.GraphModule) -> Iterator[None]:
    """Let a prepared graph compute without its observers, which see nothing meanwhile."""
    paused = observers(prepared)
    for observer in paused:
        observer.forward = _identity
    try:
        yield
    finally:
        for observer in paused:
            del observer.forward


def _identity(value: Any) -> Any:
    return value


def _copy(item: Any) -> Any:
    return copy_tensor(item.detach()) if isinstance(item, torch.Tensor) else item


def flatten(exported: ExportedProgram) -> torch.fx.GraphModule:
    """The program as a module without tensor subclasses: the tensors that they wrap are its
    state, and the operators that decode them are in its graph.

    Args:
        exported: a program whose weights were quantized before export; left as it is.
    """
    # Decomposing costs as much as lowering, and a program of plain tensors is flat as it is.
    state = (*exported.state_dict.values(), *exported.constants.values())
    if any(map(is_traceable_wrapper_subclass, state)):
        exported = exported.run_decompositions({})
    flat: torch.fx.GraphModule = exported.module(check_guards=False)
    return flat


def to_edge(
    exported: ExportedProgram,
    edge_config: EdgeCompileConfig | None = None,
    constant_methods: Mapping[str, Any] | None = None,
) -> EdgeProgramManager:
    """ATen to edge dialect, decomposed to core ATen, nothing partitioned."""
    return exir_to_edge(
        exported,
        constant_methods=dict(constant_methods) if constant_methods else None,
        compile_config=edge_config or EdgeCompileConfig(),
    )


def transform(edge: EdgeProgramManager, passes: Sequence[Pass]) -> EdgeProgramManager:
    """Run passes over an edge program."""
    return edge.transform(list(passes))


def lower(exported: ExportedProgram, options: LowerOptions) -> EdgeProgramManager:
    """ATen to edge, transform and partition in one step, as backends expect it."""
    return to_edge_transform_and_lower(
        exported,
        transform_passes=list(options.transform_passes) or None,
        partitioner=list(options.partitioners),
        constant_methods=dict(options.constant_methods) if options.constant_methods else None,
        compile_config=options.edge_config or EdgeCompileConfig(),
    )


def lower_edge(edge: EdgeProgramManager, options: LowerOptions) -> EdgeProgramManager:
    """Partition an edge program made by :func:`to_edge`; runs the options' passes first.

    Raises:
        ConflictingOptions: the options name an edge configuration or constant methods, which
            :func:`to_edge` has settled.
    """
    for name in ("edge_config", "constant_methods"):
        if getattr(options, name) is not None:
            raise ConflictingOptions(
                f"{name} cannot be given to lower() after to_edge(), which has settled it; give it "
                "to to_edge()"
            )
    if options.transform_passes:
        edge = transform(edge, options.transform_passes)
    for partitioner in options.partitioners:
        edge = edge.to_backend(partitioner)
    return edge


def lower_any(
    program: ExportedProgram | EdgeProgramManager, options: LowerOptions
) -> EdgeProgramManager:
    """:func:`lower` or :func:`lower_edge`, as the program asks for."""
    if isinstance(program, ExportedProgram):
        return lower(program, options)
    return lower_edge(program, options)


def to_executorch(
    lowered: EdgeProgramManager, config: ExecutorchBackendConfig | None = None
) -> ExecutorchProgramManager:
    """Plan memory and emit the execution plan."""
    return lowered.to_executorch(config or ExecutorchBackendConfig())


def serialize(program: ExecutorchProgramManager) -> bytes:
    """The bytes of the ``.pte``: what ships, and what is executed."""
    return bytes(program.buffer)


def agreed_passes(
    options: LowerOptions | None, *given: Sequence[Pass] | None
) -> Sequence[Pass] | None:
    """The passes that were stated in one or several places; None where they were in none.

    Raises:
        ConflictingOptions: two places state different ones.
    """
    agreed = options or LowerOptions()
    for passes in given:
        agreed = agreed.with_passes(passes)
    return agreed.transform_passes or next((passes for passes in given if passes is not None), None)


def _names(passes: Sequence[Pass]) -> str:
    return ", ".join(getattr(item, "__name__", type(item).__name__) for item in passes)
