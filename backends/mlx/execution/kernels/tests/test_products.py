"""Large products are computed with torch, and are the products that mlx computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy
import pytest

from backends.mlx.execution.kernels import products

pytestmark = pytest.mark.skipif(mx.metal.is_available(), reason="this is the device")


@pytest.fixture(autouse=True)
def all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_LARGE", 1)
    monkeypatch.setattr(products, "_ROWS", 2)
    monkeypatch.setattr(products, "_DECODED", 300)
    mx.random.seed(0)


@pytest.fixture
def torch_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """mlx's own functions are not to be called."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("mlx computed it")

    for name in ("matmul", "addmm", "quantized_matmul"):
        monkeypatch.setattr(mx, name, refuse)
    monkeypatch.setattr(mx.fast, "scaled_dot_product_attention", refuse)


def normal(*shape: int) -> mx.array:
    return mx.random.normal(shape)


def assert_close(found: mx.array, expected: mx.array) -> None:
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    numpy.testing.assert_allclose(numpy.array(found), numpy.array(expected), rtol=2e-5, atol=2e-5)


LEFT_AND_RIGHT: dict[str, Callable[[], tuple[mx.array, mx.array]]] = {
    "plain": lambda: (normal(5, 7), normal(7, 3)),
    "transposed": lambda: (normal(5, 7), normal(3, 7).T),
    "batches": lambda: (normal(2, 1, 5, 7), normal(4, 7, 3)),
    "strided": lambda: (normal(10, 7)[::2], normal(7, 6)[:, 1::2]),
    "backwards": lambda: (normal(5, 7)[::-1], normal(7, 3)),
    "not computed yet": lambda: (mx.exp(normal(5, 7)), normal(7, 3) + 1),
}


@pytest.mark.parametrize("operands", LEFT_AND_RIGHT)
def test_matmul(operands: str, request: pytest.FixtureRequest) -> None:
    left, right = LEFT_AND_RIGHT[operands]()
    expected = mx.matmul(left, right)
    request.getfixturevalue("torch_alone")
    assert_close(products.matmul(left, right), expected)


@pytest.mark.parametrize("alpha", [1.0, -2.5])
@pytest.mark.parametrize("beta", [1.0, 0.5])
@pytest.mark.parametrize("shape", [(3,), (5, 1), (5, 3)])
def test_addmm(
    alpha: float, beta: float, shape: tuple[int, ...], request: pytest.FixtureRequest
) -> None:
    bias, left, right = normal(*shape), normal(5, 7), normal(7, 3)
    expected = mx.addmm(bias, left, right, alpha, beta)
    request.getfixturevalue("torch_alone")
    assert_close(products.addmm(bias, left, right, alpha, beta), expected)


@pytest.mark.parametrize(
    ("mode", "bits", "group"),
    [("affine", 4, 32), ("affine", 8, 64), ("mxfp4", 4, 32), ("mxfp8", 8, 32), ("nvfp4", 4, 16)],
)
def test_quantized_matmul(mode: str, bits: int, group: int, request: pytest.FixtureRequest) -> None:
    options = {"mode": mode, "bits": bits, "group_size": group}
    weight, scales, *biases = mx.quantize(normal(12, 128), **options)
    offset, x = (biases[0] if biases else None), normal(2, 5, 128)
    expected = mx.quantized_matmul(x, weight, scales, offset, transpose=True, **options)
    request.getfixturevalue("torch_alone")
    found = products.quantized_matmul(x, weight, scales, offset, transpose=True, **options)
    assert_close(found, expected)


CONVOLUTIONS = {
    "1d": ((2, 9, 4), (6, 3, 4), (2,), (1,), (1,), 1),
    "grouped": ((2, 9, 4), (6, 3, 2), (1,), (0,), (2,), 2),
    "2d": ((2, 6, 5, 4), (3, 3, 2, 4), (2, 1), (1, 0), (1, 2), 1),
    "depthwise": ((1, 6, 5, 4), (4, 3, 3, 1), (1, 1), (1, 1), (1, 1), 4),
    "3d": ((1, 4, 5, 4, 2), (3, 2, 2, 2, 2), (1, 1, 2), (0, 1, 0), (1, 1, 1), 1),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name: str) -> None:
    shape, kernel, stride, padding, dilation, groups = CONVOLUTIONS[name]
    x, w = normal(*shape), normal(*kernel)
    sizes = [size[0] if len(size) == 1 else size for size in (stride, padding, dilation)]
    expected = getattr(mx, f"conv{len(stride)}d")(x, w, *sizes, groups)
    found = products.convolution(x, w, stride, padding, dilation, groups)
    assert found is not None
    assert_close(found, expected)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [1, 2, 4])
def test_attention(causal: bool, heads: int, request: pytest.FixtureRequest) -> None:
    query, key, value = normal(2, 4, 6, 8), normal(2, heads, 6, 8), normal(2, heads, 6, 8)
    mask = "causal" if causal else None
    attend = mx.fast.scaled_dot_product_attention
    expected = attend(query, key, value, scale=0.3, mask=mask)
    request.getfixturevalue("torch_alone")
    assert_close(products.attention(query, key, value, 0.3, mask), expected)


def test_attention_that_torch_defines_differently_follows_mlx() -> None:
    """A row that sees nothing, and causal attention over keys of before."""
    query, keys = normal(1, 1, 3, 8), normal(1, 1, 5, 8)
    attend = mx.fast.scaled_dot_product_attention
    for mask in ("causal", mx.zeros((3, 5)), mx.zeros((3, 5), dtype=mx.bool_)):
        expected = attend(query, keys, keys, scale=1.0, mask=mask)
        assert_close(products.attention(query, keys, keys, 1.0, mask), expected)


EXTREMES = {
    "all minus infinity": (1e20, -1e20, 1.0, 1.0),
    "infinity": (1e20, 1e20, 1.0, 1.0),
    "infinity before the scale": (1e20, 1e20, 1.0, 1e-10),
    "infinity by the scale": (1e30, 1.0, 1.0, 1e10),
    "a query that is infinite": (numpy.inf, 1.0, 1.0, 1.0),
    "a key that is NaN": (1.0, numpy.nan, 1.0, 1.0),
    "values that are infinite": (1.0, 1.0, numpy.inf, 1.0),
}


@pytest.mark.parametrize("mask", [None, "causal"])
@pytest.mark.parametrize("name", EXTREMES)
def test_attention_of_scores_that_overflow_is_mlxs(name: str, mask: str | None) -> None:
    """torch returns 0 where all scores of a row are -inf, mlx NaN."""
    *factors, scale = EXTREMES[name]
    query, key, value = (mx.ones((1, 2, 4, 8)) * factor for factor in factors)
    attend = mx.fast.scaled_dot_product_attention
    expected = attend(query, key, value, scale=scale, mask=mask)
    assert_close(products.attention(query, key, value, scale, mask), expected)


def test_a_convolution_in_three_dimensions_has_no_groups() -> None:
    x, weight = normal(1, 4, 5, 4, 4), normal(4, 2, 2, 2, 2)
    with pytest.raises(ValueError, match="groups"):
        mx.conv3d(x, weight, groups=2)
    assert products.convolution(x, weight, (1,) * 3, (0,) * 3, (1,) * 3, 2) is None


def test_the_bias_of_a_product_is_broadcast_to_it_and_not_read_for_a_beta_of_0() -> None:
    left, right = normal(5, 7), normal(7, 3)
    nothing = mx.full((3,), numpy.nan)
    expected = mx.addmm(nothing, left, right, 2.0, 0.0)
    assert_close(products.addmm(nothing, left, right, 2.0, 0.0), expected)
    for function in (mx.addmm, products.addmm):
        with pytest.raises(ValueError, match="broadcast"):
            mx.eval(function(normal(2, 5, 3), left, right, 1.0, 1.0))


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_other_dtypes_are_mlxs(dtype: mx.Dtype) -> None:
    left, right = normal(5, 7).astype(dtype), normal(7, 3).astype(dtype)
    assert_close(products.matmul(left, right).astype(mx.float32), (left @ right).astype(mx.float32))
    bias = normal(3).astype(dtype)
    assert products.addmm(bias, left, right, 1.0, 1.0).dtype == dtype


def test_operands_that_do_not_fit_raise_the_error_of_mlx() -> None:
    with pytest.raises(ValueError, match="matmul"):
        products.matmul(normal(5, 7), normal(6, 3))
    with pytest.raises(ValueError, match="broadcast"):
        products.matmul(normal(2, 5, 7), normal(3, 7, 3))
    assert products.convolution(normal(2, 9, 4), normal(6, 3, 3), (1,), (0,), (1,), 1) is None
    with pytest.raises(ValueError, match="scaled_dot_product_attention"):
        products.attention(normal(1, 2, 3, 8), normal(1, 3, 3, 8), normal(1, 3, 3, 8), 1.0, None)
