"""Runs share state and inputs, each starts from the originals, and random draws are detected."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch

from harness.errors import NotDeterministic
from harness.model.precision import Precision
from harness.numerics import determinism, oracle, unperturbed
from harness.numerics.compare import compare
from harness.numerics.oracle import compute_reference


class Stateful(torch.nn.Module):
    """Writes to state and inputs with a given function."""

    def __init__(self, write: Callable[..., object]) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(5))
        self.count = torch.nn.Buffer(torch.zeros(5))
        self.write = write

    def forward(self, items: list[torch.Tensor]) -> object:
        return self.write(self, items)


def buffer(module: Stateful, items: list[torch.Tensor]) -> torch.Tensor:
    module.count.add_(items[0] * module.weight)
    return module.count * 1.5


def assigned(module: Stateful, items: list[torch.Tensor]) -> torch.Tensor:
    module.count = module.count + items[0] * module.weight
    return module.count * 1.5


def data(module: Stateful, items: list[torch.Tensor]) -> torch.Tensor:
    module.count.data += items[0]
    return module.count * 1.5


def through_view(module: Stateful, items: list[torch.Tensor]) -> torch.Tensor:
    module.count[1:3].mul_(0.0).add_(items[0][:2])
    return module.count + items[0]


def given(module: Stateful, items: list[torch.Tensor]) -> torch.Tensor:
    items[0].mul_(3.0)
    return items[0] + module.weight


def container(module: Stateful, items: list[torch.Tensor]) -> torch.Tensor:
    items.append(items.pop(0) * 2.0)
    return items[0] + module.weight


def resized(module: Stateful, items: list[torch.Tensor]) -> torch.Tensor:
    return items[0].unsqueeze_(0) + module.weight


def out(module: Stateful, items: list[torch.Tensor]) -> torch.Tensor:
    torch.mul(items[0], module.weight, out=module.count)
    return module.count.exp()


def itself(module: Stateful, items: list[torch.Tensor]) -> list[torch.Tensor]:
    module.count += 1.0
    return [module.count, module.weight, items[0], items[0][1:]]


WRITES = [buffer, assigned, data, through_view, given, container, resized, out, itself]


@pytest.mark.parametrize("write", WRITES)
def test_each_run_gets_the_given_inputs(write: Callable[..., object]) -> None:
    """Eager conforms to the bound of its own rounding: no run changes the next one's inputs."""
    module, inputs = Stateful(write), [torch.randn(5)]
    before = [tensor.clone() for tensor in (module.weight.detach(), module.count, *inputs)]
    calls = [(list(inputs),)] * 2
    found = compute_reference(module, calls, Precision(), 0)
    assert compare(found.eager, found).passed
    for bound in (item for call in found.bound for item in call):
        assert bound is not None
        assert float(bound.max()) < 1e-4
    after = [module.weight.detach(), module.count, *inputs]
    assert all(map(torch.equal, before, after))


def dropout(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.dropout(x, 0.5)


def tiny_dropout(x: torch.Tensor) -> torch.Tensor:
    return x + torch.rand_like(x) * 1e-6


def pythons(x: torch.Tensor) -> torch.Tensor:
    return x * random.random()


def counted() -> Callable[[torch.Tensor], torch.Tensor]:
    calls = iter(range(1000))
    return lambda x: x + next(calls)


class Function(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("function", [dropout, tiny_dropout, pythons, counted()])
def test_a_case_that_is_not_deterministic_is_refused(
    function: Callable[[torch.Tensor], torch.Tensor], large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unperturbed, "LARGE", 0 if large else 2**40)
    with pytest.raises(NotDeterministic):
        compute_reference(Function(function), [(torch.randn(9),)], Precision(), 0)


@pytest.mark.parametrize("large", [False, True])
def test_a_sum_in_another_order_is_deterministic(
    large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As kernels do that look at the alignment of memory: float32 differs, float64 does not."""
    monkeypatch.setattr(unperturbed, "LARGE", 0 if large else 2**40)
    calls = iter(range(1000))

    def add(x: torch.Tensor) -> torch.Tensor:
        return (x - 1000) + 1000 if next(calls) % 2 else x + 0

    x = torch.rand(9)
    assert not torch.equal(add(x), add(x))
    compute_reference(Function(add), [(x,)], Precision(), 0)


def test_integers_that_differ_are_not_deterministic(monkeypatch: pytest.MonkeyPatch) -> None:
    """The truth of an integer is eager's, so float64 does not decide."""
    monkeypatch.setattr(unperturbed, "LARGE", 0)
    calls = iter(range(1000))
    with pytest.raises(NotDeterministic):
        compute_reference(
            Function(lambda x: (x * 1e7 + next(calls) % 2).int()),
            [(torch.rand(9) * 0,)],
            Precision(),
            0,
        )


def test_random_draws_without_effect_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs are the same, but random draws are detected, even for a large module."""
    seeds: list[int] = []
    run = unperturbed.run_calls_in_float64

    def record(*args: object, **kwargs: object) -> object:
        seeds.append(args[3])  # type: ignore[arg-type]
        return run(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(unperturbed, "LARGE", 0)
    for module in (unperturbed, oracle):
        monkeypatch.setattr(module, "run_calls_in_float64", record)
    compute_reference(
        Function(lambda x: x + 0 * torch.rand(1)), [(torch.randn(9),)], Precision(), 0
    )
    assert seeds == [0, 1, *[0] * 8]
    seeds.clear()
    compute_reference(Function(torch.sin), [(torch.randn(9),)], Precision(), 0)
    assert seeds == [0] * 9


def test_attention_that_drops_nothing_does_not_draw() -> None:
    query = torch.randn(1, 2, 4, 8)
    attend = torch.nn.functional.scaled_dot_product_attention
    with determinism.RandomDraws() as quiet:
        attend(query, query, query)
    assert not quiet.has_drawn
    with determinism.RandomDraws() as drawing:
        attend(query, query, query, dropout_p=0.5)
    assert drawing.operators
    with determinism.RandomDraws() as own:
        torch.rand(3, generator=torch.Generator())
    assert own.operators


def test_generators_that_are_drawn_from_are_noticed() -> None:
    with determinism.RandomDraws() as quiet:
        torch.ones(3).sin()
    assert not quiet.has_drawn
    with determinism.RandomDraws() as drawing:
        random.random()
    assert drawing.has_drawn
    assert not drawing.operators
