"""Reductions, products, normalizations, sums and quantization, against value inference."""

import numpy
import pytest
import torch

from backends.coreml.kernels.tests.folding import assert_close, compare, compute, draw, infer

FLOATS = [numpy.float32, numpy.float16]

REDUCTIONS = (
    "reduce_l1_norm reduce_l2_norm reduce_log_sum reduce_log_sum_exp reduce_max reduce_mean "
    "reduce_min reduce_prod reduce_sum reduce_sum_square"
).split()
AXES = [None, [0], [-1], [1, 2], [0, -1], [2, 0, 1]]


@pytest.mark.one_of(5)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("keep_dims", [False, True])
@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, axes, keep_dims, dtype):
    # Positive, as log_sum needs; numpy rounds float16 after each product and square.
    options = {} if axes is None else {"axes": axes}
    x = draw(20, (2, 3, 4), dtype, 0.5, 1.5)
    ulps = 16 if dtype is numpy.float16 or name == "reduce_prod" else 4
    compare(name, x=x, keep_dims=keep_dims, ulps=ulps, magnitude=1, **options)


@pytest.mark.one_of(5)
@pytest.mark.parametrize("keep_dims", [False, True])
@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_integers(name, axes, keep_dims):
    options = {} if axes is None else {"axes": axes}
    x = draw(21, (2, 3, 4), numpy.int32, 1, 6)
    compare(name, x=x, keep_dims=keep_dims, **options)


def test_means_of_negative_integers_round_toward_zero():
    x = numpy.array([[-3, -4], [3, 4]], numpy.int32)
    assert compare("reduce_mean", x=x, axes=[1])[0].tolist() == [-3, 3]


def test_sum_of_integers_wraps():
    x = numpy.array([2**31 - 1, 1], numpy.int32)
    assert compute("reduce_sum", x=x)[0].tolist() == -(2**31)


def test_norms_of_float16_do_not_overflow():
    x = torch.full((4,), 300.0, dtype=torch.float16)
    assert compute("reduce_l2_norm", x=x)[0].tolist() == 600
    assert compute("reduce_log_sum_exp", x=x)[0].tolist() == pytest.approx(301.4, abs=0.2)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_no_axes_reduce_each_element_alone(name):
    x = draw(22, (2, 3), numpy.float32, 0.5, 1.5)
    (result,) = compute(name, x=x, axes=torch.zeros(0, dtype=torch.int32))
    assert result.shape == (2, 3)
    same = "reduce_l1_norm reduce_l2_norm reduce_max reduce_mean reduce_min reduce_prod reduce_sum"
    if name in same.split():
        assert_close(result, torch.from_numpy(x))


@pytest.mark.parametrize("dtype", [*FLOATS, numpy.int32])
@pytest.mark.parametrize("keep_dims", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1, None])
@pytest.mark.parametrize("name", ["reduce_argmax", "reduce_argmin"])
def test_arguments(name, axis, keep_dims, dtype):
    options = {} if axis is None else {"axis": axis}
    x = numpy.random.default_rng(23).permutation(24).reshape(2, 3, 4).astype(dtype)
    compare(name, x=x, keep_dims=keep_dims, **options)
    for output_dtype in ("int32", "uint16"):
        compare(name, "iOS17", x=x, keep_dims=keep_dims, output_dtype=output_dtype, **options)


def test_arguments_of_ties_are_the_first():
    assert compare("reduce_argmax", x=numpy.array([1, 3, 3], numpy.int32))[0].item() == 1


@pytest.mark.parametrize("dtype", [*FLOATS, numpy.int32])
@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("has_bias", [False, True])
def test_linear(shape, has_bias, dtype):
    options = {"bias": draw(26, (5,), dtype)} if has_bias else {}
    x, weight = draw(24, shape, dtype), draw(25, (5, 4), dtype)
    compare("linear", x=x, weight=weight, magnitude=8, **options)


@pytest.mark.parametrize("dtype", FLOATS)
def test_linear_of_two_dtypes(dtype):
    other = numpy.float16 if dtype is numpy.float32 else numpy.float32
    x, weight, bias = draw(24, (3, 4), dtype), draw(25, (5, 4), other), draw(26, (5,), other)
    (declared,), (result,) = (
        call("linear", *version, x=x, weight=weight, bias=bias)
        for call, version in ((infer, ["iOS17"]), (compute, []))
    )
    assert result.dtype == declared.dtype
    error = (result.double() - torch.from_numpy(declared.value).double()).abs().max()
    assert error < 0.02


@pytest.mark.parametrize("dtype", [*FLOATS, numpy.int32])
@pytest.mark.parametrize(
    "shapes",
    [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((5, 1, 3, 4), (2, 4, 2))],
    ids=str,
)
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
def test_matmul(shapes, transposed, dtype):
    operands = [draw(seed, shape, dtype) for seed, shape in enumerate(shapes, 27)]
    x, y = (
        v.swapaxes(-1, -2).copy() if t else v for v, t in zip(operands, transposed, strict=True)
    )
    flags = dict(zip(("transpose_x", "transpose_y"), transposed, strict=True))
    compare("matmul", x=x, y=y, magnitude=8, **flags)


def test_matmul_of_vectors():
    # coremltools cannot build these, although the docstring has them.
    vector, matrix = torch.arange(3.0), torch.arange(12.0).reshape(4, 3)
    assert compute("matmul", x=vector, y=vector)[0].item() == 5
    assert_close(compute("matmul", x=matrix, y=vector)[0], matrix @ vector)
    flags = {"transpose_x": True, "transpose_y": True}
    assert_close(compute("matmul", x=vector, y=matrix, **flags)[0], matrix @ vector)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("nchw,nwhu->nchu", ((2, 3, 4, 5), (2, 5, 4, 6))),
        ("nchw,nwhu->nchu", ((1, 3, 4, 5), (2, 5, 1, 6))),
        ("abcd,adce->abce", ((2, 3, 1, 5), (1, 5, 4, 6))),
        ("chw,whr->chr", ((3, 4, 5), (5, 4, 6))),
        ("chw,whr->chr", ((3, 1, 5), (5, 4, 6))),
    ],
    ids=str,
)
def test_einsum(equation, shapes, dtype):
    values = tuple(draw(seed, shape, dtype) for seed, shape in enumerate(shapes, 30))
    compare("einsum", values=values, equation=equation, magnitude=8)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mask", [None, "bool", "float"])
@pytest.mark.parametrize("batch", [(2,), (2, 3)], ids=str)
def test_attention(batch, mask, dtype):
    names = dict(zip(("query", "key", "value"), [(5, 8), (6, 8), (6, 4)], strict=True))
    inputs = {k: draw(i, (*batch, *s), dtype, -1, 1) for i, (k, s) in enumerate(names.items())}
    if mask == "bool":
        kept = draw(33, (5, 6)) > -1
        kept[:, 0] = True
        inputs["attn_mask"] = kept
    elif mask == "float":
        inputs["attn_mask"] = draw(33, (5, 6), dtype)
    compare("scaled_dot_product_attention", "iOS18", magnitude=1, **inputs)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axes", [[-1], [1, 2], [0, 2], [1], [-1, -2], [0, 1, 2]], ids=str)
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("epsilon", [None, 1e-2])
def test_layer_norm(axes, affine, epsilon, dtype):
    x = draw(34, (2, 3, 4), dtype)
    options = {"axes": axes}
    if epsilon is not None:
        options["epsilon"] = dtype(epsilon)
    if affine:
        sizes = sorted(axis % 3 for axis in axes)
        shape = [x.shape[axis] for axis in sizes]
        options |= {"gamma": draw(35, shape, dtype), "beta": draw(36, shape, dtype)}
    (result,) = compare("layer_norm", x=x, magnitude=4, **options)
    if len(axes) == 3:
        del options["axes"]
        assert torch.equal(compute("layer_norm", x=x, **options)[0], result)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 3, 4, 5), (2, 2, 3, 4, 5)], ids=str)
@pytest.mark.parametrize("epsilon", [None, 0.5])
def test_l2_norm(shape, epsilon, dtype):
    options = {} if epsilon is None else {"epsilon": dtype(epsilon)}
    compare("l2_norm", x=draw(37, shape, dtype), ulps=8, magnitude=1, **options)


@pytest.mark.parametrize("dtype", [*FLOATS, numpy.int32])
@pytest.mark.parametrize("axis", [0, 1, -1, None])
@pytest.mark.parametrize("reverse", [False, True])
def test_cumsum(axis, reverse, dtype):
    options = {} if axis is None else {"axis": axis}
    compare("cumsum", x=draw(38, (3, 4, 5), dtype), reverse=reverse, magnitude=8, **options)


SCALES = {"scalar": (0.05, 3), "vector": ([0.05, 0.1, 0.2], [3, 0, -5])}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", SCALES)
@pytest.mark.parametrize("has_zero_point", [False, True])
@pytest.mark.parametrize("output_dtype", ["int8", "uint8"])
@pytest.mark.parametrize("axis", [1, -2])
def test_quantize(kind, has_zero_point, output_dtype, axis, dtype):
    scale, zero = SCALES[kind]
    options = {"scale": dtype(scale) if kind == "scalar" else numpy.array(scale, dtype)}
    if has_zero_point:
        options["zero_point"] = numpy.abs(numpy.array(zero)).astype(output_dtype)[()]
    if kind == "vector":
        options["axis"] = axis
    # With values beyond the range on both sides.
    x = draw(39, (2, 3, 9), dtype, -12, 12)
    compare("quantize", "iOS17", input=x, output_dtype=output_dtype, **options)
    codes = draw(40, (2, 3, 9), numpy.int32, 0, 127).astype(output_dtype)
    (result,) = compare("dequantize", "iOS17", input=codes, valued=False, **options)
    expected = dequantize(codes, options, axis)
    assert result.dtype == torch.from_numpy(numpy.zeros(0, dtype)).dtype
    assert_close(result, torch.from_numpy(expected), 1)


def dequantize(codes, options, axis):
    shape = [-1 if i == axis % 3 else 1 for i in range(3)]
    scale, zero = (numpy.asarray(options.get(k, 0)) for k in ("scale", "zero_point"))
    scale, zero = (v.reshape(shape) if v.ndim else v for v in (scale, zero))
    exact = (codes.astype(numpy.float64) - zero.astype(numpy.float64)) * scale.astype(numpy.float64)
    return exact.astype(options["scale"].dtype)


def test_quantize_takes_halves_to_even():
    x = numpy.array([0.5, 1.5, 2.5, -0.5, -1.5], numpy.float32)
    (result,) = compare("quantize", "iOS17", input=x, scale=numpy.float32(1), output_dtype="int8")
    assert result.tolist() == [0, 2, 2, 0, -2]


def test_dequantize_is_materialized_alike():
    from backends.coreml.kernels.tests.folding import build

    codes = draw(41, (2, 3), numpy.int8, -100, 100)
    options = {"scale": numpy.array([0.1, 0.2, 0.3], numpy.float32), "axis": 1}
    options["zero_point"] = numpy.array([1, -2, 3], numpy.int8)
    variable = build("dequantize", "iOS17", input=codes, **options)
    (result,) = compute("dequantize", input=codes, **options)
    assert_close(result, torch.from_numpy(variable.op.materialized_val_inference()), 1)
