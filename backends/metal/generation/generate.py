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
from backends.metal.generation.pretend import pretending
from backends.metal.generation.upstream import METHOD, AotiBackend, MetalBackend, quiet
from harness import ConformError, is_sped_up, op_name, report_defect
from harness.vendors.replacements import AttributeReplacer

# The names by which preprocess finds the two files among those that a compilation left.
LIBRARY, WEIGHTS = "partition.wrapper.so", "partition.wrapper_weights.blob"


class MissingFallback(ConformError):
    """The generated code calls kernels that the Metal runtime does not have.

    Attributes:
        kernels: the calls, by the names under which upstream's list would have them.
        generated: the code that makes them.
    """

    def __init__(self, message: str, kernels: tuple[str, ...], generated: Generated) -> None:
        super().__init__(message)
        self.kernels = kernels
        self.generated = generated


def generate(edge_program: ExportedProgram, compile_specs: Sequence[Any] = ()) -> Generated:
    """The code for one partition.

    Args:
        edge_program: what ``MetalBackend.preprocess`` gets; left as it is.
        compile_specs: the partitioner's.

    Raises:
        MissingFallback: as ``preprocess`` raises it, when everything else is generated.
        torch._inductor.exc.InductorError: Inductor cannot generate code for an operator.
    """
    return _run(edge_program, compile_specs)[0]


def install() -> None:
    """Generate instead of compiling where there is no Apple hardware, in this process."""
    if not torch.backends.mps.is_available():
        AttributeReplacer("metal")(MetalBackend, "preprocess", staticmethod(preprocess))


def preprocess(edge_program: ExportedProgram, compile_specs: list[Any]) -> PreprocessResult:
    """``MetalBackend.preprocess``, with the generated source in the place of the library.

    The two blobs and the keys that name them are as upstream has them: the first is
    ``generated.encode``'s, the second the weights as the runtime maps them.

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
            # Not kept: the next one to ask for it may not go past the missing kernels.
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

        with pretending(keep), quiet():
            try:
                result = _pipeline(asked, linears).preprocess(_copy(edge_program), specs)
            except RuntimeError as error:
                missing = tuple(sorted(name for name in asked.names if name not in asked.known))
                if made and missing:
                    raise MissingFallback(str(error), missing, made[0]) from error
                raise
    return made[0], result


class _Asked(dict[str, Any]):
    """The supported kernels; remembers which names it was asked for, in order.

    With ``past_missing`` it claims to have all of them.
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
    """MetalBackend over again, as it may not be subclassed, with another move and known names.

    Args:
        asked: the known kernels.
        linears: filled with linear nodes by the matmul nodes that upstream's passes make of them.
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
        lambda specs: _noting_linears(MetalBackend.get_custom_passes(specs), linears)
    )
    methods["move_program_to_device"] = staticmethod(_move)
    methods["codesign_so"] = staticmethod(lambda path, specs: None)
    return type("Pipeline", (AotiBackend,), methods)


def _noting_linears(passes: Sequence[Any], linears: dict[str, str]) -> list[Any]:
    """The passes, between two that note which linear node became which matmul node."""
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
    # With an index: without, the borrowed device guard would be asked for the current device.
    moved: ExportedProgram = move_to_device_pass(edge_program, str(MPS))
    return moved


def _copy(edge_program: ExportedProgram) -> ExportedProgram:
    """The program with a graph and tables of its own; tensors are shared."""
    copied = copy.copy(edge_program)
    copied._graph_module = copy.deepcopy(edge_program.graph_module)
    copied._state_dict = dict(edge_program.state_dict)
    copied._constants = dict(edge_program.constants)
    copied._example_inputs = None
    return copied
