"""Correct outputs conform to their bound, eager's above all; slightly wrong ones do not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from harness.model.precision import Precision
from harness.numerics.compare import Verdict, compare
from harness.numerics.oracle import Reference, compute_reference

F = torch.nn.functional


class Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def reference(function: Callable[..., Any], *inputs: torch.Tensor, seed: int = 0) -> Reference:
    return compute_reference(Function(function), [inputs], Precision(), seed)


def eager(function: Callable[..., Any], *inputs: torch.Tensor, seed: int = 0) -> Verdict:
    result = reference(function, *inputs, seed=seed)
    return compare(result.eager, result)


def judge(result: Reference, *outputs: torch.Tensor) -> bool:
    return compare([list(outputs)], result).passed


# Sums of products.


def test_the_distance_of_equal_points_is_bounded_by_the_cancellation_of_squares() -> None:
    """cdist of many points is the root of a matrix product: 0 becomes the root of noise."""
    points = torch.full((30, 20), 1e-6)
    result = reference(torch.cdist, points, points[:28])
    assert compare(result.eager, result).passed
    assert not bool(result.oracle[0][0].any())
    assert judge(result, torch.full((30, 28), 1e-9))
    assert not judge(result, torch.full((30, 28), 1e-7))


SCALED: dict[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "addmm": lambda b, x, y: torch.addmm(b, x, y, alpha=-1),
    "addmm_": lambda b, x, y: b.clone().addmm_(x, y, alpha=-1),
    "addmm beta": lambda b, x, y: torch.addmm(b, x, y, beta=-1),
    "addmv": lambda b, x, y: torch.addmv(b[:, 0], x, y[:, 0], alpha=-1),
    "addmv_": lambda b, x, y: b[:, 0].clone().addmv_(x, y[:, 0], alpha=-1),
    "baddbmm": lambda b, x, y: torch.baddbmm(b[None], x[None], y[None], alpha=-1),
    "baddbmm_": lambda b, x, y: b[None].clone().baddbmm_(x[None], y[None], alpha=-1),
    "addbmm": lambda b, x, y: torch.addbmm(
        2 * b, x.expand(2, -1, -1), y.expand(2, -1, -1), alpha=-1
    ),
    "addbmm_": lambda b, x, y: (2 * b).addbmm_(
        x.expand(2, -1, -1), y.expand(2, -1, -1), alpha=-1
    ),
    "index_add": lambda b, x, y: x.index_add(0, torch.zeros(8, dtype=torch.int64), x, alpha=-1),
}  # fmt: skip


@pytest.mark.parametrize("name", SCALED)
def test_a_negative_scalar_does_not_cancel_a_bound(name: str) -> None:
    x, y = torch.rand(8, 64) * 100, torch.rand(64, 8) * 100
    found = reference(SCALED[name], x.double().mm(y.double()).float(), x, y)
    verdict = compare(found.eager, found)
    assert verdict.passed, verdict.problem
    # The bound is not just wide: these are sums of 64 terms of up to 10^4.
    assert float(found.bound[0][0].max()) < 100


ELEMENTWISE: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "addr": lambda x, y: torch.addr(torch.outer(x, y), x, y, alpha=-1),
    "addr_": lambda x, y: torch.outer(x, y).addr_(x, y, alpha=-1),
    "lerp": lambda x, y: torch.lerp(x, y, -2.7),
    "lerp_": lambda x, y: x.clone().lerp_(y, -2.7),
    "addcmul": lambda x, y: torch.addcmul(x * y, x, y, value=-1),
    "addcmul_": lambda x, y: (x * y).addcmul_(x, y, value=-1),
    "addcdiv": lambda x, y: torch.addcdiv(x / y, x, y, value=-1),
    "addcdiv_": lambda x, y: (x / y).addcdiv_(x, y, value=-1),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_cancelling_terms_of_a_compound_operation_conform(name: str) -> None:
    verdict = eager(ELEMENTWISE[name], torch.rand(500) * 100 + 1, torch.rand(500) * 100 + 1)
    assert verdict.passed, verdict.problem


def test_equal_terms_are_not_independent() -> None:
    """Summed one after the other, they round the same way every time."""
    terms = torch.full((1, 2**16), 0.1)
    in_order = torch.tensor(0.0)
    for chunk in terms.flatten().split(1):
        in_order = in_order + chunk[0]
    assert judge(reference(lambda x: x.sum(1), terms), in_order.reshape(1))
    ones = torch.ones(2**16, 1)
    assert judge(reference(torch.mm, terms, ones), in_order.reshape(1, 1))


def test_other_terms_are_independent() -> None:
    terms = torch.rand(1, 2**16)
    wide = float(reference(lambda x: x.sum(1), torch.full_like(terms, 0.1)).bound[0][0])
    assert float(reference(lambda x: x.sum(1), terms).bound[0][0]) < wide / 5
    zeros = torch.cat([terms, torch.zeros_like(terms)], 1)
    assert float(reference(lambda x: x.sum(1), zeros).bound[0][0]) < wide / 5


def test_terms_that_sum_exactly_do_not_err() -> None:
    for scale in (1.0, 0.25, 3.0):
        ones = torch.full((1, 2**16), scale)
        found = reference(lambda x: x.sum(1), ones)
        assert float(found.bound[0][0][0]) < 2e-3 * 2**16 * scale
        found = reference(torch.mm, ones, ones.T)
        assert float(found.bound[0][0][0, 0]) < 2e-3 * 2**16 * scale**2
    halves = reference(lambda x: x.sum(1), torch.ones(1, 2**14).half())
    assert judge(halves, torch.tensor([2048.0]).half()), "a sum in float16 stops there"


def test_the_first_of_a_running_sum_is_a_copy() -> None:
    x = torch.rand(1000)
    bound = reference(lambda x: x.cumsum(0), x).bound[0][0] / x.cumsum(0)
    assert float(bound[0]) <= 2**-24 * 1.01
    assert float(bound[1]) < 5 * 2**-24
    assert float(bound[-1]) > 100 * 2**-24


@pytest.mark.parametrize(
    "transform",
    [
        lambda x: torch.view_as_real(torch.fft.rfft2(x)),
        lambda x: torch.view_as_real(torch.fft.fft(x, norm="ortho")),
        lambda x: torch.fft.irfft(torch.complex(x, x.flip(0)), norm="forward"),
    ],
)
def test_a_fourier_transform_is_a_sum(transform: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.randn(16, 32) + 100
    found = reference(transform, x)
    assert compare(found.eager, found).passed
    assert float(found.bound[0][0].min()) > 1e-6, "small outputs are sums of large terms"
    wrong = found.eager[0][0].clone()
    wrong[3] += 0.5
    assert not judge(found, wrong)


# Ends of a domain and of a range.


@pytest.mark.parametrize(
    ("function", "edges"),
    [
        (torch.asin, [-1.0, 1.0, 1 - 2**-24]),
        (torch.acos, [-1.0, 1.0, 1 - 2**-24]),
        (torch.acosh, [1.0, 1 + 2**-23]),
        (torch.atanh, [1 - 2**-24, -1 + 2**-24, 1.0]),
        (torch.log, [0.0, 1.0, 2.0**-149]),
        (torch.log1p, [-1.0, -1 + 2**-24]),
        (torch.sqrt, [0.0, 2.0**-149]),
        (torch.erfinv, [1.0, -1 + 2**-24]),
        (lambda x: torch.asin(x * 1.0), [-1.0, 1.0]),
        (lambda x: torch.sqrt(1 - x * x), [1.0, -1.0]),
        (lambda x: torch.acos(x / x.abs()).sum(), [-3.0, 7.0, 0.1]),
        (lambda x: (x * 1.0) ** 0.5, [0.0, 4.0]),
    ],
)
def test_noise_stays_inside_a_domain(
    function: Callable[[torch.Tensor], torch.Tensor], edges: list[float]
) -> None:
    found = reference(function, torch.tensor(edges))
    verdict = compare(found.eager, found)
    assert verdict.passed, verdict.problem
    truth, bound = found.oracle[0][0], found.bound[0][0]
    assert bool((bound >= truth.abs().nan_to_num(posinf=0, neginf=0) * 2**-24).all())
    assert not judge(found, torch.where(truth.isfinite(), 2 * truth + 1, truth).float())


def test_an_intermediate_may_leave_the_range_of_the_dtype() -> None:
    """``exp(89)`` overflows in float32, so that ``x / (1 + exp(-x))`` is zero."""
    x = torch.tensor([-89.0, -80.0, -1.0, 5.0])
    found = reference(F.silu, x)
    naive = x / (1 + torch.exp(-x))
    assert float(naive[0]) == 0
    assert judge(found, naive)
    for element in (1, 2, 3):
        wrong = naive.clone()
        wrong[element] = 0
        assert not judge(found, wrong), "elsewhere a zero is an error"
    assert not judge(found, naive.index_fill(0, torch.tensor([0]), -1e-30))


@pytest.mark.parametrize(
    ("function", "naive"),
    [
        (F.mish, lambda x: x * torch.tanh(torch.log1p(torch.exp(x)))),
        (F.logsigmoid, lambda x: torch.log(1 / (1 + torch.exp(-x)))),
        (F.softplus, lambda x: torch.where(x > 20, x, torch.log1p(torch.exp(x)))),
        (lambda x: F.gelu(x, approximate="tanh"), lambda x: 0.5 * x * (1 + torch.tanh(
            0.7978845608028654 * (x + 0.044715 * x * x * x)))),
        (lambda x: torch.logsumexp(x, 0), lambda x: x.exp().sum(0).log()),
        (torch.cosh, lambda x: (x.exp() + (-x).exp()) / 2),
        (lambda x: torch.hypot(x * 1e20, x), lambda x: ((x * 1e20) ** 2 + x * x).sqrt()),
        (lambda x: (x * 1e18).norm(), lambda x: ((x * 1e18) ** 2).sum().sqrt()),
        (lambda x: (x * 1e36).mean(), lambda x: (x * 1e36).sum() / x.numel()),
        (lambda x: F.layer_norm(x * 1e18, (8,)), lambda x: (x * 1e18 - (x * 1e18).mean())
            * torch.rsqrt(torch.mean((x * 1e18 - (x * 1e18).mean()) ** 2) + 1e-5)),
    ],
)  # fmt: skip
def test_usual_formulas_conform_where_they_leave_the_range(
    function: Callable[[torch.Tensor], torch.Tensor],
    naive: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    x = torch.tensor([-89.2, -88.0, -20.0, -1.0, 0.5, 3.0, 88.0, 89.2])
    found = reference(function, x)
    assert judge(found, naive(x)), (naive(x), found.oracle[0][0], found.bound[0][0])
    wrong = naive(x)
    if wrong.dim() and wrong[3].isfinite():
        wrong[3] = math.inf
        assert not judge(found, wrong), "the formula is finite there"


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32])
@pytest.mark.parametrize("function", [torch.sinh, torch.cosh, torch.asinh, torch.acosh])
def test_usual_formulas_take_the_arguments_of_the_functions(
    function: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype
) -> None:
    verdict = eager(function, torch.tensor([1, 1, 30_000]).to(dtype))
    assert verdict.passed, verdict.problem


def test_the_default_of_an_epsilon_is_the_programs() -> None:
    x = torch.randn(3, 40) * 1e-4
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        verdict = eager(lambda x: F.rms_norm(x, (40,)), x.to(dtype))
        assert verdict.passed, verdict.problem


# Discontinuities.


JUMPS: dict[str, tuple[Callable[[torch.Tensor], Any], Callable[[torch.Tensor], torch.Tensor]]] = {
    "floor": (lambda x: torch.floor(x * 10), lambda k: k / 10),
    "ceil": (lambda x: torch.ceil(x * 10), lambda k: k / 10),
    "trunc": (lambda x: torch.trunc(x / 0.1), lambda k: k / 10),
    "round": (lambda x: torch.round(x / 0.05), lambda k: (k + 0.5) * 0.05),
    "cast": (lambda x: (x * 10).to(torch.int64), lambda k: k / 10),
    "floor and cast": (lambda x: (x * 10).floor().to(torch.int32), lambda k: k / 10),
    "compare": (lambda x: x * 3 > 0.3, lambda k: torch.full_like(k, 0.1)),
    "frac": (lambda x: torch.frac(x * 10), lambda k: k / 10),
    "remainder": (lambda x: torch.remainder(x, 0.1), lambda k: k / 10),
    "remainder of many": (lambda x: torch.remainder(x, 0.3), lambda k: k * 10),
    "fmod of many": (lambda x: torch.fmod(x, 0.3), lambda k: k * 10),
    "floor_divide": (lambda x: x // 0.1, lambda k: k / 10),
    "chain": (lambda x: torch.floor((x * 0.7 + x * 0.3) * 10), lambda k: k / 10),
}


@pytest.mark.parametrize("name", JUMPS)
def test_either_side_of_a_jump_conforms(name: str) -> None:
    function, inputs = JUMPS[name]
    x = inputs(torch.arange(-400, 400).float())
    for seed in range(10):
        verdict = eager(function, x, seed=seed)
        assert verdict.passed, (seed, verdict.problem)


def test_next_to_a_jump_a_wrong_step_is_an_error() -> None:
    x = torch.arange(1, 500).float() / 10 + 0.03
    for function in (lambda x: torch.floor(x * 10), lambda x: (x * 10).int()):
        found = reference(function, x)
        wrong = found.eager[0][0].clone()
        wrong[100] += 1
        assert not judge(found, wrong)


def test_beyond_a_jump_two_steps_are_an_error() -> None:
    x = torch.arange(-400, 400).float() / 10
    found = reference(lambda x: (x * 10).floor().to(torch.int32), x)
    one_off = found.eager[0][0] + 2
    assert compare([[one_off]], found).numerics[0].exceeding == x.numel()


def test_equal_elements_may_be_chosen_in_any_order() -> None:
    x = torch.tensor([[1.0, 3.0, 3.0, 0.0, 2.0], [5.0, 1.0, 5.0, 0.0, 2.0]])
    found = reference(lambda x: x.argmax(1), x)
    for first in (1, 2):
        for second in (0, 2):
            assert judge(found, torch.tensor([first, second]))
    for wrong in ([0, 0], [3, 0], [1, 1], [1, 3]):
        assert not judge(found, torch.tensor(wrong)), wrong


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.topk(x, 4),
        lambda x: torch.sort(x, descending=True),
        lambda x: x.max(1),
        lambda x: x.max(0, keepdim=True),
        lambda x: x.kthvalue(2),
        lambda x: x.median(1),
        lambda x: x.mode(0),
        lambda x: (x.argmax(), x.argmin(1, keepdim=True)),
        lambda x: torch.topk(x * 1.1, 3),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_the_last_of_equal_elements_is_as_good(
    function: Callable[[torch.Tensor], Any], dtype: torch.dtype
) -> None:
    x = torch.randint(0, 3, (4, 6)).to(dtype)
    x[:, 3], x[2] = x[:, 1], x[0]
    found = reference(function, x)
    assert compare(found.eager, found).passed
    columns = lambda x: function(x)  # noqa: E731
    assert all((b == 0).all() for b, o in zip(found.bound[0], found.oracle[0], strict=True)
               if o.dtype != torch.int64 and not o.is_floating_point())  # fmt: skip
    assert any(other is not None for other in found.alternatives[0]), columns


def test_integers_beyond_2_53_are_compared_exactly() -> None:
    x = torch.tensor([2**53, 2**60])
    found = reference(lambda x: x + 1, x)
    assert judge(found, x + 1)
    verdict = compare([[x + torch.tensor([1, 2])]], found)
    assert not verdict.passed
    assert verdict.numerics[0].bound_used == math.inf


# Interpolation.


@pytest.mark.parametrize("seed", [14, 23, 26, 35])
def test_errors_of_a_cubics_weights_never_cancel_in_all_runs(seed: int) -> None:
    """With few sign patterns, they cancelled at one element of a million."""
    x = torch.randn(1, 2, 64, 64, generator=torch.Generator().manual_seed(seed))
    assert eager(lambda x: F.interpolate(x, scale_factor=1.7, mode="bicubic"), x).passed


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize(("size", "factor"), [(5, 3.0), (7, 2.6), (64, 1.7), (6, 0.5)])
def test_coordinates_are_computed_in_float32(
    mode: str, size: int, factor: float, align: bool
) -> None:
    x = torch.randn(1, 2, size, size)
    found = reference(
        lambda x: F.interpolate(x, scale_factor=factor, mode=mode, align_corners=align), x
    )
    assert compare(found.eager, found).passed
    # Weights from float32 coordinates, and another order of the same products.
    steps = torch.tensor((size - 1) / (int(size * factor) - 1) if align else 1 / factor)
    position = torch.arange(int(size * factor), dtype=torch.float32)
    source = steps * position if align else steps * (position + 0.5) - 0.5
    if mode == "bilinear":
        source = source.clamp_min(0)
        low = source.floor().long().clamp_max(size - 1)
        part = source - low
        weight = F.one_hot(low, size).T * (1 - part)
        weight = weight + F.one_hot((low + 1).clamp_max(size - 1), size).T * part
        assert judge(found, weight.T @ x @ weight)
    shifted = found.eager[0][0] + 1e-3
    assert not judge(found, shifted)


def test_exact_coordinates_do_not_err() -> None:
    x = torch.randn(1, 1, 8, 8)
    nearest = reference(lambda x: F.interpolate(x, scale_factor=2.0), x)
    assert float(nearest.bound[0][0].max()) < 1e-6
    for mode in ("bilinear", "bicubic"):
        twice = reference(lambda x, m=mode: F.interpolate(x, scale_factor=2.0, mode=m), x)  # type: ignore[misc]
        assert float(twice.bound[0][0].max()) < 1e-4


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_the_nearest_element_may_be_on_either_side(mode: str) -> None:
    for sizes in ((5, 15), (9, 21), (10, 7), (49, 7)):
        x = torch.randn(1, 1, sizes[0])
        found = reference(lambda x, s=sizes[1]: F.interpolate(x, size=s, mode=mode), x)  # type: ignore[misc]
        assert compare(found.eager, found).passed


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_an_error_of_the_grid_has_a_small_bound(mode: str) -> None:
    x = torch.randn(2, 3, 8, 8)
    grid = torch.rand(2, 5, 5, 2) * 2 - 1
    found = reference(lambda x, g: F.grid_sample(x, g, mode=mode, align_corners=False), x, grid)
    assert compare(found.eager, found).passed
    assert float(found.bound[0][0].max()) < 1e-3
    assert not judge(found, found.eager[0][0].flip(0))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_coordinates_of_a_grid_are_of_its_dtype(mode: str, dtype: torch.dtype) -> None:
    x = torch.randn(2, 3, 5, 20).to(dtype)
    grid = (torch.rand(2, 13, 10, 2) * 2 - 1).to(dtype)
    found = reference(lambda x, g: F.grid_sample(x, g, mode=mode, align_corners=False), x, grid)
    assert compare(found.eager, found).passed
    finer = F.grid_sample(x.float(), grid.float(), mode=mode, align_corners=False)
    assert judge(found, finer.to(dtype))
    assert not judge(found, found.eager[0][0].flip(0))


def test_subnormal_numbers_of_float16_are_rounded_to_their_steps() -> None:
    small = torch.linspace(1e-7, 6e-5, 2000)[None]
    cast = reference(lambda x: x.half().float(), small)
    assert judge(cast, small.half().float())
    step = 2.0**-24
    assert not judge(cast, small.half().float() + 2 * step)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("value", [3e-3, -7.7e-3, 1e-4])
def test_equal_factors_round_alike(dtype: torch.dtype, value: float) -> None:
    """700 roundings of one sign: of the computed factor, and of each product."""
    x = torch.full((1, 700), value, dtype=dtype)
    for function in (torch.prod, torch.cumprod):
        found = reference(lambda x, f=function: f(x * 1.0001 + 1, 1), x)  # type: ignore[misc]
        assert compare(found.eager, found).passed, function.__name__
    exact = reference(lambda x: (x * 1.0001 + 1).cumprod(1), x.float())
    assert not judge(exact, exact.eager[0][0] * 1.001)


def test_equal_elements_still_differ_by_their_bounds() -> None:
    """A result that is one number has one error in most runs, but not in all."""
    x = torch.full((4, 50), 0.1)
    found = reference(lambda x: (x * 0.3).sum(1), x)
    assert compare(found.eager, found).passed
    assert not judge(found, found.eager[0][0] * 1.0001)
    difference = reference(lambda x: x * 0.3 - (x * 0.3).mean(), x)
    assert judge(difference, difference.eager[0][0] + 1e-9)
