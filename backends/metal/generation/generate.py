"""Generate Inductor's MPS code for a partition without Apple hardware.

``MetalBackend.preprocess`` runs with its own passes, options and fallback check. This module only
replaces the move of the weights and the call of Apple's compiler.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from executorch.exir.backend.backend_details import PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from torch.export import ExportedProgram
from torch.export.passes import move_to_device_pass

from backends.metal.generation import cache, lowbit
from backends.metal.generation.generated import Generated, collect, encode
from backends.metal.generation.host_tensor import MPS, to_host
from backends.metal.generation.own import remember
from backends.metal.generation.pretend import pretend_mps
from backends.metal.generation.upstream import METHOD, AotiBackend, MetalBackend, quiet
from harness import ConformError
from harness.backend_api import is_sped_up, op_name, report_defect
from harness.vendors.replacements import AttributeReplacer

# ``preprocess`` finds the two files of a compilation by these names.
LIBRARY, WEIGHTS = "partition.wrapper.so", "partition.wrapper_weights.blob"


class MissingFallback(ConformError):
    """The generated code calls kernels that the Metal runtime does not have.

    Attributes:
        kernels: the missing kernels, named as in upstream's list.
        generated: the code that calls them.
    """

    def __init__(self, message: str, kernels: tuple[str, ...], generated: Generated) -> None:
        super().__init__(message)
        self.kernels = kernels
        self.generated = generated


def generate(edge_program: ExportedProgram, compile_specs: Sequence[Any] = ()) -> Generated:
    """Generate the code of one partition.

    Args:
        edge_program: the program that ``MetalBackend.preprocess`` gets; not changed.
        compile_specs: the partitioner's compile specs.

    Raises:
        MissingFallback: the code is generated but calls kernels that the runtime does not have.
        torch._inductor.exc.InductorError: Inductor cannot generate code for an operator.
    """
    return _run(edge_program, compile_specs)[0]


def install() -> None:
    """Replace ``MetalBackend.preprocess`` in this process if the host has no Apple hardware."""
    if not torch.backends.mps.is_available():
        AttributeReplacer("metal")(MetalBackend, "preprocess", staticmethod(preprocess))


def preprocess(edge_program: ExportedProgram, compile_specs: list[Any]) -> PreprocessResult:
    """Run ``MetalBackend.preprocess`` with the generated source in place of the library.

    The payload has upstream's two blobs and keys. The first blob is the output of
    ``generated.encode``, the second the weights as the runtime maps them.

    Raises:
        MissingFallback: see :func:`generate`.
        torch._inductor.exc.InductorError: see :func:`generate`.
    """
    key = cache.make_key(edge_program, compile_specs) if is_sped_up() else None
    result = cache.load(key) if key else None
    if result is None:
        try:
            result = _run(edge_program, compile_specs)[1]
        except MissingFallback as error:
            report_defect(error)
            # Not cached: the next caller may not accept missing kernels.
            result = _run(edge_program, compile_specs, past_missing=True)[1]
        else:
            if key:
                cache.save(key, result)
    remember(result)
    return result


def _run(
    edge_program: ExportedProgram, compile_specs: Sequence[Any], *, past_missing: bool = False
) -> tuple[Generated, PreprocessResult]:
    lowbit.install()
    specs = list(compile_specs) or [MetalBackend.generate_method_name_compile_spec(METHOD)]
    asked = _Asked(MetalBackend.get_supported_fallback_kernels(), past_missing)
    linears: dict[str, str] = {}
    made: list[Generated] = []
    with tempfile.TemporaryDirectory() as folder:

        def keep(graph: Any, wrapper: str, *args: Any, **kwargs: Any) -> list[str]:
            generated = collect(graph, wrapper, tuple(asked.names), linears)
            made.append(generated)
            library, weights = Path(folder, LIBRARY), Path(folder, WEIGHTS)
            library.write_bytes(encode(generated))
            weights.write_bytes(generated.weights)
            return [str(library), str(weights)]

        with pretend_mps(keep), quiet():
            try:
                result = _pipeline(asked, linears).preprocess(_copy(edge_program), specs)
            except RuntimeError as error:
                missing = tuple(sorted(name for name in asked.names if name not in asked.known))
                if made and missing:
                    raise MissingFallback(str(error), missing, made[0]) from error
                raise
    return made[0], result


class _Asked(dict[str, Any]):
    """The supported kernels; records the names that are looked up, in order.

    With ``past_missing`` it reports every kernel as supported.
    """

    def __init__(self, known: dict[str, Any], past_missing: bool) -> None:
        super().__init__(known)
        self.known = known
        self.names: dict[str, None] = {}
        self._past_missing = past_missing

    def __contains__(self, name: object) -> bool:
        self.names[str(name)] = None
        return self._past_missing or super().__contains__(name)


def _pipeline(asked: _Asked, linears: dict[str, str]) -> Any:
    """Return a copy of ``MetalBackend`` with our move of the weights and list of kernels.

    Upstream does not allow a subclass of ``MetalBackend``.

    Args:
        asked: the supported kernels.
        linears: filled with the linear node of each matmul node that upstream's passes create.
    """
    methods: dict[str, Any] = {
        name: staticmethod(getattr(MetalBackend, name))
        for name in (
            "get_device_name",
            "get_decomposition_table",
            "get_aoti_compile_options",
        )
    }
    methods["get_supported_fallback_kernels"] = staticmethod(lambda: asked)
    methods["get_custom_passes"] = staticmethod(
        lambda specs: _record_linears(MetalBackend.get_custom_passes(specs), linears)
    )
    methods["move_program_to_device"] = staticmethod(_move)
    methods["codesign_so"] = staticmethod(lambda path, specs: None)
    return type("Pipeline", (AotiBackend,), methods)


def _record_linears(passes: Sequence[Any], linears: dict[str, str]) -> list[Any]:
    """Surround the passes by two that record which linear node became which matmul node."""
    known: set[str] = set()
    before: list[str] = []

    def named(module: torch.fx.GraphModule, operator: str) -> list[str]:
        calls = [node for node in module.graph.nodes if node.op == "call_function"]
        return [node.name for node in calls if op_name(node.target) == operator]

    def note_before(module: torch.fx.GraphModule) -> None:
        known.update(node.name for node in module.graph.nodes)
        before.extend(named(module, "aten.linear.default"))

    def note_after(module: torch.fx.GraphModule) -> None:
        made = [name for name in named(module, "aten.matmul.default") if name not in known]
        if len(made) == len(before):  # each linear has become one, in order
            linears.update(zip(made, before, strict=True))

    return [note_before, *passes, note_after]


def _move(
    edge_program: ExportedProgram, device: str, compile_specs: list[CompileSpec]
) -> ExportedProgram:
    for values in (edge_program._state_dict, edge_program._constants):
        for name, value in values.items():
            if isinstance(value, torch.Tensor):
                values[name] = to_host(value)
    # The device has an index, so that torch does not ask the meta device guard for the current one.
    moved: ExportedProgram = move_to_device_pass(edge_program, str(MPS))
    return moved


def _copy(edge_program: ExportedProgram) -> ExportedProgram:
    """Copy a program with its graph and tables; the copy shares the tensors."""
    copied = copy.copy(edge_program)
    copied._graph_module = copy.deepcopy(edge_program.graph_module)
    copied._state_dict = dict(edge_program.state_dict)
    copied._constants = dict(edge_program.constants)
    copied._example_inputs = None
    return copied
