"""Decoders generate the same tokens on a target as in eager, also when a prompt is repeated."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from harness import Case, Tester
from harness.backend_api import Recipe
from harness.model.case import Inputs
from harness.pipeline.route import lower
from harness.tracing.tests.planting import make_faulty_recipe
from suites.models import generation
from suites.models.generation import PROMPT, STEPS, choose_token
from suites.models.tests.test_generation_faults import writes_one_on


def find_case(name: str) -> Case:
    """The suite's case of a name."""
    return next(case for case in generation.CASES if case.name == name)


def lower_case(name: str, target: str, recipe: Recipe | None = None) -> Tester:
    """Lower a case of the suite to a program."""
    tester = Tester(find_case(name), target, recipe=recipe)
    lower(tester)
    return tester


def run_calls(tester: Tester, calls: Sequence[Inputs]) -> list[torch.Tensor]:
    """Outputs of the program for calls, from the state that it is loaded with."""
    return [outputs[0] for outputs in tester.run(calls).execution.outputs]


def generate_tokens(tester: Tester, prompt: int) -> list[int]:
    """The tokens that a program chooses after its prompt; each is the input of the next call."""
    calls = [tuple(call) for call in tester.built.calls[:prompt]]
    for following in tester.built.calls[prompt : prompt + STEPS]:
        # A runtime takes all calls at once, and each run starts from the initial state.
        token = choose_token(run_calls(tester, calls)[-1], calls)
        calls.append((token, *tuple(following)[1:]))
    return [int(call[0]) for call in calls[prompt:]]


def describe_margin(tester: Tester, call: int) -> str:
    """Describe the distance of the two likeliest tokens after a call, and the bound of logits."""
    verdict = tester.run().compare().verdict
    best = run_calls(tester, tester.built.calls)[call][0, -1].topk(2).values
    bound = next(each.bound for each in verdict.numerics if each.call == call)
    return f"the two best are {float(best[0] - best[1]):.3g} apart, the bound is {bound:.3g}"


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("llama/decode", "xnnpack:fp32"),
        ("llama/decode", "mlx:fp32"),
        ("llama/decode", "metal:fp32"),
        ("llama/decode", "tosa:fp"),
        ("whisper/decode", "xnnpack:fp32"),
        ("whisper/decode", "mlx:fp32"),
        ("mamba/decode", "xnnpack:fp32"),
    ],
)
def test_a_program_generates_the_tokens_of_eager_repeatedly(name: str, target: str) -> None:
    tester = lower_case(name, target)
    expected = [int(call[0]) for call in tester.built.calls[PROMPT : PROMPT + STEPS]]
    found = generate_tokens(tester, PROMPT)
    assert len(set(found)) == STEPS
    for step, pair in enumerate(zip(found, expected, strict=True)):
        assert pair[0] == pair[1], f"step {step}: {describe_margin(tester, PROMPT - 1 + step)}"
    outputs = run_calls(tester, tester.built.calls)
    assert len(outputs) == 2 * PROMPT + STEPS
    assert all(map(torch.equal, outputs[-PROMPT:], outputs[:PROMPT]))


@pytest.mark.nightly
def test_a_program_with_a_cache_off_by_one_generates_other_tokens() -> None:
    tester = lower_case("llama/decode", "mlx:fp32", make_faulty_recipe("mlx:fp32", writes_one_on))
    expected = [int(call[0]) for call in tester.built.calls[PROMPT : PROMPT + STEPS]]
    assert generate_tokens(tester, PROMPT) != expected
