"""The quicker search for a range finds what upstream's finds."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest
import torch
from torchao.quantization.pt2e import observer

from harness.pipeline.speed import install
from harness.pipeline.speed.calibration import search_range


def histograms() -> Iterator[torch.Tensor]:
    """Dense, sparse, skewed and empty ones, and some that put ties on the search's own steps."""
    for power in range(0, 30, 3):
        yield torch.rand(2048) ** power * 10.0 ** (power % 9 - 4)
    for filled in (1, 2, 5, 30, 300):
        sparse = torch.zeros(2048)
        sparse[torch.randint(0, 2048, (filled,))] = torch.randint(1, 9, (filled,)).float()
        yield sparse
    for outlier in (0, 2047):
        normal = torch.histc(torch.randn(3000), 2048, -400, 400)
        normal[outlier] += 1
        yield normal
    steps = torch.full((2048,), 1e-5, dtype=torch.float64).cumsum(0) * 1e5
    ties = torch.diff(steps, prepend=torch.zeros(1, dtype=torch.float64)).float()
    ties[-1] = 1e5 - 2047
    yield from (ties, ties.flip(0))
    yield from (torch.zeros(2048), torch.ones(2048), torch.eye(2048)[0], torch.rand(1))
    yield torch.rand(2048, dtype=torch.float64)


@pytest.mark.nightly
def test_the_range_of_a_histogram_is_upstreams_bit_for_bit() -> None:
    # A copy of the module: the one that is loaded has our search.
    spec = importlib.util.spec_from_file_location("upstream", observer.__file__)
    assert spec is not None
    assert spec.loader is not None
    upstream = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(upstream)
    torch.manual_seed(0)
    for histogram in histograms():
        one = upstream.HistogramObserver(bins=len(histogram), dtype=torch.int8)
        one.histogram = histogram
        one.min_val, one.max_val = torch.tensor(-1.3), torch.tensor(2.7)
        assert search_range(one) == one._non_linear_param_search()


def test_calibration_uses_our_search() -> None:
    install()
    assert observer.HistogramObserver._non_linear_param_search is search_range
