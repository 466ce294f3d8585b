"""Keeping torch's results changes no program."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator

import torch
from torchao.quantization.pt2e import observer

from harness.speed import install, search_range

CODE = """
import hashlib, sys, torch
from harness import Case, Tester, speed
import harness.tester
if sys.argv[1] == "without":
    harness.tester.speed = type("Off", (), {"install": staticmethod(lambda: None)})

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.norm = torch.nn.LayerNorm(6)
    def forward(self, x):
        return torch.nn.functional.gelu(self.norm(self.conv(x))).softmax(-1)

case = Case("net/small", lambda: (Net(), (torch.randn(1, 3, 8, 8),)))
for target in ("portable:fp32", "xnnpack:fp32", "tosa:fp", "tosa:int") * 2:
    tester = Tester(case, target).export()
    if tester.recipe.quantizer is not None:
        tester.quantize()
    program = tester.lower().to_executorch().serialize().program
    print("PROGRAM", target, hashlib.sha256(program).hexdigest())
"""


def programs(mode: str) -> list[str]:
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CODE, mode],
        capture_output=True,
        text=True,
        check=True,
    )
    return [line for line in result.stdout.splitlines() if line.startswith("PROGRAM")]


def test_programs_are_the_same_byte_for_byte() -> None:
    kept = programs("with")
    assert len(kept) == 8
    assert kept[:4] == kept[4:], "the second lowering uses what the first one kept"
    assert kept == programs("without")


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
