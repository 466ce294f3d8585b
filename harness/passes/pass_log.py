"""What passes were given and what they made of it, kept while a program is lowered."""

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
"""Makes fresh passes."""


@dataclass(frozen=True)
class Rewriting:
    """A program before and after passes, in the edge dialect.

    Attributes:
        before: what the first was given.
        after: what the last returned.
        passes: makes them anew.
    """

    before: ExportedProgram
    after: ExportedProgram
    passes: Passes

    @classmethod
    def of(cls, program: ExportedProgram, passes: Passes) -> Rewriting:
        """Run passes over a program, which stays as it is."""
        return cls(program, _rewritten(program, passes), passes)

    def again(self) -> ExportedProgram:
        """The program after the passes ran over it a second time."""
        return _rewritten(self.after, self.passes)


def _rewritten(program: ExportedProgram, passes: Passes) -> ExportedProgram:
    from harness.vendors.executorch import _transform  # only where passes are added

    rewritten: ExportedProgram = _transform(snapshot(program), *passes())
    return rewritten


class Witness:
    """Keeps what passes do, as two more passes around them.

    Args:
        passes: makes them.
    """

    def __init__(self, passes: Passes) -> None:
        self._passes = passes
        self._before, self._after = _Snapshot(), _Snapshot()

    def around(self, passes: Sequence[Any]) -> list[Any]:
        """The passes, and what looks on."""
        return [self._before, *passes, self._after]

    @property
    def rewriting(self) -> Rewriting | None:
        """What was seen; None where the passes did not run."""
        before, after = self._before.program, self._after.program
        if before is None or after is None:
            return None
        return Rewriting(before, after, self._passes)


class _Snapshot(ExportedProgramPassBase):  # type: ignore[misc]  # exir is untyped here
    """Changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.program: ExportedProgram | None = None

    def call(self, exported_program: ExportedProgram) -> ExportedProgramPassResult:
        self.program = snapshot(exported_program)
        return ExportedProgramPassResult(exported_program, False)


def watched(recipe: Recipe, passes: Sequence[Any]) -> tuple[tuple[Any, ...], Witness | None]:
    """Passes with a witness around those that a target adds; None where they are others'."""
    added = recipe.added
    own = [type(each).__name__ for each in passes[: len(added)]]
    if not added or own != [type(each.make()).__name__ for each in added]:
        return tuple(passes), None
    witness = Witness(lambda: [known.make() for known in added])
    return (*witness.around(passes[: len(added)]), *passes[len(added) :]), witness


def snapshot(program: ExportedProgram) -> ExportedProgram:
    """A program with graphs of its own, those of branches and loops too, that shares its weights
    with the given one. Nothing is verified."""
    copied = copy.copy(program)
    signature = program.graph_signature
    copied._graph_module = _copied(program.graph_module)
    # Later passes rename what the specs speak of.
    copied._graph_signature = type(signature)(
        copy.deepcopy(signature.input_specs), copy.deepcopy(signature.output_specs)
    )
    copied._state_dict = dict(program.state_dict)
    copied._constants = dict(program.constants)
    return copied


def _copied(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    copied = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
    copied.meta.update(module.meta)
    for name, child in copied.named_children():
        if isinstance(child, torch.fx.GraphModule):
            setattr(copied, name, _copied(child))
    return copied
