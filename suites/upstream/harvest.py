"""Collects the programs of executorch's operator suite (``executorch.backends.test.suite``).

Its test functions pass their programs to a runner. This module calls them with a runner that
records the programs, so that the tests of any release are found and none are copied.
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
"""Tag of a program that upstream's suite skips on every flow."""

_TARGETS = (
    "portable:fp32|xnnpack:fp32|tosa:fp|mlx:fp32|metal:fp32|coreml:fp32|coreml:fp16|openvino:fp32"
)
_VACUOUS = "the inputs are upstream's; the outputs of some are constant"

Test = Callable[..., None]


@dataclass(frozen=True)
class UpstreamProgram:
    """A program that a test passes to upstream's runner."""

    module: torch.nn.Module
    inputs: Inputs
    dynamic_shapes: Any


class _ProgramFound(Exception):
    """Raised when the wanted program is recorded, to skip the rest of the test."""


@dataclass
class _RecordingRunner:
    """Replaces upstream's runner: records programs instead of lowering them.

    Attributes:
        wanted: number of the last program to record; None for all.
    """

    wanted: int | None = None
    programs: list[UpstreamProgram] = field(default_factory=list)
    # The flow under test; LSTM's tests read whether it quantizes.
    _flow: Any = field(default_factory=lambda: SimpleNamespace(name="conform", quantize=False))

    def lower_and_run_model(
        self, model: torch.nn.Module, inputs: Any, dynamic_shapes: Any = None, **_: Any
    ) -> None:
        """Record a program, under the name of upstream's method."""
        self.programs.append(UpstreamProgram(model, tuple(inputs), dynamic_shapes))
        if self.wanted is not None and len(self.programs) > self.wanted:
            raise _ProgramFound


@dataclass(frozen=True)
class UpstreamTest:
    """A test function of upstream with one set of its parameters.

    Attributes:
        operator: the operator under test.
        name: name of the function.
        words: values of the parameters that have several values.
        test: the function.
        parameters: its arguments beside the runner.
    """

    operator: str
    name: str
    words: Sequence[str]
    test: Test
    parameters: Mapping[str, Any]

    @property
    def variant(self) -> str:
        """The function's name without the operator's, and the words."""
        own = self.name.removeprefix("test_").removeprefix(f"{self.operator}_")
        return "-".join([own, *self.words])

    @property
    def skips(self) -> Test | None:
        """The wrapped method if upstream skips it on every flow, else None."""
        held = inspect.getclosurevars(self.test).nonlocals.values()
        return next((item for item in held if getattr(item, "__unittest_skip__", False)), None)

    def programs(self, wanted: int | None = None) -> list[UpstreamProgram]:
        """Programs of the test, up to a number; inputs are drawn from the global generators."""
        notes = _RecordingRunner(wanted)
        try:
            if (hidden := self.skips) is None:
                self.test(notes, **self.parameters)
            else:
                shim = operators.TestCaseShim(notes)
                inspect.unwrap(hidden)(shim, notes._flow, **self.parameters)
        except _ProgramFound:
            pass
        return notes.programs


def harvest() -> Iterator[UpstreamTest]:
    """Find the tests of every operator in the installed release, by name."""
    for found in pkgutil.iter_modules(operators.__path__):  # imports only: executorch
        operator = found.name.removeprefix("test_")
        if operator == found.name:
            continue
        name = f"{operators.__name__}.{found.name}"
        module = importlib.import_module(name)  # imports only: executorch
        for name, test in sorted(vars(module).items()):
            if name.startswith("test_") and callable(test):
                for words, parameters in iterate_parameters(test):
                    yield UpstreamTest(operator, name, words, test, parameters)


def iterate_parameters(test: Test) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """Iterate over the parameter sets of ``pytest.mark.parametrize``, with words for parameters
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


def make_cases(each: UpstreamTest) -> list[Case]:
    """Make a case for each program of a test."""
    with seed_generators_with(0):  # leaves the process' generators unchanged
        recorded = each.programs()
    return [_case(each, number, program, len(recorded)) for number, program in enumerate(recorded)]


def _case(each: UpstreamTest, number: int, program: UpstreamProgram, among: int) -> Case:
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
