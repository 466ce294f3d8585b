"""Each operator rounds to its own dtype, and modules see the dtypes of eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from harness.model.precision import RUNTIME_FLOAT32_SUMS, Precision
from harness.numerics.bounds import BoundEstimator
from harness.numerics.compare import compare
from harness.numerics.oracle import Reference, compute_reference
from harness.numerics.tests.test_bounds import Function

F = torch.nn.functional
HALVES = [torch.float16, torch.bfloat16]
RUNTIME = Precision(float32_sums=RUNTIME_FLOAT32_SUMS)


def reference(
    function: Callable[..., Any], *inputs: torch.Tensor, precision: Precision = RUNTIME
) -> Reference:
    module = function if isinstance(function, torch.nn.Module) else Function(function)
    return compute_reference(module, [inputs], precision, 0)


def relative_bound(found: Reference) -> float:
    """Return the bound of the first output relative to its values, in the root mean square."""
    bound, oracle = found.bound[0][0], found.oracle[0][0]
    assert bound is not None
    return float(bound.norm() / oracle.norm())


# Programs of several dtypes.

IN_FLOAT32: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "mean": lambda x: x.mean(-1, dtype=torch.float32),
    "sum": lambda x: x.sum(-1, dtype=torch.float32),
    "softmax": lambda x: x.softmax(-1, dtype=torch.float32),
    "cumsum": lambda x: x.cumsum(-1, dtype=torch.float32),
    "cast": lambda x: x.float() * 3 + 1,
    "promoted": lambda x: x * torch.full((9,), 3.0, dtype=torch.float32),
    "norm": lambda x: F.layer_norm(x.float(), (9,)),
    "variance": lambda x: x.to(torch.float32).var(-1),
    "product": lambda x: x.float() @ x.float().T,
    "attention": lambda x: F.scaled_dot_product_attention(*[x.float()[None]] * 3),
    "as a tensor": lambda x: x.to(torch.ones(1, dtype=torch.float32)) * 3,
    "as its type": lambda x: x.type_as(torch.ones(1, dtype=torch.float32)) * 3,
}


@pytest.mark.parametrize("name", IN_FLOAT32)
@pytest.mark.parametrize("dtype", HALVES)
def test_operators_that_compute_in_float32_have_its_unit_roundoff(
    name: str, dtype: torch.dtype
) -> None:
    x = torch.rand(5, 9, generator=torch.Generator().manual_seed(0)).add(1).to(dtype)
    found = reference(IN_FLOAT32[name], x)
    assert compare(found.eager, found).passed
    assert found.eager[0][0].dtype == torch.float32
    assert relative_bound(found) < 500 * 2.0**-24


IN_HALF: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "there and back": lambda x: (x.float() * 3).to(x.dtype),
    "softmax": lambda x: x.softmax(-1, dtype=torch.float32).to(x.dtype),
    "as its input": lambda x: x.float().exp().type_as(x),
    "a number without dimensions": lambda x: x * torch.tensor(0.3),
    "in place": lambda x: torch.zeros_like(x).add_(x.float() * 0.3),
    "copied": lambda x: torch.zeros_like(x).copy_(x.float() / 3),
}


@pytest.mark.parametrize("name", IN_HALF)
@pytest.mark.parametrize("dtype", HALVES)
def test_a_cast_to_a_coarser_dtype_rounds_once(name: str, dtype: torch.dtype) -> None:
    x = torch.rand(5, 9, generator=torch.Generator().manual_seed(0)).add(1).to(dtype)
    found = reference(IN_HALF[name], x)
    assert compare(found.eager, found).passed
    unit = torch.finfo(dtype).eps / 2
    assert unit < relative_bound(found) < 9 * unit


@pytest.mark.parametrize("dtype", HALVES)
def test_a_cast_to_a_coarser_dtype_and_back_rounds(dtype: torch.dtype) -> None:
    x = torch.rand(5, 9) + 1
    unit = torch.finfo(dtype).eps / 2
    assert relative_bound(reference(lambda x: x.to(dtype).float() * 2, x)) > unit


@pytest.mark.parametrize("dtype", HALVES)
def test_a_value_that_overflows_float16_does_not_overflow_float32(dtype: torch.dtype) -> None:
    x = torch.full((4,), 200.0, dtype=dtype)
    found = reference(lambda x: (x.float() * x.float()).hypot(x.float()), x)
    assert compare(found.eager, found).passed
    assert bool(found.bound[0][0].isfinite().all())  # type: ignore[union-attr]
    assert not found.alternatives[0][0]


# Sums of 16 bits.


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("offset", [0, 300])
def test_a_mean_of_the_runtime_that_is_off_by_two_percent_is_red(
    dtype: torch.dtype, offset: float
) -> None:
    x = (torch.rand(8, 1000, generator=torch.Generator().manual_seed(0)) + offset).to(dtype)
    found = reference(lambda x: x.mean(-1), x)
    assert compare(found.eager, found).passed
    off = (found.oracle[0][0] * 1.02).to(dtype)
    assert not compare([[off]], found).passed


def test_a_sum_uses_the_safety_factor_once() -> None:
    """6√K·u·Σ|x| is the bound of a sum, and a third of it its amplitude."""
    x = torch.randn(64, 4096, generator=torch.Generator().manual_seed(0))
    found = reference(lambda x: x.sum(-1), x)
    bound = found.bound[0][0]
    assert bound is not None
    probabilistic = 6 * 4096**0.5 * 2.0**-24 * x.double().abs().sum(-1)
    assert float((bound / probabilistic).mean()) == pytest.approx(1, abs=0.15)


# Dtypes that modules see.


def _asks(x: torch.Tensor) -> torch.Tensor:
    """Ask for dtypes as transformers' norms and masks do."""
    lowest = torch.finfo(x.dtype).min
    masked = torch.where(x > 1.5, torch.tensor(lowest, dtype=x.dtype), x)
    if x.dtype != torch.bfloat16:
        masked = masked.clamp(min=lowest / 2)
    kind = torch.result_type(x, torch.ones(3, dtype=torch.float32))
    return masked.to(kind).softmax(-1).to(x.dtype)


@pytest.mark.parametrize("dtype", [*HALVES, torch.float32, torch.float64])
def test_a_module_that_asks_for_dtypes_takes_the_way_of_eager(dtype: torch.dtype) -> None:
    x = torch.linspace(0, 2, 12).reshape(3, 4).to(dtype)
    found = reference(_asks, x)
    assert compare(found.eager, found).passed
    # A quotient of float32's least normal number is flushed or not; 1 of 12 elements is enough.
    assert float(found.bound[0][0].max()) < 40 * torch.finfo(dtype).eps  # type: ignore[union-attr]


class _Bias(torch.nn.Module):
    """A convolution whose bias is a plain attribute; conv1d compares the dtypes of its operands."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = torch.nn.Parameter(torch.randn(4, 3, 3)), torch.randn(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv1d(x, self.weight, self.bias)


def test_a_plain_attribute_is_widened_before_dtypes_are_compared() -> None:
    x = torch.randn(1, 3, 8)
    found = reference(_Bias(), x)
    assert compare(found.eager, found).passed
    assert float(found.bound[0][0].max()) < 1e-4  # type: ignore[union-attr]


def test_a_float64_program_keeps_digits_beyond_float32() -> None:
    x = torch.rand(5, 9)
    found = reference(lambda x: (x.double() / 3).exp(), x)
    assert compare(found.eager, found).passed
    assert relative_bound(found) < 100 * 2.0**-53


def test_branches_see_the_dtypes_of_eager() -> None:
    def choose(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(  # type: ignore[no-any-return]
            x.sum() > 0, lambda x: (x.float() / 3).to(x.dtype), lambda x: x.clone(), (x,)
        )

    found = reference(choose, torch.rand(5, 9).add(1).bfloat16())
    assert compare(found.eager, found).passed
    assert 2.0**-9 < relative_bound(found) < 9 * 2.0**-9


# No evidence.


@pytest.mark.parametrize(("finite", "has_bound"), [(0, False), (1, False), (2, True), (8, True)])
def test_an_element_with_few_finite_runs_has_no_bound(finite: int, has_bound: bool) -> None:
    """Without the threshold, such an element got the tightest bound."""
    truth = torch.tensor([1.0, 2.0], dtype=torch.float64)
    estimator = BoundEstimator(truth, torch.bfloat16)
    for number in range(8):
        run = truth * (1 + 0.01 * (-1) ** number)
        run[0] = run[0] if number < finite else float("nan")
        estimator.add(run)
    bound = estimator.compute_bound(Precision())
    assert bool(bound[0].isfinite()) == has_bound
    assert bound[0] > 0.01
    assert float(bound[1]) == pytest.approx(0.08, rel=0.1)


NORMS: dict[str, Callable[[], torch.nn.Module]] = {
    "layer": lambda: torch.nn.LayerNorm(40),
    "group": lambda: torch.nn.GroupNorm(4, 32),
    "one group": lambda: torch.nn.GroupNorm(1, 32),
    "instance": lambda: torch.nn.InstanceNorm1d(32, affine=True),
    "batch": lambda: torch.nn.BatchNorm1d(32),
    "rms": lambda: torch.nn.RMSNorm(40),
    "local response": lambda: torch.nn.LocalResponseNorm(5),
    "normalize": lambda: Function(lambda x: F.normalize(x, dim=-1)),
    "weight": lambda: Function(lambda x: x / x.norm(dim=1, keepdim=True)),
}


@pytest.mark.one_of(6)
@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("dtype", [*HALVES, torch.float32])
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_the_bound_of_a_norm_hardly_depends_on_the_seed(
    name: str, dtype: torch.dtype, scale: float
) -> None:
    """The seed follows from the case's name."""
    x = torch.randn(2, 32, 40, generator=torch.Generator().manual_seed(0)).mul(scale).to(dtype)
    module = NORMS[name]().to(dtype).eval()
    sizes = []
    for seed in range(6):
        bound = compute_reference(module, [(x,)], Precision(), seed).bound[0][0]
        assert bound is not None
        sizes.append([float(bound.median()), float(bound.norm())])
    for size in zip(*sizes, strict=True):
        assert max(size) < 2 * min(size), size
