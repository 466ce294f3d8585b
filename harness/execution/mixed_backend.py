"""A backend made of several, for programs with delegates of each (``metal:fp32/xnnpack:fp32``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.execution.any_program.run import RUNTIMES, run_in_this_process
from harness.model.backend import Availability, Backend, Execution
from harness.model.case import Inputs
from harness.model.mixed_recipe import mix_recipes
from harness.model.recipe import Recipe
from harness.record.target import SEVERAL


@dataclass(frozen=True)
class MixedBackend:
    """Executes programs of several delegates, each delegate by the runtime that this host has.

    Attributes:
        parts: the backends, in the order of the target.
    """

    parts: tuple[Backend, ...]

    @property
    def name(self) -> str:
        """The names of its backends."""
        return SEVERAL.join(part.name for part in self.parts)

    @property
    def recipes(self) -> Mapping[str, Recipe]:
        """The recipes that one recipe of each backend makes; made when looked up."""
        return _MixedRecipes(self.parts)

    def availability(self) -> Availability:
        """Whether each backend is available; the runtime is the furthest from the vendor's."""
        states = [part.availability() for part in self.parts]
        packages = tuple(dict.fromkeys(name for state in states for name in state.packages))
        reasons = [
            f"{part.name}: {state.reason}"
            for part, state in zip(self.parts, states, strict=True)
            if not state.available
        ]
        unverified = "; ".join(state.unverified for state in states if state.unverified)
        if reasons:
            can_lower = all(state.available or state.can_lower for state in states)
            return Availability(
                False,
                "; ".join(reasons),
                packages=packages,
                can_lower=can_lower,
                unverified=unverified,
            )
        return Availability(
            True,
            runtime=max((state.runtime for state in states), key=RUNTIMES.index),
            packages=packages,
            unverified=unverified,
            tools=" ".join(state.tools for state in states if state.tools),
        )

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Execute natively if all delegates of the program are native, else interpret it."""
        return run_in_this_process(program, calls, "forward")


class _MixedRecipes(Mapping[str, Recipe]):
    """Recipes by the names of their parts, such as ``fp32/fp32``."""

    def __init__(self, parts: Sequence[Backend]) -> None:
        self._parts = parts

    def __getitem__(self, name: str) -> Recipe:
        names = name.split(SEVERAL)
        if len(names) != len(self._parts):
            raise KeyError(name)
        found = zip(self._parts, names, strict=True)
        return mix_recipes({f"{part.name}:{each}": part.recipes[each] for part, each in found})

    def __iter__(self) -> Iterator[str]:
        names = [""]
        for part in self._parts:
            names = [f"{name}{SEVERAL}{each}" for name in names for each in part.recipes]
        return iter(name.removeprefix(SEVERAL) for name in names)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in list(self)
