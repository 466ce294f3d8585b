"""Bounds of targets that compute a float32 program in a narrower dtype."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from harness.model.precision import Precision
from harness.numerics.compare import compare
from harness.numerics.oracle import Reference, compute_reference
from harness.numerics.tests.test_bounds import Function

NARROW = ["float16", "bfloat16"]

Program = Callable[..., torch.Tensor]

WEIGHT = torch.randn(12, 16, generator=torch.Generator().manual_seed(3))

PROGRAMS: dict[str, Program] = {
    "add": lambda x: x + 0.1,
    "linear": lambda x: F.linear(x, WEIGHT.to(x.dtype)),
    "norm": lambda x: F.layer_norm(x, (16,)),
    "softmax": lambda x: (x * 3).softmax(-1),
    "network": lambda x: F.linear(F.gelu(F.linear(x, WEIGHT.to(x.dtype))), WEIGHT.T.to(x.dtype)),
    "constant": lambda x: x * torch.full((16,), 0.7, dtype=x.dtype),
    "moved": lambda x: x.reshape(16, -1).flip(0),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
}


def draw(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def reference(program: Program, *inputs: torch.Tensor, arithmetic: str | None) -> Reference:
    precision = Precision(arithmetic=arithmetic)
    return compute_reference(Function(program), [inputs], precision, 0)


def compute_narrow(program: Program, *inputs: torch.Tensor, arithmetic: str) -> torch.Tensor:
    """Compute a program as a target with narrower arithmetic does; float32."""
    dtype = getattr(torch, arithmetic)
    return program(*(x.to(dtype) for x in inputs)).float()


@pytest.mark.parametrize("arithmetic", NARROW)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.one_of(3)
def test_a_target_with_narrower_arithmetic_is_within_its_bound(name: str, arithmetic: str) -> None:
    for seed in range(4):
        x = draw(seed, 8, 16)
        result = compute_narrow(PROGRAMS[name], x, arithmetic=arithmetic)
        found = compare([[result]], reference(PROGRAMS[name], x, arithmetic=arithmetic))
        assert found.problem is None
        # Neither float32's bound nor one that allows anything.
        exact = reference(PROGRAMS[name], x, arithmetic=None)
        assert compare([[result]], exact).problem is not None
        assert found.numerics[0].bound_used > 0.02


@pytest.mark.parametrize("arithmetic", NARROW)
def test_an_error_of_a_few_roundings_of_the_arithmetic_is_found(arithmetic: str) -> None:
    unit = torch.finfo(getattr(torch, arithmetic)).eps / 2
    x = draw(0, 8, 16)
    found = reference(PROGRAMS["linear"], x, arithmetic=arithmetic)
    off = compute_narrow(PROGRAMS["linear"], x, arithmetic=arithmetic) * (1 + 64 * unit)
    assert compare([[off]], found).problem is not None


def test_what_the_arithmetic_represents_exactly_is_not_perturbed() -> None:
    x = torch.tensor([0.5, -3.0, 0.0, float("inf"), 2048.0])
    found = reference(lambda x: (x > 0.25).float() + x, x, arithmetic="float16")
    mixed = reference(lambda x: x > 0.1, torch.tensor([0.5, 0.10001]), arithmetic="float16")
    exact = reference(lambda x: x.flip(0), x, arithmetic="float16")
    bound = exact.bound[0][0]
    assert bound is not None
    # The last rounding and the flush of subnormal numbers only.
    limit = x.flip(0).abs().nan_to_num(posinf=0.0) * 2.0**-11 + torch.finfo(torch.float16).tiny
    assert (bound <= limit + 1e-12).all()
    assert found.bound[0][0] is not None
    assert mixed.alternatives[0][0] is not None, "0.10001 and 0.1 are one number in float16"


def test_results_beyond_its_range_have_no_finite_bound() -> None:
    x = torch.tensor([40000.0, 20000.0, 1.0])
    found = reference(lambda x: x * 3, x, arithmetic="float16")
    bound = found.bound[0][0]
    assert bound is not None
    assert bound.isinf().tolist() == [True, False, False]
    infinite = torch.tensor([float("inf"), 60000.0, 3.0])
    assert compare([[infinite]], found).problem is None
    assert compare([[torch.tensor([120000.0, float("inf"), 3.0])]], found).problem is not None
    # bfloat16 has the range of float32.
    wide = reference(lambda x: x * 3, x, arithmetic="bfloat16").bound[0][0]
    assert wide is not None
    assert wide.isfinite().all()


def test_inputs_beyond_its_range_are_infinite() -> None:
    found = reference(lambda x: x * 0.5, torch.tensor([1e5, 2.0]), arithmetic="float16")
    bound = found.bound[0][0]
    assert bound is not None
    assert bound.isinf().tolist() == [True, False]


def test_a_program_of_a_coarser_dtype_keeps_it() -> None:
    x = draw(0, 8, 16).bfloat16()
    found, plain = (
        reference(PROGRAMS["linear"], x, arithmetic=each).bound[0][0] for each in ("float16", None)
    )
    assert found is not None
    assert plain is not None
    assert torch.equal(found, plain)


def test_tied_parameters_stay_tied() -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Linear(6, 6, bias=False)
            self.second = self.first

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.first(x) - self.second(x)

    torch.manual_seed(0)
    found = compute_reference(Tied(), [(draw(0, 3, 6),)], Precision(arithmetic="float16"), 0)
    bound = found.bound[0][0]
    assert bound is not None
    # Two products with one weight, each rounded once or as often as it has terms: no error of the
    # weight itself, which is 20 times as large in the sum of its signs.
    assert float(bound.max()) < 64 * 2.0**-11
