"""Requirements of a recipe on its lowered program, and the encodings of its weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch

from harness import Case, Tester, run_cell
from harness.backend_api import Recipe
from harness.model import registry
from harness.model.recipe import Lowered
from harness.record.cell import CROSS_BACKEND, Cell
from harness.record.program_data import Encoding
from harness.record.target import Target

NULL = Target.parse("null:eager")
WEIGHT = Encoding.of("weight", "e4m3", 32, 32, bytes(32), bytes(1))


def run(*tags: str, **hooks: Any) -> Cell:
    recipe: Recipe = dataclasses.replace(registry.recipe(NULL), **hooks)
    case = Case(
        "linear/x",
        lambda: (torch.nn.Linear(4, 2), (torch.tensor([[1.0, 2.0, torch.inf, 0.0]]),)),
        tags=frozenset(tags),
    )
    return run_cell(case, NULL, recipe=recipe)


def test_a_failed_verification_ends_the_cell_at_lower() -> None:
    cell = run(verify=lambda lowered: f"{len(lowered.data) > 0}: the program is another one")
    assert (cell.status.value, cell.stage, cell.runtime) == ("failed", "lower", "none")
    assert cell.error == "True: the program is another one"


def test_no_reason_lets_it_run() -> None:
    assert run(verify=lambda lowered: None).status.value == "passed"


@pytest.mark.parametrize("hook", ["verify", "encodings"])
def test_a_hook_that_raises_is_a_failure_of_the_stage(hook: str) -> None:
    def broken(lowered: Lowered) -> None:
        raise KeyError("weight")

    cell = run(**{hook: broken})
    assert (cell.status.value, cell.stage) == ("failed", "lower")
    assert cell.error == "KeyError: 'weight'"


@pytest.mark.parametrize(
    ("tags", "kept", "outputs"), [((), WEIGHT.brief(), 0), ((CROSS_BACKEND,), WEIGHT, 1)]
)
def test_bytes_and_values_are_cached_for_compared_cases(
    tags: tuple[str, ...], kept: Encoding, outputs: int
) -> None:
    found: Callable[[Lowered], list[Encoding]] = lambda lowered: [WEIGHT]  # noqa: E731
    cell = run(*tags, encodings=found)
    assert cell.encodings == [kept]
    assert len(cell.outputs) == outputs
    for output in cell.outputs:
        assert len(output.values) == 2
        assert not all(map(torch.isfinite, map(torch.tensor, output.values)))
    assert repr(Cell.from_json(cell.to_json())) == repr(cell)


def test_a_program_of_plain_tensors_is_its_own_reference() -> None:
    tester = Tester(Case("linear/x", lambda: (torch.nn.Linear(4, 2), (torch.ones(1, 4),))), NULL)
    tester.quantize_weights(lambda module: module).export()
    (call,) = [node for node in tester.reference_module.graph.nodes if node.op == "call_function"]
    assert call.target == torch.ops.aten.linear.default
