"""Noise of large tensors, cut from a pool, has the size and the balance of other noise."""

from __future__ import annotations

import itertools

import pytest
import torch

from harness.model.precision import Precision
from harness.numerics.error_model import noise
from harness.numerics.oracle import compute_reference

COUNT = 2**17 + 5


def draw_runs(operations: int, size: torch.Tensor) -> list[torch.Tensor]:
    """Draw for each operation the noise of eight runs, (8, elements)."""
    pools: noise.NoisePools = {}
    found: list[list[torch.Tensor]] = [[] for _ in range(operations)]
    for sample in range(noise.BLOCK):
        drawn = noise.Noise(0, sample, pools)
        for operation in found:
            perturbed = torch.zeros_like(size)
            drawn.perturb(perturbed, size, 0.5)
            operation.append(perturbed)
    return [torch.stack(operation) for operation in found]


def test_signs_are_balanced_and_never_cancel() -> None:
    errors = draw_runs(noise.CYCLE, torch.ones(COUNT, dtype=torch.float64))
    signs = [found.sign().to(torch.int8) for found in errors]
    for one in signs:
        assert not one.sum(0).any()
    for one, other in itertools.combinations(signs, 2):
        assert int((one * other).sum(0).abs().max()) < 8, "two errors cancel in no element"
    for first in (0, 7):
        for one, other in itertools.combinations(signs[first : first + 7], 2):
            assert not (one * other).sum(0).any(), "two rows of a matrix agree in four of eight"


def test_small_and_large_tensors_get_the_same_signs() -> None:
    """In a cycle no two errors cancel; across two cycles they do in one element of 70."""
    drawn = [noise.Noise(0, sample) for sample in range(noise.BLOCK)]
    shape = torch.Size([64, 64])
    signs = [torch.stack([one.draw_signs(shape) for one in drawn]) for _ in range(2 * noise.CYCLE)]
    for one in signs:
        assert not one.sum(0).any()
    for one, other in itertools.combinations(signs[: noise.CYCLE], 2):
        assert int((one * other).sum(0).abs().max()) < 8
    across = [
        float(((one * other).sum(0) == -8).double().mean())
        for one in signs[: noise.CYCLE]
        for other in signs[noise.CYCLE :]
    ]
    assert sum(across) / len(across) == pytest.approx(1 / 70, rel=0.02)


def test_sizes_are_about_the_whole() -> None:
    (found,) = draw_runs(1, torch.ones(COUNT, dtype=torch.float64))
    assert 0.15 - 1e-4 <= float(found.abs().min()) <= float(found.abs().max()) <= 0.574
    assert float(found.square().mean().sqrt()) == pytest.approx(0.382, abs=1e-3)


@pytest.mark.parametrize("between", [0, 6, 13, 20, 41])
def test_two_roundings_never_cancel(between: int) -> None:
    """A quotient and a product, separated by other operators: every bound exceeds one rounding."""
    x = torch.rand(64, 64, generator=torch.Generator().manual_seed(0)) + 0.5
    y = torch.rand(64, 64, generator=torch.Generator().manual_seed(1)) + 0.5

    class Between(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            quotient = x / 3
            other = y
            for _ in range(between):
                other = other + y
            return quotient * y, other

    found = compute_reference(Between(), [(x, y)], Precision(), seed=1)
    share = found.bound[0][0] / (found.oracle[0][0].abs() * 2.0**-24)
    assert float(share.min()) > (2.5 if between < noise.CYCLE - 5 else 1.5)


def test_elements_err_independently() -> None:
    """Two balanced rows of signs agree in one element of 70, and are opposite in one of 70."""
    (found,) = draw_runs(1, torch.ones(COUNT, dtype=torch.float64))
    generator = torch.Generator().manual_seed(0)
    left, right = torch.randint(COUNT, (2, 200_000), generator=generator)
    agreement = (found[:, left].sign() * found[:, right].sign()).sum(0)
    same = 1 / 512 + 511 / 512 / 35  # an order in common, or a row
    for value, share in ((8, same / 2), (-8, same / 2), (0, 18 / 35 * 511 / 512)):
        assert float((agreement == value).double().mean()) == pytest.approx(share, rel=0.06)


LAYOUTS = {
    "plain": lambda x: x,
    "transposed": lambda x: x.T,
    "strided": lambda x: x[:, ::2],
    "expanded size": lambda x: x,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_element_is_disturbed_by_its_own_size(layout: str) -> None:
    size = torch.rand(700, 800, dtype=torch.float64) + 0.01
    tensor = LAYOUTS[layout](torch.zeros(700, 800, dtype=torch.float64))
    size = size[:, :1] if layout == "expanded size" else LAYOUTS[layout](size).contiguous()
    noise.Noise(0, 0).perturb(tensor, size, 0.1)
    share = (tensor / size).abs()
    assert 0.0299 < float(share.min()) <= float(share.max()) < 0.1149


def test_noise_is_relative_to_the_tensor_without_a_size() -> None:
    tensor = torch.randn(COUNT, dtype=torch.float64)
    copy = noise.Noise(0, 0).perturb_copy(tensor, 1e-3)
    share = (copy / tensor - 1).abs()
    assert 2.9e-4 <= float(share.min()) <= float(share.max()) <= 1.15e-3


def test_values_that_are_not_finite_have_no_neighbourhood() -> None:
    tensor = torch.ones(COUNT, dtype=torch.float64)
    tensor[7], tensor[-1] = torch.inf, torch.nan
    copy = noise.Noise(0, 0).perturb_copy(tensor, 1e-3)
    assert copy[7] == torch.inf
    assert bool(copy[-1].isnan())
    assert int(copy.isfinite().sum()) == COUNT - 2
    assert int((copy != 1).sum()) == COUNT


def test_signs_of_a_large_shape_are_signs() -> None:
    signs = noise.Noise(0, 3).draw_signs(torch.Size([512, 513]))
    assert signs.shape == (512, 513)
    assert bool((signs.abs() == 1).all())
    assert abs(float(signs.mean())) < 0.01
