"""Record the program before and after passes while it is lowered."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from executorch.exir.pass_base import ExportedProgramPassBase, ExportedProgramPassResult
from torch.export import ExportedProgram

from harness.model.recipe import Recipe

Passes = Callable[[], Sequence[Any]]
"""Makes new instances of the passes."""


@dataclass(frozen=True)
class ProgramRewrite:
    """A program before and after passes, in the edge dialect.

    Attributes:
        before: input of the first pass.
        after: output of the last pass.
        passes: makes new instances of the passes.
    """

    before: ExportedProgram
    after: ExportedProgram
    passes: Passes

    @classmethod
    def from_passes(cls, program: ExportedProgram, passes: Passes) -> ProgramRewrite:
        """Run passes over a copy of a program."""
        return cls(program, _apply_passes(program, passes), passes)

    def apply_again(self) -> ExportedProgram:
        """Return the program after a second application of the passes."""
        return _apply_passes(self.after, self.passes)


def _apply_passes(program: ExportedProgram, passes: Passes) -> ExportedProgram:
    from harness.vendors.executorch import _transform  # only where passes are added

    rewritten: ExportedProgram = _transform(copy_program(program), *passes())
    return rewritten


class PassRecorder:
    """Records the effect of passes, with two additional passes around them.

    Args:
        passes: makes new instances of the passes.
    """

    def __init__(self, passes: Passes) -> None:
        self._passes = passes
        self._before, self._after = _RecordingPass(), _RecordingPass()

    def wrap(self, passes: Sequence[Any]) -> list[Any]:
        """Return the passes with the recording passes around them."""
        return [self._before, *passes, self._after]

    @property
    def rewrite(self) -> ProgramRewrite | None:
        """The recorded programs; None where the passes did not run."""
        before, after = self._before.program, self._after.program
        if before is None or after is None:
            return None
        return ProgramRewrite(before, after, self._passes)


class _RecordingPass(ExportedProgramPassBase):  # type: ignore[misc]  # exir is untyped here
    """Copies the program and does not change it."""

    def __init__(self) -> None:
        super().__init__()
        self.program: ExportedProgram | None = None

    def call(self, exported_program: ExportedProgram) -> ExportedProgramPassResult:
        self.program = copy_program(exported_program)
        return ExportedProgramPassResult(exported_program, False)


def add_recorder(
    recipe: Recipe, passes: Sequence[Any]
) -> tuple[tuple[Any, ...], PassRecorder | None]:
    """Put a recorder around the passes that a target adds; None where ``passes`` are others."""
    added = recipe.added
    own = [type(each).__name__ for each in passes[: len(added)]]
    if not added or own != [type(each.make()).__name__ for each in added]:
        return tuple(passes), None
    recorder = PassRecorder(lambda: [known.make() for known in added])
    return (*recorder.wrap(passes[: len(added)]), *passes[len(added) :]), recorder


def copy_program(program: ExportedProgram) -> ExportedProgram:
    """Copy a program with all its graphs, without its weights. The copy is not verified."""
    copied = copy.copy(program)
    signature = program.graph_signature
    copied._graph_module = _copy_graph_module(program.graph_module)
    # Later passes rename arguments in these specs.
    copied._graph_signature = type(signature)(
        copy.deepcopy(signature.input_specs), copy.deepcopy(signature.output_specs)
    )
    copied._state_dict = dict(program.state_dict)
    copied._constants = dict(program.constants)
    return copied


def _copy_graph_module(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    copied = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
    copied.meta.update(module.meta)
    for name, child in copied.named_children():
        if isinstance(child, torch.fx.GraphModule):
            setattr(copied, name, _copy_graph_module(child))
    return copied
