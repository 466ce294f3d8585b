"""Eager in a recipe's dtype conforms to its own bound, for all operators that round or jump.

A generator draws a call of its operator: shapes, magnitudes, kinds of values, scalars and dtypes.
The short run is the same every time; the nightly run draws new calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st

from harness.model.precision import Precision
from harness.numerics.compare import compare
from harness.numerics.error_model.rules import RULES, RoundingKind
from harness.numerics.oracle import compute_reference

F = torch.nn.functional
aten = torch.ops.aten
SCALARS = (-1.0, 0.0, 1.0, -2.7, 0.1, 1e-3, -1e4)
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
KINDS = ("normal", "equal", "tenths", "positive", "whole", "offset")


@dataclass
class Draw:
    """Draws the arguments of a generator's call."""

    data: st.DataObject
    dtype: torch.dtype
    generator: torch.Generator

    def pick(self, *values: Any) -> Any:
        return self.data.draw(st.sampled_from(values))

    def size(self, low: int = 1, high: int = 9) -> int:
        return self.data.draw(st.integers(low, high))

    def scalar(self) -> float:
        return float(self.pick(*SCALARS))

    def tensor(
        self, *shape: int, low: float | None = None, high: float | None = None
    ) -> torch.Tensor:
        """Draw values of a random kind and magnitude, or in an interval and at its ends."""
        noise = torch.randn(shape, generator=self.generator)
        if low is not None:
            end = low + 100.0 if high is None else high
            values = low + torch.rand(shape, generator=self.generator) * (end - low)
            edges = torch.rand(shape, generator=self.generator)
            values = torch.where(edges < 0.1, low, torch.where(edges > 0.9, end, values))
            return values.to(self.dtype)
        kind = self.pick(*KINDS)
        scale = 10.0 ** self.pick(*(range(-6, 7) if self.dtype != torch.float16 else range(-2, 2)))
        values = {
            "normal": noise,
            "equal": torch.full(shape, float(self.pick(0.1, 3.0, -7.7))),
            "tenths": (noise * 30).round() / 10,
            "positive": noise.abs() + 0.01,
            "whole": (noise * 5).round(),
            "offset": noise + 50,
        }[kind]
        if kind in ("tenths", "whole"):
            return values.to(self.dtype)
        return (values * scale).to(self.dtype)

    def shape(self) -> tuple[int, ...]:
        return tuple(self.size(1, 7) for _ in range(self.pick(1, 2, 3)))

    def same_shape(self, count: int) -> list[torch.Tensor]:
        """Draw tensors of one shape; sometimes the second one cancels with the first."""
        shape = self.shape()
        tensors = [self.tensor(*shape) for _ in range(count)]
        if count > 1 and self.pick(True, False):
            tensors[1] = (tensors[0].double() * (1 + 2**-7 * torch.rand(shape))).to(self.dtype)
        return tensors


Call = tuple[Callable[..., Any], list[torch.Tensor]]
Generator = Callable[[Draw], Call]


def unary(name: str) -> Generator:
    function = getattr(aten, name)
    interval = RULES[name].find_domain(()) if name in RULES else None

    def generate(draw: Draw) -> Call:
        if interval is None:
            return function, draw.same_shape(1)
        low, high = interval
        return function, [draw.tensor(*draw.shape(), low=low, high=min(high, low + 1000))]

    return generate


def binary(name: str, scalar: bool = False) -> Generator:
    function = getattr(aten, name)

    def generate(draw: Draw) -> Call:
        if scalar and draw.pick(True, False):
            value = draw.scalar() or 3.0
            return lambda x: function(x, value), draw.same_shape(1)
        return function, draw.same_shape(2)

    return generate


def over(function: Callable[..., Any], least: int = 1) -> Generator:
    """Generate a function of one tensor and a dimension of at least that size."""

    def generate(draw: Draw) -> Call:
        x = draw.tensor(draw.size(least), draw.pick(least, 5, 40, 700))
        dim = draw.pick(0, 1, -1)
        return lambda x: function(x, dim), [x]

    return generate


def scaled(name: str, *shapes: str, beta: bool = True) -> Generator:
    """Generate a sum of products with factors, shapes given as letters; sometimes in place."""

    def generate(draw: Draw) -> Call:
        sizes = {letter: draw.size() for letter in "bmn"} | {"k": draw.pick(1, 3, 64, 300)}
        tensors = [draw.tensor(*(sizes[letter] for letter in shape)) for shape in shapes]
        options = {"alpha": draw.scalar()} | ({"beta": draw.scalar()} if beta else {})
        if name in ("addmv", "baddbmm") and draw.dtype == torch.bfloat16 and not options["alpha"]:
            options["alpha"] = 1.0  # with alpha 0, eager ignores beta (docs/findings.md)
        if draw.pick(True, False):
            return lambda first, *rest: getattr(first.clone(), name + "_")(
                *rest, **options
            ), tensors
        return lambda *items: getattr(torch, name)(*items, **options), tensors

    return generate


def plain(function: Callable[..., Any], *shapes: tuple[int, ...], half: bool = True) -> Generator:
    def generate(draw: Draw) -> Call:
        tensors = [draw.tensor(*shape) for shape in shapes]
        return function, tensors if half else [x.float() for x in tensors]

    return generate


def elementwise(function: Callable[..., Any], count: int = 1) -> Generator:
    return lambda draw: (function, draw.same_shape(count))


def with_scalar(function: Callable[..., Any], count: int) -> Generator:
    def generate(draw: Draw) -> Call:
        value = draw.scalar()
        return lambda *items: function(*items, value), draw.same_shape(count)

    return generate


def in_place(name: str, count: int, keyword: str) -> Generator:
    """Generate an operation with a factor, sometimes in place."""

    def generate(draw: Draw) -> Call:
        options = {keyword: draw.scalar()}
        if draw.pick(True, False):
            return lambda x, *rest: getattr(x.clone(), name + "_")(
                *rest, **options
            ), draw.same_shape(count)
        return lambda *items: getattr(torch, name)(*items, **options), draw.same_shape(count)

    return generate


def resized(mode: str, rank: int) -> Generator:
    def generate(draw: Draw) -> Call:
        sizes = [draw.size(2, 9) for _ in range(rank)]
        options: dict[str, Any] = {"mode": mode}
        if draw.pick(True, False):
            options["scale_factor"] = draw.pick(0.5, 1.7, 2.0, 3.0)
        else:
            options["size"] = [draw.size(1, 20) for _ in range(rank)]
        if "nearest" not in mode:
            options["align_corners"] = draw.pick(True, False)
        return lambda x: F.interpolate(x, **options), [draw.tensor(1, 2, *sizes)]

    return generate


def blurred(mode: str) -> Generator:
    def generate(draw: Draw) -> Call:
        size = [draw.size(1, 12), draw.size(1, 12)]
        return lambda x: F.interpolate(x, size=size, mode=mode, antialias=True), [
            draw.tensor(1, 1, draw.size(2, 9), draw.size(2, 9)).float()
        ]

    return generate


def gridded(rank: int) -> Generator:
    def generate(draw: Draw) -> Call:
        modes = ("bilinear", "nearest", "bicubic") if rank == 2 else ("bilinear", "nearest")
        options = {
            "mode": draw.pick(*modes),
            "padding_mode": draw.pick("zeros", "border", "reflection"),
            "align_corners": draw.pick(True, False),
        }
        x = draw.tensor(1, 2, *(draw.size(2, 6) for _ in range(rank))).float()
        grid = draw.tensor(1, *[4] * rank, rank, low=-1.2, high=1.2).float()
        return lambda x, g: F.grid_sample(x, g, **options), [x, grid]

    return generate


def transformed(function: Callable[..., torch.Tensor]) -> Generator:
    def generate(draw: Draw) -> Call:
        norm = draw.pick("forward", "backward", "ortho")
        x = draw.tensor(draw.size(2), draw.pick(2, 3, 8, 30, 128)).float()
        return lambda x: function(x, norm), [x]

    return generate


def pooled(function: Callable[..., Any], rank: int) -> Generator:
    return lambda draw: (function, [draw.tensor(2, *(draw.size(4, 9) for _ in range(rank)))])


def scattered(function: Callable[..., Any]) -> Generator:
    def generate(draw: Draw) -> Call:
        x = draw.tensor(draw.size(2), 4)
        index = torch.randint(0, len(x), (40, 4), generator=draw.generator)
        return lambda x, y: function(x, index, y), [x, draw.tensor(40, 4)]

    return generate


def convolved(draw: Draw) -> Call:
    transposed = draw.pick(True, False)
    groups = draw.pick(1, 2)
    weight = draw.tensor(4, 2 if groups == 2 and not transposed else 4, 3, 2)
    x = draw.tensor(2, 4, draw.size(3), draw.size(2))
    bias = [draw.tensor(4 * (groups if transposed else 1))]
    function = F.conv_transpose2d if transposed else F.conv2d
    return lambda x, w, b: function(x, w, b, groups=groups), [x, weight, *bias]


def normed(function: Callable[..., Any]) -> Generator:
    return lambda draw: (function, [varied(draw, draw.tensor(3, 4, draw.pick(5, 40)), above=1e5)])


def batch_normed(function: Callable[..., Any]) -> Generator:
    return lambda draw: (function, [varied(draw, draw.tensor(3, 4, draw.pick(5, 40)))])


def varied(draw: Draw, x: torch.Tensor, above: float = 0.0) -> torch.Tensor:
    """Make large values vary by at least a thousandth, and by more than the dtype's roundoff.

    Equal values have a variance of 0, which multiplies roundings by 1/sqrt(eps). The bound does not
    model that (docs/numerics.md).
    """
    if not float(x.abs().max()) > above:
        return x
    noise = torch.randn(x.shape, generator=draw.generator)
    amount = max(1e-3, 2 * torch.finfo(draw.dtype).eps)
    return (x.double() * (1 + amount * noise)).to(draw.dtype)


def chosen(function: Callable[..., Any]) -> Generator:
    return lambda draw: (function, [draw.tensor(4, draw.size(3, 9))])


def positive_pow(draw: Draw) -> Call:
    exponent = draw.pick(0.5, 1.5, -0.5, 2, 3, -1.0)
    return lambda x: x**exponent, [draw.tensor(*draw.shape(), low=0.0, high=30.0)]


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def _unfold_back(x: torch.Tensor) -> torch.Tensor:
    return F.fold(x, (4, 4), 2)


_FUNCTIONS = """
acos acosh asin asinh atan atanh cos cosh digamma erf erfc erfinv exp exp2 expm1 lgamma log log10
log1p log2 sigmoid sin sinh tan tanh
""".split()

ACTIVATIONS = {name for name, rule in RULES.items() if rule.errs_in_argument} - {"glu", "logit"}
GENERATORS: dict[str, Generator] = {
    **{name: unary(name) for name in _FUNCTIONS},
    **{name: unary(name) for name in "reciprocal rsqrt sqrt square".split()},
    **{name: unary(name) for name in "ceil floor trunc round sign sgn frac".split()},
    **{name: unary(name) for name in "relu abs neg hardshrink softshrink hardtanh".split()},
    **{name: unary(name) for name in ACTIVATIONS},
    **{name: binary(name, scalar=True) for name in "remainder fmod floor_divide".split()},
    **{name: binary(name, scalar=True) for name in "eq ge gt le lt ne div true_divide".split()},
    **{name: binary(name) for name in "atan2 hypot logaddexp maximum minimum copysign".split()},
    **{name: binary(name) for name in "mul heaviside fmax fmin".split()},
    **{name: in_place(name, 2, "alpha") for name in ("add", "sub")},
    "rsub": with_scalar(lambda x, y, factor: torch.rsub(x, y, alpha=factor), 2),
    "_to_copy": elementwise(lambda x: (x * 3).to(torch.int32)),
    "to": elementwise(lambda x: (x * 0.7).to(torch.bfloat16)),
    # Left of its root at 1.46 it cancels: eager's own result is more than a few ULP off.
    # ATen's vectorized erf of 16-bit dtypes is off by 1e-7 for any value: it returns 0 for 1e-7.
    "erf": plain(torch.erf, (3, 7), half=False),
    "digamma": lambda d: (torch.digamma, [d.tensor(*d.shape(), low=2.0)]),
    "pow": positive_pow,
    "logit": lambda d: (torch.logit, [d.tensor(*d.shape(), low=0.01, high=0.99)]),
    "glu": lambda d: (F.glu, [d.tensor(3, 8)]),
    "threshold": elementwise(lambda x: F.threshold(x * 0.7, 0.1, 20.0)),
    "clamp": elementwise(lambda x: (x * 0.7).clamp(-0.3, 0.3)),
    "bucketize": elementwise(lambda x: torch.bucketize(x * 0.1, torch.arange(-3.0, 3.0).to(x))),
    "searchsorted": elementwise(
        lambda x: torch.searchsorted(torch.arange(-3.0, 3.0).to(x), (x * 0.1).contiguous())
    ),
    "sum": over(lambda x, d: x.sum(d)),
    "nansum": over(lambda x, d: x.nansum(d)),
    "mean": over(lambda x, d: x.mean(d)),
    "prod": over(lambda x, d: (x / x.abs().max().clamp_min(1e-3) + 1).prod(d)),
    "cumsum": over(lambda x, d: x.cumsum(d)),
    "cumprod": over(lambda x, d: (x / x.abs().max().clamp_min(1e-3) + 1).cumprod(d)),
    "linalg_vector_norm": over(lambda x, d: x.norm(dim=d)),
    "norm": over(lambda x, d: torch.norm(x, 3, d)),
    "logsumexp": over(lambda x, d: x.logsumexp(d)),
    "softmax": over(lambda x, d: x.softmax(d)),
    "log_softmax": over(lambda x, d: x.log_softmax(d)),
    "var": over(lambda x, d: x.var(d), 2),
    "std": over(lambda x, d: x.std(d), 2),
    "var_mean": over(lambda x, d: torch.var_mean(x, d), 2),
    "std_mean": over(lambda x, d: torch.std_mean(x, d), 2),
    "amax": over(lambda x, d: (x * 0.7).amax(d)),
    "argmax": over(lambda x, d: (x * 0.7).argmax(d)),
    "argmin": over(lambda x, d: x.argmin(d)),
    "max": over(lambda x, d: x.max(d)),
    "min": over(lambda x, d: (x * 0.7).min(d)),
    "sort": over(lambda x, d: (x * 0.7).sort(d)),
    "argsort": over(lambda x, d: x.argsort(d)),
    "median": over(lambda x, d: x.median(d)),
    "nanmedian": over(lambda x, d: x.nanmedian(d)),
    "mode": over(lambda x, d: x.mode(d)),
    "kthvalue": over(lambda x, d: (x * 0.7).kthvalue(1, d)),
    "topk": chosen(lambda x: (x * 0.7).topk(3)),
    "mm": plain(torch.mm, (3, 300), (300, 4)),
    "bmm": plain(torch.bmm, (2, 3, 70), (2, 70, 4)),
    "mv": plain(torch.mv, (3, 300), (300,)),
    "dot": plain(torch.dot, (700,), (700,)),
    "linear": plain(F.linear, (3, 300), (4, 300), (4,)),
    "convolution": convolved,
    "addmm": scaled("addmm", "mn", "mk", "kn"),
    "addmv": scaled("addmv", "m", "mk", "k"),
    "addr": scaled("addr", "mn", "m", "n"),
    "baddbmm": scaled("baddbmm", "bmn", "bmk", "bkn"),
    "addbmm": scaled("addbmm", "mn", "bmk", "bkn"),
    "addcmul": in_place("addcmul", 3, "value"),
    "addcdiv": in_place("addcdiv", 3, "value"),
    "lerp": with_scalar(torch.lerp, 2),
    "scatter_add": scattered(lambda x, i, y: x.scatter_add(0, i, y)),
    "scatter_reduce": scattered(lambda x, i, y: x.scatter_reduce(0, i, y, "mean")),
    "index_add": scattered(lambda x, i, y: x.index_add(0, i[:, 0], y, alpha=-2.5)),
    "index_reduce": scattered(lambda x, i, y: x.index_reduce(0, i[:, 0], y, "mean")),
    "index_put": scattered(lambda x, i, y: x.index_put((i[:, 0],), y, accumulate=True)),
    "col2im": plain(_unfold_back, (1, 8, 9)),
    "_cdist_forward": plain(torch.cdist, (4, 20), (5, 20), half=False),
    "_euclidean_dist": plain(torch.cdist, (30, 20), (28, 20), half=False),
    "avg_pool1d": pooled(lambda x: F.avg_pool1d(x, 3, 2), 2),
    "avg_pool2d": pooled(lambda x: F.avg_pool2d(x, 3, 2, 1), 3),
    "avg_pool3d": pooled(lambda x: F.avg_pool3d(x.float(), 2), 4),
    "adaptive_avg_pool1d": pooled(lambda x: F.adaptive_avg_pool1d(x, 3), 2),
    "_adaptive_avg_pool2d": pooled(lambda x: F.adaptive_avg_pool2d(x, (2, 3)), 3),
    "_adaptive_avg_pool3d": pooled(lambda x: F.adaptive_avg_pool3d(x, 2), 4),
    "max_pool2d": pooled(lambda x: F.max_pool2d(x * 0.7, 2), 3),
    "_fft_r2c": transformed(lambda x, n: torch.view_as_real(torch.fft.rfft2(x, norm=n))),
    "_fft_c2r": transformed(lambda x, n: torch.fft.irfft(torch.complex(x, x.flip(0)), norm=n)),
    "_fft_c2c": transformed(lambda x, n: torch.view_as_real(torch.fft.fft(x + 0j, norm=n))),
    "upsample_linear1d": resized("linear", 1),
    "upsample_bilinear2d": resized("bilinear", 2),
    "upsample_trilinear3d": resized("trilinear", 3),
    "upsample_bicubic2d": resized("bicubic", 2),
    **{f"upsample_nearest{rank}d": resized("nearest", rank) for rank in (1, 2, 3)},
    **{f"_upsample_nearest_exact{rank}d": resized("nearest-exact", rank) for rank in (1, 2, 3)},
    "_upsample_bilinear2d_aa": blurred("bilinear"),
    "_upsample_bicubic2d_aa": blurred("bicubic"),
    "grid_sampler_2d": gridded(2),
    "grid_sampler_3d": gridded(3),
    "layer_norm": normed(lambda x: F.layer_norm(x, x.shape[-1:])),
    "group_norm": normed(lambda x: F.group_norm(x, 2)),
    "rms_norm": normed(lambda x: F.rms_norm(x, x.shape[-1:])),
    "batch_norm": batch_normed(lambda x: F.batch_norm(x, None, None, training=True)),
    "_native_batch_norm_legit_no_training": batch_normed(
        lambda x: F.batch_norm(x, x.mean((0, 2)), x.var((0, 2)))
    ),
    "_scaled_dot_product_flash_attention_for_cpu": plain(
        _attention, (1, 2, 4, 8), (1, 2, 5, 8), (1, 2, 5, 8)
    ),
    "binary_cross_entropy": lambda d: (
        F.binary_cross_entropy,
        [d.tensor(5, 4, low=0.01, high=0.99), d.tensor(5, 4, low=0.0, high=1.0)],
    ),
    "mse_loss": elementwise(F.mse_loss, 2),
    "smooth_l1_loss": elementwise(F.smooth_l1_loss, 2),
    "huber_loss": elementwise(F.huber_loss, 2),
    "nan_to_num": elementwise(lambda x: torch.nan_to_num(x * 0.7)),
}

# Generators of other names cover these: their operators decompose to them.
ALIASES = {
    "native_layer_norm": "layer_norm",
    "native_group_norm": "group_norm",
    "_fused_rms_norm": "rms_norm",
    "native_batch_norm": "batch_norm",
    "_native_batch_norm_legit": "batch_norm",
    "_softmax": "softmax",
    "_log_softmax": "log_softmax",
}


def test_every_operator_has_a_generator() -> None:
    missing = {
        name
        for name, rule in RULES.items()
        if rule.kind is not RoundingKind.EXACT or rule.jump or rule.interpolate
    }
    assert {ALIASES.get(name, name) for name in missing} - set(GENERATORS) == {"special_ndtri"}


def conforms(name: str, data: st.DataObject) -> None:
    seed = data.draw(st.integers(0, 2**31))
    dtype = data.draw(st.sampled_from(DTYPES))
    draw = Draw(data, dtype, torch.Generator().manual_seed(seed))
    function, inputs = GENERATORS[name](draw)

    class Call(torch.nn.Module):
        def forward(self, *items: torch.Tensor) -> Any:
            return function(*items)

    result = compute_reference(Call(), [tuple(inputs)], Precision(), seed % 1000)
    verdict = compare(result.eager, result)
    assert verdict.passed, (verdict.problem, verdict.numerics[0].worst_index)


pytestmark = pytest.mark.filterwarnings("ignore:index_reduce.. is in beta:UserWarning")
_CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@pytest.mark.one_of(6)
@pytest.mark.parametrize("name", sorted(GENERATORS))
@settings(
    max_examples=4, derandomize=True, deadline=None, database=None, suppress_health_check=_CHECKS
)
@given(data=st.data())
def test_eager_conforms_to_its_own_bound(name: str, data: st.DataObject) -> None:
    conforms(name, data)


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(GENERATORS))
@settings(max_examples=100, deadline=None, database=None, suppress_health_check=_CHECKS)
@given(data=st.data())
def test_eager_conforms_to_its_own_bound_at_length(name: str, data: st.DataObject) -> None:
    conforms(name, data)
