"""Recipe: how a backend lowers, as data; the passes that a target can add; and the script that
reproduces a cell without this project."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.errors import ReleaseError, UnsupportedProgram
from harness.model.precision import Precision
from harness.vendors.versions import PACKAGE, describe_installed

if TYPE_CHECKING:
    import torch
    from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig
    from executorch.exir.backend.partitioner import Partitioner
    from torch.export import ExportedProgram
    from torch.fx import Node

    from harness.execution.program import Program
    from harness.model.case import Built, Case
    from harness.numerics.formats.semantics import OperatorSemantics
    from harness.record.cell import Delegation
    from harness.record.program_data import Encoding


@dataclass(frozen=True)
class Lowered:
    """A lowered case, as input of checks and explanations of its program.

    Attributes:
        exported: the ATen program that was lowered, quantized where the recipe quantizes.
        edge: the edge program with its delegates. Emission has rewritten fallback nodes.
        data: the bytes of the ``.pte``.
        program: the same, parsed.
        delegation: the delegated and fallback nodes.
    """

    exported: ExportedProgram
    edge: ExportedProgram
    data: bytes
    program: Program
    delegation: Delegation


def _nothing() -> list[Any]:
    return []


def _default_edge_config() -> EdgeCompileConfig:
    from executorch.exir import EdgeCompileConfig

    return EdgeCompileConfig()


def find_calibration_problem(case: Case, built: Built) -> str | None:
    """Return why a quantizer cannot be calibrated with a case's inputs, or None."""
    floating = (tensor for tensor in built.tensors if tensor.is_floating_point())
    if all(bool(tensor.isfinite().all()) for tensor in floating):
        return None
    return "a quantizer cannot be calibrated with infinities or NaN"


def is_in_module(node: Node, names: Sequence[str]) -> bool:
    """Return whether a node of an exported graph comes from one of these modules or from inside."""
    paths = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values()]
    return any(path == name or path.startswith(f"{name}.") for path in paths for name in names)


def require_annotations(quantizer: str, model: torch.fx.GraphModule) -> None:
    """Reject a graph that a quantizer left as it is: it would run as in the float recipe.

    Args:
        quantizer: its name in the message.
        model: the graph after annotation.

    Raises:
        UnsupportedProgram: no node has a quantization specification.
    """
    for node in model.graph.nodes:
        found = node.meta.get("quantization_annotation")  # Q_ANNOTATION_KEY of torch and torchao
        if found is not None and any(
            spec is not None for spec in (found.output_qspec, *found.input_qspec_map.values())
        ):
            return
    raise UnsupportedProgram(f"{quantizer} quantizes nothing in this program")


def _default_backend_config() -> ExecutorchBackendConfig:
    from executorch.exir import ExecutorchBackendConfig

    return ExecutorchBackendConfig()


def _supports_all(case: Case, built: Built) -> str | None:
    return None


@dataclass(frozen=True)
class Script:
    """A recipe as Python source that needs torch and executorch only, for scripts that reproduce a
    cell without this project. Each expression makes the same object as the recipe's field of that
    name; a test compares the programs of both.

    Attributes:
        imports: import statements at the top.
        partitioners: expression of the partitioners.
        transform_passes: expression of the passes before partitioning.
        edge_config: expression of the edge compile configuration.
        backend_config: expression of the configuration of emission; empty for the default.
        strict: export with Dynamo.
        quantizer: expression of the PT2E quantizer; empty for none.
        qat: prepare with ``prepare_qat_pt2e``.
        preamble: definitions that the expressions use, and statements that run first, before the
            imports.
        delegate: the delegate's name in the runtime's registry that execution needs; empty for
            none.
        run: the body of ``run(lowered)``, which takes an ``EdgeProgramManager`` and returns the
            outputs of each of ``CALLS``; empty where the runtime executes the program.
        ours: a sentence about emulation by this project that the script cannot repeat; empty for
            none.
    """

    imports: tuple[str, ...] = ()
    partitioners: str = "[]"
    transform_passes: str = "[]"
    edge_config: str = "EdgeCompileConfig()"
    backend_config: str = ""
    strict: bool = False
    quantizer: str = ""
    qat: bool = False
    preamble: str = ""
    delegate: str = ""
    run: str = ""
    ours: str = ""


@dataclass(frozen=True)
class KnownPass:
    """A graph pass that a target can name.

    Attributes:
        where: ``package.module:name`` of a class without constructor arguments, or of a function
            that takes an exported program and returns one.
        about: its effect, in a few words.
        rounds: whether it changes rounding: outputs are then compared within bounds, not bit for
            bit.
        in_place: whether its result writes in place, which the edge dialect's verifier refuses.
        aliases: whether values with separate memory may share memory afterwards.
        idempotent: whether a second application changes nothing.
    """

    where: str
    about: str
    rounds: bool = False
    in_place: bool = False
    aliases: bool = False
    idempotent: bool = True

    def make(self) -> Any:
        """Create the pass.

        Raises:
            ReleaseError: it is ExecuTorch's, and the installed release does not have it.
            ImportError: there is no such module.
            AttributeError: the module has no such name.
        """
        module, _, name = self.where.partition(":")
        try:
            made = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            if not self.where.startswith(f"{PACKAGE}."):
                raise
            raise ReleaseError(
                f"{describe_installed()} has no pass {self.where} ({error}); leave it out of the "
                "target, or run another release"
            ) from error
        return made() if isinstance(made, type) else make_program_pass(made)

    @property
    def is_upstreams(self) -> bool:
        """Whether torch, torchao or executorch has it."""
        return self.where.startswith(("executorch.", "torch.", "torchao."))


def make_program_pass(function: Callable[[Any], Any]) -> Any:
    """Wrap a function from program to program as a pass of exir."""
    from executorch.exir.pass_base import ExportedProgramPassBase, ExportedProgramPassResult

    class ProgramPass(ExportedProgramPassBase):  # type: ignore[misc]  # exir is untyped here
        __name__ = function.__name__

        def call(self, exported_program: Any) -> Any:
            return ExportedProgramPassResult(function(exported_program), True)

    return ProgramPass()


@dataclass(frozen=True)
class Recipe:
    """How a backend lowers, as data. The callables return new objects for every cell.

    Attributes:
        name: the part of the target after the colon.
        precision: the rounding model of the target, from which bounds are derived.
        dtype: name of the floating dtype that module and inputs are cast to.
        channels_last: whether contiguous 4-d inputs are converted to channels-last memory format,
            for a backend that takes convolutions in that layout only.
        quantizer: makes a PT2E quantizer; None for no quantization.
        qat: prepare for quantization-aware training, with ``prepare_qat_pt2e``; nothing is trained.
        quantize_weights: quantizes the weights of the module before export, in place or not.
        partitioners: makes the partitioners, in order.
        transform_passes: makes the passes that run before partitioning.
        edge_config: makes the edge compile configuration.
        strict: export with Dynamo instead of by running the module.
        backend_config: makes the configuration of memory planning and emission.
        unsupported: returns why the recipe does not support a case, built and cast to the dtype,
            or None.
        require_delegation: whether a cell fails when nothing was delegated.
        verify: returns a problem of the lowered program, or None; a problem fails the cell at stage
            ``lower``.
        encodings: returns the quantized weights of the program, for the record.
        semantics: makes the meaning of operators that are not tensor arithmetic; None for
            torchao's dequantization operators only.
        explain: returns why the partitioners rejected a node of the lowered program, or None. It
            adds to the reasons in exir's ``WhyNoPartition`` and ``WhyNoPartitionReporter``.
        script: the recipe as source, for scripts without this project; None where there is none.
        added: the passes that a target adds. They are the first of ``transform_passes``, and their
            properties are checked.
        keep_float: takes a quantizer and the names of modules, and returns a quantizer that leaves
            these modules in float; None where it cannot.
        store_constants: returns the quantized graph with its constants as the delegate stores them,
            such as biases in the unit of the sum; None for the graph as it is. It is the reference.
        narrowed: output dtypes that the quantizer may return instead of the module's, by the
            module's dtype; all other dtypes are the module's.
        like: targets with equivalent recipes: a case for one of them also suits this one. Their
            limitations do not apply to it.
    """

    name: str
    precision: Precision
    dtype: str = "float32"
    channels_last: bool = False
    quantizer: Callable[[], Any] | None = None
    qat: bool = False
    quantize_weights: Callable[[torch.nn.Module], torch.nn.Module] | None = None
    partitioners: Callable[[], list[Partitioner]] = _nothing
    transform_passes: Callable[[], list[Any]] = _nothing
    edge_config: Callable[[], EdgeCompileConfig] = _default_edge_config
    strict: bool = False
    backend_config: Callable[[], ExecutorchBackendConfig] = _default_backend_config
    unsupported: Callable[[Case, Built], str | None] = _supports_all
    require_delegation: bool = False
    verify: Callable[[Lowered], str | None] | None = None
    encodings: Callable[[Lowered], list[Encoding]] | None = None
    semantics: Callable[[], OperatorSemantics] | None = None
    explain: Callable[[Sequence[Partitioner], Node], str | None] | None = None
    script: Script | None = None
    added: tuple[KnownPass, ...] = ()
    keep_float: Callable[[Any, Sequence[str]], Any] | None = None
    store_constants: Callable[[torch.fx.GraphModule], torch.fx.GraphModule] | None = None
    narrowed: Mapping[str, str] = field(default_factory=dict, hash=False)
    like: tuple[str, ...] = ()

    def find_refusal(self, case: Case, built: Built) -> str | None:
        """Return why the recipe does not support a case, or None."""
        quantizes = self.quantizer is not None or self.quantize_weights is not None
        if quantizes and (classes := built.quantized_classes):
            return (
                f"weights of the module are quantized already ({', '.join(classes)}), and the "
                f"recipe {self.name} quantizes those of a float module"
            )
        return self.unsupported(case, built)
