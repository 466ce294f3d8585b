"""Recipe: how a backend lowers, as data.

With it stand the passes that a target can name, and the script that shows a cell without this
harness.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.errors import ReleaseError
from harness.model.precision import Precision
from harness.vendors.versions import PACKAGE, describe_installed

if TYPE_CHECKING:
    import torch
    from executorch.exir import EdgeCompileConfig
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
    """A case as it was lowered, for what judges or explains its program.

    Attributes:
        exported: the ATen program that was lowered, quantized where the recipe quantizes.
        edge: the edge program with its delegates. Emitting has rewritten what is left over.
        data: the bytes that ship.
        program: the same, parsed.
        delegation: who took which node.
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
    """Why a quantizer that observes a case's inputs cannot take it, or None."""
    floating = (tensor for tensor in built.tensors if tensor.is_floating_point())
    if all(bool(tensor.isfinite().all()) for tensor in floating):
        return None
    return "a quantizer cannot be calibrated with infinities or NaN"


def _supports_all(case: Case, built: Built) -> str | None:
    return None


@dataclass(frozen=True)
class Script:
    """How a recipe lowers and what executes it, in Python that needs upstream's packages only: for
    scripts that show a cell without this harness. The expressions make what the recipe's fields of
    the same names make; a test holds the programs of both together.

    Attributes:
        imports: the statements that come before everything.
        partitioners: an expression, as all that follow.
        transform_passes: of what runs before partitioning.
        edge_config: of the edge compile configuration.
        quantizer: of the PT2E quantizer; empty for none.
        preamble: definitions that the expressions use, and statements that have to run first.
        delegate: the name in the runtime's registry without which it cannot execute the program;
            empty for none.
        run: the body of ``run(lowered)``, which takes an ``EdgeProgramManager`` and returns what
            each of ``CALLS`` returns, where that is not the runtime's work.
        ours: what this project does where the backend's runtime is not native that the script does
            not: a sentence about what was seen; empty for nothing.
    """

    imports: tuple[str, ...] = ()
    partitioners: str = "[]"
    transform_passes: str = "[]"
    edge_config: str = "EdgeCompileConfig()"
    quantizer: str = ""
    preamble: str = ""
    delegate: str = ""
    run: str = ""
    ours: str = ""


@dataclass(frozen=True)
class KnownPass:
    """A graph pass that a target can name.

    Attributes:
        where: ``package.module:name`` of a class that is made without arguments, or of a function
            that takes an exported program and returns one.
        about: what it does, in a few words.
        rounds: it computes another way: what it returns is held to the bounds, not to every bit.
        in_place: what it makes writes in place, which the edge dialect's verifier refuses.
        aliases: values that had memory of their own may share some.
        idempotent: a second time changes nothing more.
    """

    where: str
    about: str
    rounds: bool = False
    in_place: bool = False
    aliases: bool = False
    idempotent: bool = True

    def make(self) -> Any:
        """A new one.

        Raises:
            ReleaseError: it is ExecuTorch's, and the installed release has none.
            ImportError: there is no such module.
            AttributeError: it has no such name.
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
        return made() if isinstance(made, type) else _as_pass(made)

    @property
    def is_upstreams(self) -> bool:
        """Whether it is there without this project."""
        return self.where.startswith(("executorch.", "torch.", "torchao."))


def _as_pass(function: Callable[[Any], Any]) -> Any:
    """A function from program to program as exir runs passes."""
    from executorch.exir.pass_base import ExportedProgramPassBase, ExportedProgramPassResult

    class ProgramPass(ExportedProgramPassBase):  # type: ignore[misc]  # exir is untyped here
        __name__ = function.__name__

        def call(self, exported_program: Any) -> Any:
            return ExportedProgramPassResult(function(exported_program), True)

    return ProgramPass()


@dataclass(frozen=True)
class Recipe:
    """How a backend lowers, as data. The callables make fresh objects for every cell.

    Attributes:
        name: the part of the target after the colon.
        precision: how the target rounds; the bounds are derived from it.
        dtype: name of the floating dtype that module and inputs are cast to.
        quantizer: makes a PT2E quantizer; None for no quantization.
        quantize_weights: quantizes the weights of the module before export, in place or not.
        partitioners: makes the partitioners, in order.
        transform_passes: makes the passes that run before partitioning.
        edge_config: makes the edge compile configuration.
        unsupported: why a case, built and cast to the dtype, is outside what the recipe claims to
            do, or None.
        require_delegation: whether a cell fails when nothing was delegated.
        verify: what is wrong with the lowered program, or None; a reason fails the cell at stage
            ``lower``.
        encodings: the quantized weights that its program carries, for the record.
        semantics: makes the meaning of operators that are no arithmetic of tensors; None for that
            of torchao's decoding operators alone.
        explain: why its partitioners left a node of the lowered program over, or None, where they
            keep that to themselves: what they tell exir's ``WhyNoPartition`` and
            ``WhyNoPartitionReporter`` is known.
        script: the same recipe as text, for scripts without this harness; None where there is none.
        added: the passes that a target adds to it; they are the first of ``transform_passes``, and
            what they must keep is looked at.
        narrowed: dtypes of outputs that it may return in place of the module's, by the module's,
            where its quantizer says so; every other dtype is the module's.
        like: targets whose recipes do the same: a case that is meant for one of them is meant for
            this one as well. Their limitations are not its own.
    """

    name: str
    precision: Precision
    dtype: str = "float32"
    quantizer: Callable[[], Any] | None = None
    quantize_weights: Callable[[torch.nn.Module], torch.nn.Module] | None = None
    partitioners: Callable[[], list[Partitioner]] = _nothing
    transform_passes: Callable[[], list[Any]] = _nothing
    edge_config: Callable[[], EdgeCompileConfig] = _default_edge_config
    unsupported: Callable[[Case, Built], str | None] = _supports_all
    require_delegation: bool = False
    verify: Callable[[Lowered], str | None] | None = None
    encodings: Callable[[Lowered], list[Encoding]] | None = None
    semantics: Callable[[], OperatorSemantics] | None = None
    explain: Callable[[Sequence[Partitioner], Node], str | None] | None = None
    script: Script | None = None
    added: tuple[KnownPass, ...] = ()
    narrowed: Mapping[str, str] = field(default_factory=dict, hash=False)
    like: tuple[str, ...] = ()

    def find_refusal(self, case: Case, built: Built) -> str | None:
        """Why the recipe does not claim to do a case, or None."""
        quantizes = self.quantizer is not None or self.quantize_weights is not None
        if quantizes and (classes := built.quantized_classes):
            return (
                f"weights of the module are quantized already ({', '.join(classes)}), and the "
                f"recipe {self.name} quantizes those of a float module"
            )
        return self.unsupported(case, built)
