"""Sizes of constants and duplicate constants of a program, and its execution times."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from harness import Case, Cell, Status, Tester, run_cell
from harness.backend_api import Execution, Recipe
from harness.execution.execute import report_calls
from harness.model import registry
from harness.pipeline import program_statistics
from harness.pipeline.program_statistics import Stopwatch, measure_constants
from harness.pipeline.route import lower
from harness.record.cell import MODEL

WORDS, WIDE = 64, 32
TABLE = 4 * WORDS * WIDE


class Tied(torch.nn.Module):
    """An embedding that shares its table with the last layer, as in many language models."""

    def __init__(self, *, tied: bool) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(WORDS, WIDE)
        self.head = torch.nn.Linear(WIDE, WORDS, bias=False)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.embedding(tokens)))


def tied(*, is_tied: bool = True) -> Case:
    def build() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
        return Tied(tied=is_tied), (torch.arange(5).reshape(1, 5),)

    return Case("tied", build, tags={MODEL})


@pytest.mark.parametrize(
    ("target", "twice"),
    [
        ("portable:fp32", 0),
        ("mlx:fp32", 0),
        # The embedding is a fallback node, and the delegate has its own copy of the table.
        ("xnnpack:fp32", TABLE),
        ("tosa:fp", TABLE),
    ],
)
def test_tied_weights_that_are_stored_twice_are_counted(target: str, twice: int) -> None:
    cell = run_cell(tied(), target)
    assert cell.status is Status.PASSED
    assert cell.duplicate_constant_bytes == twice
    assert cell.constant_bytes is not None
    # Apart from the tables there are only scalars and alignment.
    assert TABLE + twice <= cell.constant_bytes < TABLE + twice + 1024
    assert cell.constant_bytes < cell.program_bytes
    apart = run_cell(tied(is_tied=False), target)
    assert apart.duplicate_constant_bytes == 0
    assert apart.constant_bytes is not None
    assert 2 * TABLE <= apart.constant_bytes < 2 * TABLE + 1024


def test_constants_of_metal_are_counted_without_its_code() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(32, 64, bias=False), torch.nn.Tanh())
    cell = run_cell(Case("layer", lambda: (module, (torch.randn(2, 32),))), "metal:fp32")
    assert cell.delegation.delegates == 1
    assert cell.constant_bytes == 4 * 32 * 64
    # Shaders and wrapper are many times the weights, and no constants.
    assert cell.program_bytes > 2 * cell.constant_bytes


def test_one_buffer_with_two_names_is_one_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    tester = Tester(tied(), "xnnpack:fp32")
    lower(tester)
    program, backend = tester.serialized.program, registry.backend("xnnpack")
    before = measure_constants(program, backend)
    (key,) = (key for key, data in program.named_data.items() if len(data) == TABLE)
    names = {**program.named_data, "another": program.named_data[key]}
    monkeypatch.setitem(vars(program), "named_data", names)
    assert measure_constants(program, backend) == before
    # The same bytes in another place are stored twice.
    copied = {**names, "another": bytes(names[key])}
    monkeypatch.setitem(vars(program), "named_data", copied)
    after = measure_constants(program, backend)
    assert after.constants == before.constants + TABLE
    assert after.duplicates == before.duplicates + TABLE


def test_a_cell_that_was_not_lowered_has_no_constants() -> None:
    def build() -> Any:
        raise RuntimeError("no such model")

    cell = run_cell(Case("none", build, tags={MODEL}), "portable:fp32")
    assert cell.status is Status.FAILED
    assert (cell.constant_bytes, cell.duplicate_constant_bytes) == (None, None)
    assert (cell.first_seconds, cell.steady_seconds) == (None, None)


@pytest.mark.parametrize("target", ["portable:fp32", "xnnpack:fp32", "tosa:fp", "mlx:fp32"])
def test_models_are_executed_again_for_their_time(target: str) -> None:
    cell = run_cell(tied(), target)
    assert cell.first_seconds is not None
    assert cell.steady_seconds is not None
    assert 0 < cell.first_seconds <= cell.stages["run"]
    assert 0 < cell.steady_seconds <= cell.stages["steady"]
    assert "steady" in cell.memory
    again = Cell.from_json(cell.to_json())
    assert (again.first_seconds, again.steady_seconds) == (cell.first_seconds, cell.steady_seconds)


def test_a_case_that_is_no_model_is_executed_once_per_call() -> None:
    case = replace(tied(), tags=frozenset())
    cell = run_cell(case, "portable:fp32")
    assert cell.first_seconds is not None
    assert cell.steady_seconds is None
    assert "steady" not in cell.stages


class Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add_(1)
        return x + self.seen


def test_a_program_with_state_is_not_called_more_often_than_it_is_judged() -> None:
    x = torch.randn(3)
    case = Case("counting", lambda: (Counting(), (x,)), calls=lambda: [(x,)], tags={MODEL})
    cell = run_cell(case, "portable:fp32")
    assert cell.status is Status.PASSED
    assert "steady" not in cell.stages
    # Two calls and one that observes the state: further calls measure the time.
    assert len({row.call for row in cell.numerics}) == 3
    assert cell.steady_seconds is not None


class Spoiled:
    """A backend whose program cannot be executed twice, or gives other outputs the second time."""

    name = "spoiled"
    recipes: dict[str, Recipe] = {}

    def __init__(self, again: Callable[[], Any]) -> None:
        self.again = again
        self.availability = registry.backend("portable").availability

    def execute(self, program: bytes, calls: Sequence[Any]) -> Execution:
        heard: list[float] = []
        with report_calls(lambda spent, again: heard.append(spent)):
            done = registry.backend("portable").execute(program, calls)
        outputs = [list(one) for one in done.outputs]
        from harness.execution import execute

        hear = execute._CALL_LISTENER.get()
        assert hear is not None
        for spent in heard:
            hear(spent, functools.partial(self.again))
        return Execution(outputs, done.runtime)


def test_repeated_executions_are_not_judged() -> None:
    tried: list[int] = []

    def fails() -> Any:
        tried.append(1)
        raise RuntimeError("not twice")

    recipe = registry.backend("portable").recipes["fp32"]
    cell = run_cell(tied(), "portable:fp32", recipe=recipe, backend=Spoiled(fails))
    assert tried == [1]
    assert cell.status is Status.PASSED
    assert cell.first_seconds is not None
    assert cell.steady_seconds is None


def test_a_slow_program_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_statistics, "_SECONDS", 0.05)
    watch = Stopwatch()
    with watch.time_executions():
        tester = Tester(tied(), "portable:fp32")
        lower(tester)
        tester.run()
    assert tester.stopwatch.repeated == []  # not asked for
    slow = Stopwatch(seconds=[0.02], _repeat_call=lambda: time.sleep(0.02))
    slow.repeat_first_call()
    assert 1 <= len(slow.repeated) <= 2
    slower = Stopwatch(seconds=[0.06], _repeat_call=lambda: time.sleep(0.06))
    slower.repeat_first_call()
    assert slower.repeated == []
    assert slower.steady is None
