"""Collects the programs of executorch's operator suite (``executorch.backends.test.suite``).

Its test functions hand their programs to a runner. Here they are called with one that takes notes,
so that what another release brings is picked up by itself and nothing of it is copied.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from executorch.backends.test.suite import operators

from harness import Case, Inputs
from harness.model.seeding import seed_generators_with

SKIPPED = "skipped_upstream"
"""Tag of a program that upstream's suite holds and skips on every flow."""

_TARGETS = "portable:fp32|xnnpack:fp32|tosa:fp|mlx:fp32|metal:fp32"
_VACUOUS = "upstream chose the inputs, and what becomes of some of them is constant"

Test = Callable[..., None]


@dataclass(frozen=True)
class Program:
    """What a test hands to upstream's runner."""

    module: torch.nn.Module
    inputs: Inputs
    dynamic_shapes: Any


class _Enough(Exception):
    """The program that is asked for is there; the rest of the test is not needed."""


@dataclass
class _Notes:
    """Stands for upstream's runner: takes notes of programs instead of lowering them.

    Attributes:
        wanted: number of the last program to note; None for all.
    """

    wanted: int | None = None
    programs: list[Program] = field(default_factory=list)
    # The flow under test, of which LSTM's tests ask whether it quantizes.
    _flow: Any = field(default_factory=lambda: SimpleNamespace(name="conform", quantize=False))

    def lower_and_run_model(
        self, model: torch.nn.Module, inputs: Any, dynamic_shapes: Any = None, **_: Any
    ) -> None:
        """Upstream's name for what is done with a program."""
        self.programs.append(Program(model, tuple(inputs), dynamic_shapes))
        if self.wanted is not None and len(self.programs) > self.wanted:
            raise _Enough


@dataclass(frozen=True)
class Harvested:
    """A test function of upstream with one set of its parameters.

    Attributes:
        operator: whose test it is.
        name: of the function.
        words: its parameters, of those that have several values.
        test: the function.
        parameters: what it is called with beside the runner.
    """

    operator: str
    name: str
    words: Sequence[str]
    test: Test
    parameters: Mapping[str, Any]

    @property
    def variant(self) -> str:
        """What of its name is not the operator's, and the words."""
        own = self.name.removeprefix("test_").removeprefix(f"{self.operator}_")
        return "-".join([own, *self.words])

    @property
    def skips(self) -> Test | None:
        """The method that it hides where upstream skips it on every flow, else None."""
        held = inspect.getclosurevars(self.test).nonlocals.values()
        return next((item for item in held if getattr(item, "__unittest_skip__", False)), None)

    def programs(self, wanted: int | None = None) -> list[Program]:
        """What it hands to its runner, up to one of a number; drawn from the global generators."""
        notes = _Notes(wanted)
        try:
            if (hidden := self.skips) is None:
                self.test(notes, **self.parameters)
            else:
                shim = operators.TestCaseShim(notes)
                inspect.unwrap(hidden)(shim, notes._flow, **self.parameters)
        except _Enough:
            pass
        return notes.programs


def harvest() -> Iterator[Harvested]:
    """The tests of every operator that the installed release has, by name."""
    for found in pkgutil.iter_modules(operators.__path__):  # imports only: executorch
        operator = found.name.removeprefix("test_")
        if operator == found.name:
            continue
        name = f"{operators.__name__}.{found.name}"
        module = importlib.import_module(name)  # imports only: executorch
        for name, test in sorted(vars(module).items()):
            if name.startswith("test_") and callable(test):
                for words, parameters in parametrized(test):
                    yield Harvested(operator, name, words, test, parameters)


def parametrized(test: Test) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """The sets of parameters that ``pytest.mark.parametrize`` gives a test, with words for those
    that vary."""
    axes: list[list[tuple[str, Any]]] = []
    for mark in getattr(test, "pytestmark", []):
        if mark.name == "parametrize":
            name, values = mark.args
            axes.append([(name, value) for value in values])
    for chosen in itertools.product(*axes):
        words = [
            str(value).removeprefix("torch.")
            for axis, (_, value) in zip(axes, chosen, strict=True)
            if len(axis) > 1
        ]
        yield words, dict(chosen)


def cases_of(each: Harvested) -> list[Case]:
    """A case for each program of a test."""
    with seed_generators_with(0):  # so that the process' generators are left as they were
        noted = each.programs()
    return [_case(each, number, program, len(noted)) for number, program in enumerate(noted)]


def _case(each: Harvested, number: int, program: Program, among: int) -> Case:
    def build() -> tuple[torch.nn.Module, Inputs]:
        made = each.programs(number)[number]
        return made.module, made.inputs

    suffix = f"_{number}" if among > 1 else ""
    return Case(
        f"upstream/{each.operator}/{each.variant}{suffix}",
        build,
        op=each.operator,
        dynamic_shapes=program.dynamic_shapes,
        tags=frozenset({"upstream", *([SKIPPED] if each.skips else [])}),
        targets=_TARGETS,
        plain_targets="xnnpack:fp32",
        vacuous=_VACUOUS,
    )
