"""Errors in quantization steps: the metric of a record, and scales chosen at run time."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators

from harness.model.precision import Precision
from harness.numerics.compare import compare
from harness.numerics.formats.quantization_steps import output_steps
from harness.numerics.oracle import compute_reference

_Q = torch.ops.quantized_decomposed
_INT8 = (-128, 127, torch.int8)


class Static(torch.nn.Module):
    """Returns an output in codes of one scale, one without codes, and codes."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        codes = _Q.quantize_per_tensor.default(x, 0.25, 3, *_INT8)
        return _Q.dequantize_per_tensor.default(codes, 0.25, 3, *_INT8), x * 2, codes


class Dynamic(torch.nn.Module):
    """Multiplies an activation whose scale is chosen at run time."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale, zero = _Q.choose_qparams.tensor(x, -128, 127, 2**-12, torch.int8)
        codes = _Q.quantize_per_tensor.tensor(x, scale, zero, *_INT8)
        return _Q.dequantize_per_tensor.tensor(codes, scale, zero, *_INT8) @ self.weight  # type: ignore[no-any-return]


def rowwise(x: torch.Tensor) -> torch.Tensor:
    """Encode each row with its own scale and decode it again."""
    low, high = x.amin(1, keepdim=True).clamp_max(0), x.amax(1, keepdim=True).clamp_min(0)
    scale = (high - low) / 255
    zero = (-128 - low / scale).round()
    return ((x / scale + zero).round().clamp(-128, 127) - zero) * scale


def test_steps_are_those_of_the_last_encoding_of_the_output() -> None:
    graph = torch.fx.symbolic_trace(Static())
    assert output_steps(graph) == [0.25, None, None]


class Chain(torch.nn.Module):
    """Requantizes twice with the same step, so that the errors cancel or add up."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            codes = _Q.quantize_per_tensor.default(x * 1.0, 0.25, 0, *_INT8)
            x = _Q.dequantize_per_tensor.default(codes, 0.25, 0, *_INT8)
        return x


def test_the_last_requantization_may_always_err() -> None:
    """Over 2000 elements, the errors of the two requantizations never cancel in all runs."""
    graph = torch.fx.symbolic_trace(Chain())
    x = torch.arange(-1000, 1000) % 100 * 0.25
    reference = compute_reference(graph, [(x,)], Precision(safety=2.0), seed=0)
    assert float(reference.bound[0][0].min()) >= 2 * 0.25
    alone = compute_reference(Chain(), [(x,)], Precision(safety=2.0), seed=0)
    assert float(alone.bound[0][0].min()) > 2 * 0.25, "without the step of the output"


def test_the_record_counts_the_largest_error_in_steps() -> None:
    graph = torch.fx.symbolic_trace(Static())
    x = torch.tensor([0.0, 1.0, -2.0])
    reference = compute_reference(graph, [(x,)], Precision(), seed=0)
    outputs = [output.clone() for output in reference.eager[0]]
    outputs[0][1] -= 0.75
    verdict = compare([outputs], reference)
    assert [item.max_steps for item in verdict.numerics] == [3.0, None, None]
    assert not verdict.passed
    unknown = compare([outputs], replace(reference, steps=()))
    assert [item.max_steps for item in unknown.numerics] == [None] * 3


@pytest.mark.parametrize("rows", [1, 2, 7])
@pytest.mark.parametrize("columns", [1, 3, 64])
def test_a_scale_for_each_row_conforms_to_one_for_the_tensor(rows: int, columns: int) -> None:
    """The ranges of the rows differ by a factor of 100."""
    for seed in range(6):
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(rows, columns, generator=generator)
        x *= torch.logspace(-2, 0, rows).unsqueeze(1)
        weight = torch.randn(columns, 5, generator=generator)
        reference = compute_reference(Dynamic(weight), [(x,)], Precision(samples=16), seed)
        verdict = compare([[rowwise(x) @ weight]], reference)
        assert verdict.passed, (seed, verdict.problem)


def test_errors_of_few_terms_do_not_cancel_in_all_runs() -> None:
    """64,000 sums of eight terms, as in a transposed convolution with stride."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 8, generator=generator)
    weight = torch.randn(8, 1000, generator=generator)
    reference = compute_reference(Dynamic(weight), [(x,)], Precision(samples=16), seed=0)
    verdict = compare([[rowwise(x) @ weight]], reference)
    assert verdict.passed, verdict.problem
    # A step of either sign for each term, times the safety of 4.
    expected = 4 * float(x.max() - x.min()) / 255 * weight.double().square().sum(0).sqrt()
    assert float((reference.bound[0][0] / expected).min()) > 0.3
    assert float((reference.bound[0][0] / expected).max()) < 2.0


def test_a_dynamic_bound_is_a_few_steps_of_the_activation() -> None:
    x, weight = torch.rand(4, 64), torch.ones(64, 3)
    reference = compute_reference(Dynamic(weight), [(x,)], Precision(samples=16), seed=0)
    step = float(x.max()) / 255
    # A step of either sign for each of 64 products, times the safety of 4.
    expected = 4 * step * 64**0.5
    bound = reference.bound[0][0]
    assert expected / 3 < float(bound.min())
    assert float(bound.max()) < 3 * expected
    wrong = reference.eager[0][0] * 1.05
    assert not compare([[wrong]], reference).passed
