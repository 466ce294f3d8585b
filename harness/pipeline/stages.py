"""The stages as plain functions that take explicit options and return a typed artifact.

Each can be called alone; :class:`harness.pipeline.tester.Tester` chains them. They do not catch
errors: the tester attributes errors to stages.
"""

from __future__ import annotations

import inspect
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
from harness.execution.operators import register_operators
from harness.model.case import CallInputs, arguments
from harness.model.copies import copy_tensor, keep_values
from harness.pipeline.quantization.observed_graph import find_observers
from harness.pipeline.reference.calls import find_written_buffers
from harness.vendors.torch import is_traceable_wrapper_subclass, tree_map

Pass = Any
"""A graph pass: a callable on a GraphModule that returns a PassResult."""


@dataclass(frozen=True)
class LowerOptions:
    """The options of lowering, for both lowering paths.

    Attributes:
        partitioners: in the order in which they are applied; empty for no delegate.
        transform_passes: run on the edge program before partitioning.
        edge_config: how ATen becomes edge dialect.
        constant_methods: values that the program publishes to its runner, by method name.
    """

    partitioners: Sequence[Partitioner] = ()
    transform_passes: Sequence[Pass] = ()
    edge_config: EdgeCompileConfig | None = None
    constant_methods: Mapping[str, Any] | None = None

    def with_passes(self, passes: Sequence[Pass] | None) -> LowerOptions:
        """These options with ``passes``.

        Raises:
            ConflictingOptions: the options have other passes already.
        """
        if passes is None or list(passes) == list(self.transform_passes):
            return self
        if self.transform_passes:
            raise ConflictingOptions(
                f"transform_passes are given twice: {_names(self.transform_passes)} in the "
                f"options and {_names(passes)} as an argument; give them once"
            )
        return replace(self, transform_passes=tuple(passes))


def export(
    module: torch.nn.Module,
    inputs: CallInputs,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
) -> ExportedProgram:
    """Export a module to the ATen dialect with ``torch.export``.

    The program shares its weights with the module, except buffers that it writes to.

    Args:
        module: in eval mode.
        inputs: example inputs: a tuple, or a ``Call`` if some are passed by name.
        dynamic_shapes: as ``torch.export.export`` takes it.
        strict: trace with Dynamo instead of by running the module.
    """
    args, kwargs = arguments(inputs)
    with _restore_attributes(module):
        program = torch.export.export(
            module, args, kwargs or None, dynamic_shapes=dynamic_shapes, strict=strict
        )
    _copy_written_buffers(program)
    return program


def spread_variadic(module: torch.nn.Module, dynamic_shapes: Any) -> Any:
    """Return the dynamic shapes of a module for the graph that it was exported to.

    The graph has a parameter for each value of ``*args``, where the dynamic shapes of the module
    have one entry for all.
    """
    parameters = inspect.signature(module.forward).parameters.values()
    variadic = [each.name for each in parameters if each.kind is each.VAR_POSITIONAL]
    if not dynamic_shapes or not variadic:
        return dynamic_shapes
    by_name = isinstance(dynamic_shapes, Mapping)
    names = [each.name for each in parameters]
    given = dynamic_shapes if by_name else dict(zip(names, dynamic_shapes, strict=False))
    spread: dict[str, Any] = {}
    for name, shapes in given.items():
        each_value = enumerate(shapes) if name in variadic else ()
        spread |= {f"{name}_{place}": shape for place, shape in each_value} or {name: shapes}
    return spread if by_name else tuple(spread.values())


@contextmanager
def _restore_attributes(module: torch.nn.Module) -> Iterator[None]:
    """Restore the objects in a module's attributes afterwards.

    torch.export replaces an attribute that is a registered pytree, such as a cache of
    transformers, with a copy that holds fake tensors.
    """
    held = {name: value for name, value in vars(module).items() if name != "training"}
    try:
        yield
    finally:
        for name, value in held.items():
            if vars(module).get(name) is not value:
                vars(module)[name] = value


def _copy_written_buffers(program: ExportedProgram) -> None:
    """Copy the buffers that a program writes to.

    exir runs delegates on the buffers in place while it emits (``call_delegate_cpu``). That must
    not change the module, which is the reference.
    """
    copies: dict[int, torch.Tensor] = {}  # a buffer with two names stays one buffer
    for name in find_written_buffers(program):
        held: dict[str, Any] = program.state_dict
        if name not in held:  # not persistent
            held = program.constants
        held[name] = copies.setdefault(id(held[name]), held[name].clone())


def quantize(
    exported: ExportedProgram, quantizer: Any, calibration: Sequence[CallInputs]
) -> torch.fx.GraphModule:
    """Quantize with PT2E: :func:`prepare`, :func:`calibrate`, then :func:`convert`."""
    prepared = prepare(exported, quantizer)
    calibrate(prepared, calibration)
    return convert(prepared)


def prepare(
    exported: ExportedProgram, quantizer: Any, *, qat: bool = False
) -> torch.fx.GraphModule:
    """Let a quantizer rewrite and annotate a program, and insert observers.

    Args:
        exported: the float program; it shares its state with the module that was exported.
        quantizer: a PT2E quantizer.
        qat: prepare for training: with fake quantization, and batch norms that could still learn.

    Returns:
        The rewritten float graph with its observers. It shares the state of ``exported``.
    """
    from torchao.quantization.pt2e import move_exported_model_to_eval
    from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e, prepare_qat_pt2e

    # Guards are call_module nodes, which annotation passes of some backends reject.
    module = exported.module(check_guards=False)
    prepared: torch.fx.GraphModule = (prepare_qat_pt2e if qat else prepare_pt2e)(module, quantizer)
    if qat:
        move_exported_model_to_eval(prepared)  # as after training
    return prepared


def calibrate(prepared: torch.fx.GraphModule, calibration: Sequence[CallInputs]) -> None:
    """Run a prepared graph, so that its observers see the values of the calls.

    Inputs and state stay as they are: the calls get copies of the inputs, and the values of buffers
    are restored.

    Args:
        prepared: the result of :func:`prepare`.
        calibration: inputs to calibrate with, at least one.
    """
    observed = {id(each) for observer in find_observers(prepared) for each in observer.buffers()}
    with keep_values(each for each in prepared.buffers() if id(each) not in observed):
        for inputs in calibration:
            args, kwargs = arguments(tree_map(_copy, inputs))
            prepared(*args, **kwargs)


def convert(prepared: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Replace the observers of a calibrated graph by quantize and dequantize operators.

    Returns:
        The quantized graph, a module that runs eagerly.
    """
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

    try:
        converted: torch.fx.GraphModule = convert_pt2e(prepared)
        return converted
    finally:
        _release_quantized_modules()


def _release_quantized_modules() -> None:
    """Clear two caches that never drop a module whose device was looked up, nor its weights. Each
    kept graph also makes torch.export slower: fx patches the classes of all modules."""
    from torch.ao.quantization.fx.utils import assert_and_get_unique_device
    from torchao.utils import _assert_and_get_unique_device

    for looked_up in (assert_and_get_unique_device, _assert_and_get_unique_device):
        looked_up.cache_clear()


def _copy(item: Any) -> Any:
    return copy_tensor(item.detach()) if isinstance(item, torch.Tensor) else item


def flatten(exported: ExportedProgram) -> torch.fx.GraphModule:
    """Convert a program to a module without tensor subclasses.

    The wrapped tensors become its state, and the operators that decode them are in its graph.

    Args:
        exported: a program whose weights were quantized before export; it is not changed.
    """
    # Skip programs of plain tensors: decomposing takes as long as lowering.
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
    """Convert ATen to edge dialect, decomposed to core ATen, without partitioning."""
    return exir_to_edge(
        exported,
        constant_methods=dict(constant_methods) if constant_methods else None,
        compile_config=edge_config or EdgeCompileConfig(),
    )


def transform(edge: EdgeProgramManager, passes: Sequence[Pass]) -> EdgeProgramManager:
    """Run passes over an edge program."""
    return edge.transform(list(passes))


def lower(exported: ExportedProgram, options: LowerOptions) -> EdgeProgramManager:
    """Convert to edge, transform and partition in one step, as backends expect it."""
    return to_edge_transform_and_lower(
        exported,
        transform_passes=list(options.transform_passes) or None,
        partitioner=list(options.partitioners),
        constant_methods=dict(options.constant_methods) if options.constant_methods else None,
        compile_config=options.edge_config or EdgeCompileConfig(),
    )


def lower_edge(edge: EdgeProgramManager, options: LowerOptions) -> EdgeProgramManager:
    """Run the options' passes on an edge program of :func:`to_edge` and partition it.

    Raises:
        ConflictingOptions: the options have an edge configuration or constant methods, which
            belong to :func:`to_edge`.
    """
    for name in ("edge_config", "constant_methods"):
        if getattr(options, name) is not None:
            raise ConflictingOptions(
                f"{name} has no effect in lower() after to_edge(); give it to to_edge()"
            )
    if options.transform_passes:
        edge = transform(edge, options.transform_passes)
    for partitioner in options.partitioners:
        edge = edge.to_backend(partitioner)
    return edge


def lower_any(
    program: ExportedProgram | EdgeProgramManager, options: LowerOptions
) -> EdgeProgramManager:
    """Call :func:`lower` or :func:`lower_edge`, depending on the type of the program."""
    if isinstance(program, ExportedProgram):
        return lower(program, options)
    return lower_edge(program, options)


def to_executorch(
    lowered: EdgeProgramManager, config: ExecutorchBackendConfig | None = None
) -> ExecutorchProgramManager:
    """Plan memory and emit the execution plan."""
    # Emission looks up out variants. Without this, those of quantization exist only in processes
    # where some earlier cell has loaded them.
    register_operators()
    return lowered.to_executorch(config or ExecutorchBackendConfig())


def serialize(program: ExecutorchProgramManager) -> bytes:
    """The bytes of the ``.pte``. These bytes are executed."""
    return bytes(program.buffer)


def merge_passes(
    options: LowerOptions | None, *given: Sequence[Pass] | None
) -> Sequence[Pass] | None:
    """The passes that were given in one or several places; None if they were given in none.

    Raises:
        ConflictingOptions: two places have different passes.
    """
    agreed = options or LowerOptions()
    for passes in given:
        agreed = agreed.with_passes(passes)
    return agreed.transform_passes or next((passes for passes in given if passes is not None), None)


def _names(passes: Sequence[Pass]) -> str:
    return ", ".join(getattr(item, "__name__", type(item).__name__) for item in passes)
