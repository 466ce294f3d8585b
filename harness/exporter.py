"""Exporter: another way to a program than this harness', as data.

People ship what the exporter of their model's library made: with patches of its own, its own
partitioners, passes and configuration. What runs then is that program, to the byte.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.target import Target, any_glob

if TYPE_CHECKING:
    import torch
    from executorch.exir import ExecutorchProgramManager
    from torch.export import ExportedProgram

    from harness.backend import Recipe
    from harness.case import Given

Make = Callable[
    ["torch.nn.Module", "Given", str], "tuple[ExportedProgram, ExecutorchProgramManager]"
]


@dataclass(frozen=True)
class Exporter:
    """What makes a program of a module, from export to emission.

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

    def refuses(self, target: Target, recipe: Recipe) -> str | None:
        """Why it makes no program for a target, or None."""
        if not any_glob(self.targets, str(target)):
            return f"{self.name} exports for {self.targets.replace('|', ', ')} only"
        if recipe.quantizer is not None or recipe.quantize_weights is not None:
            return f"the recipe {recipe.name} quantizes, and {self.name} takes a module as it is"
        return None
