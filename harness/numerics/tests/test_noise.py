"""Noise of large tensors is cut from a pool: as large as that of small ones, and as balanced."""

from __future__ import annotations

import itertools

import pytest
import torch

from harness.numerics.error_model import noise

COUNT = 2**18 + 5


def runs(operations: int, size: torch.Tensor) -> list[torch.Tensor]:
    """For each operation the noise of eight runs, (8, elements)."""
    patterns: noise.Patterns = {}
    found: list[list[torch.Tensor]] = [[] for _ in range(operations)]
    for sample in range(noise.BLOCK):
        drawn = noise.Noise(0, sample, patterns)
        for operation in found:
            disturbed = torch.zeros_like(size)
            drawn.disturb(disturbed, size, 0.5)
            operation.append(disturbed)
    return [torch.stack(operation) for operation in found]


def test_signs_are_balanced_and_never_cancel_in_a_chain() -> None:
    signs = [found.sign() for found in runs(7, torch.ones(COUNT, dtype=torch.float64))]
    for one in signs:
        assert not one.sum(0).any()
    for one, other in itertools.combinations(signs, 2):
        assert not (one * other).sum(0).any(), "two errors agree in four runs of eight"


def test_sizes_are_half_to_the_whole() -> None:
    (found,) = runs(1, torch.ones(COUNT, dtype=torch.float64))
    assert 0.25 <= float(found.abs().min()) <= float(found.abs().max()) <= 0.5
    assert float(found.abs().mean()) == pytest.approx(0.375, abs=1e-3)


def test_elements_err_independently() -> None:
    """Of two balanced rows of signs one in 70 is the same, and one the opposite."""
    (found,) = runs(1, torch.ones(COUNT, dtype=torch.float64))
    generator = torch.Generator().manual_seed(0)
    left, right = torch.randint(COUNT, (2, 200_000), generator=generator)
    agreement = (found[:, left].sign() * found[:, right].sign()).sum(0)
    for value, share in ((8, 1 / 70), (-8, 1 / 70), (0, 36 / 70)):
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
    noise.Noise(0, 0).disturb(tensor, size, 0.1)
    share = (tensor / size).abs()
    assert 0.0499 < float(share.min()) <= float(share.max()) < 0.1001


def test_noise_is_relative_to_the_tensor_without_a_size() -> None:
    tensor = torch.randn(COUNT, dtype=torch.float64)
    copy = noise.Noise(0, 0).disturbed(tensor, 1e-3)
    share = (copy / tensor - 1).abs()
    assert 4.9e-4 <= float(share.min()) <= float(share.max()) <= 1.01e-3


def test_what_is_not_finite_has_no_neighbourhood() -> None:
    tensor = torch.ones(COUNT, dtype=torch.float64)
    tensor[7], tensor[-1] = torch.inf, torch.nan
    copy = noise.Noise(0, 0).disturbed(tensor, 1e-3)
    assert copy[7] == torch.inf
    assert bool(copy[-1].isnan())
    assert int(copy.isfinite().sum()) == COUNT - 2
    assert int((copy != 1).sum()) == COUNT


def test_signs_of_a_large_shape_are_signs() -> None:
    signs = noise.Noise(0, 3).signs(torch.Size([512, 513]))
    assert signs.shape == (512, 513)
    assert bool((signs.abs() == 1).all())
    assert abs(float(signs.mean())) < 0.01
