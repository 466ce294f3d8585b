"""Weights and inputs depend on (run seed, case) only."""

from __future__ import annotations

import random

import numpy
import torch
from hypothesis import given, strategies as st

from harness import Case, Tester
from harness.model.seeding import case_seed, restore_generators, seed_generators_with
from harness.pytest_plugin.tests import sessions


def _noisy() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """Draws from all three generators."""
    scale = random.random() + float(numpy.random.rand())
    return torch.nn.Linear(4, 3), (torch.randn(2, 4) * scale,)


CASE = Case("noisy/linear", _noisy)
OTHER = Case("noisy/other", _noisy)


def fingerprint(case: Case, seed: int = 0) -> list[float]:
    built = case.make(seed)
    tensors = [*built.module.parameters(), *built.inputs]
    return [float(value) for tensor in tensors for value in tensor.flatten()]


def test_neither_order_nor_surroundings_matter() -> None:
    first = fingerprint(CASE)
    torch.manual_seed(99)
    random.seed(99)
    numpy.random.seed(99)
    fingerprint(OTHER)
    assert fingerprint(CASE) == first


def _seed_all(value: int) -> None:
    torch.manual_seed(value)
    random.seed(value)
    numpy.random.seed(value)


def _draw() -> tuple[float, float, float]:
    return torch.rand(1).item(), random.random(), float(numpy.random.rand())


def test_the_global_state_is_restored() -> None:
    _seed_all(5)
    expected = _draw()
    _seed_all(5)
    CASE.make(3)
    assert _draw() == expected


def test_successive_steps_are_seeded_each_and_restored_once() -> None:
    with seed_generators_with(1):
        first, second = _draw(), _draw()
    _seed_all(5)
    expected = _draw()
    _seed_all(5)
    with restore_generators():
        for _ in range(2):
            with seed_generators_with(1):
                assert _draw() == first
                with seed_generators_with(2):
                    _draw()
                assert _draw() == second, "a nested seed is restored at its end"
    assert _draw() == expected


def test_seed_and_name_matter() -> None:
    assert fingerprint(CASE, 0) != fingerprint(CASE, 1)
    assert fingerprint(CASE) != fingerprint(OTHER)


def test_another_process_sees_the_same() -> None:
    code = "from harness.pipeline.tests.test_seeds import *; print(fingerprint(CASE, 7))"
    output = sessions.script(code)
    assert output.stdout.strip() == str(fingerprint(CASE, 7))


def test_two_targets_see_the_same() -> None:
    testers = [Tester(CASE, target, seed=3) for target in ("portable:fp32", "xnnpack:fp32")]
    left, right = ([*t.built.module.parameters(), *t.built.inputs] for t in testers)
    assert all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


@given(st.integers(-(2**70), 2**70), st.text())
def test_the_seed_fits_every_generator(seed: int, name: str) -> None:
    assert 0 <= case_seed(seed, name) < 2**63
