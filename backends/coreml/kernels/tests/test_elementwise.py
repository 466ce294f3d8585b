"""Elementwise operations and activations, against coremltools' value inference."""

import numpy
import pytest
import torch

from backends.coreml.kernels import call_kernel
from backends.coreml.kernels.tests.folding import (
    assert_close,
    build,
    compare,
    compute,
    draw,
    infer,
)

FLOATS = [numpy.float32, numpy.float16]

# Intervals in which the functions are defined and differ from 0 and infinity.
UNARY = {
    "abs": (-3, 3),
    "acos": (-0.9, 0.9),
    "asin": (-0.9, 0.9),
    "atan": (-3, 3),
    "atanh": (-0.9, 0.9),
    "ceil": (-3, 3),
    "cos": (-1, 1),
    "cosh": (-3, 3),
    "erf": (-2, 2),
    "exp": (-3, 3),
    "exp2": (-3, 3),
    "floor": (-3, 3),
    "inverse": (0.1, 3),
    "log": (1.1, 9),
    "round": (-9, 9),
    "rsqrt": (0.1, 9),
    "sign": (-3, 3),
    "sin": (-1, 1),
    "sinh": (-3, 3),
    "sqrt": (0, 9),
    "square": (-3, 3),
    "tan": (-1, 1),
    "tanh": (-3, 3),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(), (7,), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, shape, dtype):
    low, high = UNARY[name]
    x = draw(1, shape, dtype, low, high)
    compare(name, x=x if shape else dtype(x), ulps=6)


@pytest.mark.parametrize("name", ["abs", "sign", "square", "exp2"])
def test_unary_of_integers(name):
    compare(name, x=numpy.array([-5, 0, 3, 4], numpy.int32))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("epsilon", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("name", ["inverse", "log", "rsqrt"])
def test_epsilons(name, epsilon, dtype):
    compare(name, x=draw(2, (5,), dtype, 0.5, 3), epsilon=dtype(epsilon))
    # iOS 17 allows another dtype, but its value inference then promotes; see the declared types.
    other = numpy.float16 if dtype is numpy.float32 else numpy.float32
    x = draw(2, (5,), dtype, 1.5, 3)
    (declared,) = infer(name, "iOS17", x=x, epsilon=other(epsilon))
    (result,) = compute(name, x=x, epsilon=other(epsilon))
    assert result.dtype == declared.dtype
    assert_close(result, torch.from_numpy(declared.value), 4)


def test_default_epsilons_at_zero():
    zero = torch.zeros(1)
    assert_close(compute("inverse", x=zero)[0], torch.tensor([1e4]))
    assert_close(compute("rsqrt", x=zero)[0], torch.tensor([1e6]))
    assert_close(compute("log", x=zero)[0], torch.tensor([1e-45]).log())
    assert compute("log", x=zero.half())[0].item() == -numpy.inf


def test_round_takes_halves_to_even():
    halves = numpy.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], numpy.float32)
    (result,) = compare("round", x=halves)
    assert result.tolist() == [-2, -2, 0, 0, 2, 2]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("limits", [(-1, 1), (0, 6), (-0.3, -0.1)])
def test_clip(limits, dtype):
    alpha, beta = map(dtype, limits)
    for opset in ("iOS15", "iOS17"):
        compare("clip", opset, x=draw(3, (2, 9), dtype), alpha=alpha, beta=beta, ulps=0)


@pytest.mark.parametrize("dtype", [*FLOATS, numpy.int32])
def test_threshold(dtype):
    compare("threshold", x=draw(3, (2, 9), dtype, -9, 9), alpha=dtype(1), ulps=0)


def test_logical_not():
    compare("logical_not", x=numpy.array([True, False]))


NUMBERS = ["int32", "fp16", "fp32", "bool", "int8", "uint8", "int16", "uint16"]


@pytest.mark.parametrize("wanted", NUMBERS)
@pytest.mark.parametrize("dtype", ["int32", "float16", "float32", "bool", "int8", "uint16"])
def test_cast(dtype, wanted):
    x = numpy.array([0, 1, 2.7, 100.4], numpy.float32).astype(dtype)
    compare("cast", "iOS17", x=x, dtype=wanted, ulps=0)
    compare("cast", "iOS17", x=x.reshape(2, 2)[:, ::-1], dtype=wanted, ulps=0)


def test_cast_of_negative_numbers_rounds_toward_zero():
    x = numpy.array([-2.7, -0.5], numpy.float32)
    assert compare("cast", x=x, dtype="int32")[0].tolist() == [-2, 0]


ARITHMETIC = "add sub mul maximum minimum floor_div mod real_div".split()
COMPARISONS = "equal not_equal greater greater_equal less less_equal".split()
SHAPES = [((4,), (4,)), ((2, 3, 4), (3, 1)), ((5, 1), (1, 4)), ((), (3,)), ((), ())]


@pytest.mark.parametrize("dtype", [*FLOATS, numpy.int32])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("name", [*ARITHMETIC, *COMPARISONS])
def test_binary(name, shapes, dtype):
    x, y = (draw(seed, shape, dtype, -9, 9) for seed, shape in enumerate(shapes, 5))
    y = numpy.where(y == 0, dtype(2), y)
    x, y = (dtype(v) if not v.shape else v for v in (x, y))
    compare(name, x=x, y=y, ulps=1)


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_of_equal_elements(name):
    x = numpy.array([1, 2, 3], numpy.int32)
    compare(name, x=x, y=numpy.array([1, 3, 2], numpy.int32))


@pytest.mark.parametrize("name", ["floor_div", "mod"])
@pytest.mark.parametrize("dtype", [*FLOATS, numpy.int32])
def test_division_signs(name, dtype):
    x = numpy.array([7, -7, 7, -7, 6, -6], dtype)
    y = numpy.array([3, 3, -3, -3, 3, 3], dtype)
    compare(name, x=x, y=y, ulps=0)


@pytest.mark.parametrize("dtype", FLOATS)
def test_pow(dtype):
    compare("pow", x=draw(6, (9,), dtype, 0.1, 3), y=draw(7, (9,), dtype), ulps=3)
    compare("pow", x=draw(6, (9,), dtype), y=dtype(2), ulps=3)
    compare("pow", x=numpy.array([2, -3], numpy.int32), y=numpy.array([5, 3], numpy.int32))


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_logical(name):
    x = numpy.array([[True], [False]])
    compare(name, x=x, y=numpy.array([True, False]))


@pytest.mark.parametrize("shape", [(), (2, 3)], ids=str)
@pytest.mark.parametrize("dtype", [*FLOATS, numpy.int32, numpy.bool_])
def test_identity(shape, dtype):
    x = draw(8, shape, dtype)
    compare("identity", x=x if shape else dtype(x), ulps=0)


ALPHA = ["elu", "leaky_relu", "thresholded_relu"]
ALPHA_BETA = ["clamped_relu", "linear_activation", "scaled_tanh", "sigmoid_hard"]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("alpha", [0.1, 1.0, 2.5])
@pytest.mark.parametrize("name", ALPHA)
def test_activations_with_alpha(name, alpha, dtype):
    # numpy rounds e^x before it subtracts 1.
    for opset in ("iOS15", "iOS17"):
        compare(name, opset, x=draw(9, (3, 8), dtype), alpha=dtype(alpha), magnitude=alpha)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("numbers", [(0.2, 0.5), (1.0, 0.25), (-0.5, 2.0)], ids=str)
@pytest.mark.parametrize("name", ALPHA_BETA)
def test_activations_with_alpha_and_beta(name, numbers, dtype):
    alpha, beta = map(dtype, numbers)
    compare(name, x=draw(10, (3, 8), dtype), alpha=alpha, beta=beta, magnitude=1)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["relu", "relu6", "sigmoid", "softsign", "softplus"])
def test_plain_activations(name, dtype):
    compare(name, x=draw(11, (3, 8), dtype, -8, 8), magnitude=1)


@pytest.mark.parametrize("dtype", FLOATS)
def test_silu(dtype):
    x = draw(11, (3, 8), dtype, -8, 8)
    (result,) = compare("silu", x=x, valued=False)
    wide = torch.from_numpy(x).double()
    assert_close(result, (wide / (1 + (-wide).exp())).to(result.dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", ["EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION", None])
def test_gelu(mode, dtype):
    options = {} if mode is None else {"mode": mode}
    compare("gelu", x=draw(12, (3, 8), dtype), magnitude=1, **options)


def test_gelu_of_a_strided_tensor():
    x = torch.from_numpy(draw(12, (1, 4, 60, 60), low=-0.4, high=0.4)).permute(0, 1, 3, 2)
    result = call_kernel("gelu", {"x": x})
    assert_close(result, torch.nn.functional.gelu(x.double()).float(), 1)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 4, 5), (2, 3, 2, 2, 2)], ids=str)
def test_prelu(shape, dtype):
    alpha = numpy.array([0.5, -0.25, 2], dtype) if len(shape) == 4 else numpy.full(3, 0.25, dtype)
    for opset in ("iOS15", "iOS17"):
        compare("prelu", opset, x=draw(13, shape, dtype), alpha=alpha, ulps=1)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 3, 2, 2)], ids=str)
def test_softplus_parametric(shape, dtype):
    alpha, beta = numpy.array([0.5, -1, 2], dtype), numpy.array([1, 2, -0.5], dtype)
    compare("softplus_parametric", x=draw(14, shape, dtype), alpha=alpha, beta=beta, magnitude=2)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_softmax(axis, dtype):
    options = {} if axis is None else {"axis": axis}
    compare("softmax", x=draw(15, (4, 3, 5), dtype), ulps=6, **options)


def test_mixed_python_numbers_keep_the_dtype_of_the_tensor():
    half = torch.tensor([1.5, 2.0], dtype=torch.float16)
    assert compute("mul", x=half, y=2.0)[0].dtype == torch.float16
    assert compute("add", x=1, y=torch.tensor([2], dtype=torch.int32))[0].dtype == torch.int32
    assert compute("less", x=half, y=1.75)[0].tolist() == [True, False]
    assert compute("add", x=0.5, y=torch.tensor([2], dtype=torch.int32))[0].tolist() == [2.5]


def test_value_inference_is_asked():
    assert build("add", x=numpy.float32(1), y=numpy.float32(2)).val == 3
