"""Operations that move elements, against coremltools' value inference: exact."""

import numpy
import pytest
import torch

from backends.coreml.kernels.tests.folding import compare, compute, draw

DTYPES = [numpy.float32, numpy.float16, numpy.int32, numpy.bool_]
# Since iOS 17.
SMALL = [numpy.int8, numpy.uint8, numpy.int16, numpy.uint16]


def number(shape, dtype=numpy.float32):
    """Return elements 0, 1, 2, ... in the shape."""
    return numpy.arange(numpy.prod(shape, dtype=int)).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", [*DTYPES, *SMALL])
@pytest.mark.parametrize("shape", [[12], [-1], [3, 4], [2, -1, 2], [0, -1], [-1, 0], [0, 6]])
def test_reshape(shape, dtype):
    opset = "iOS17" if dtype in SMALL else "iOS15"
    compare("reshape", opset, x=number((2, 6), dtype), shape=shape, ulps=0)


@pytest.mark.parametrize(
    ("size", "shape"), [((2, 50), [1, 0, -1, 0]), ((2, 3), [0, 0, 2, 3]), ((2, 3), [0, -1, 0])]
)
def test_zeros_in_the_shape_since_ios17(size, shape):
    compare("reshape", "iOS17", x=number(size), shape=shape, ulps=0)


@pytest.mark.parametrize("axes", [[0], [-1], [1, 3], [0, -1], [2], [-5, -1, 2]], ids=str)
def test_expand_dims(axes):
    for dtype in DTYPES:
        compare("expand_dims", x=number((2, 3), dtype), axes=axes, ulps=0)


@pytest.mark.parametrize("axes", [None, [0], [-1], [0, 2], [-2, 0]], ids=str)
def test_squeeze(axes):
    options = {} if axes is None else {"axes": axes}
    for dtype in DTYPES:
        compare("squeeze", x=number((1, 3, 1, 1), dtype), ulps=0, **options)


@pytest.mark.parametrize("perm", [[0, 1, 2], [2, 0, 1], [-1, 0, -2], [1, -1, 0]], ids=str)
def test_transpose(perm):
    for dtype in [*DTYPES, *SMALL]:
        compare("transpose", "iOS17", x=number((2, 3, 4), dtype), perm=perm, ulps=0)


@pytest.mark.parametrize(
    ("shape", "axis"), [((4, 3), -1), ((2, 3, 2), -1), ((5, 5, 2), 1), ((2, 3, 4), None)]
)
def test_flatten2d(shape, axis):
    options = {} if axis is None else {"axis": axis}
    compare("flatten2d", x=number(shape), ulps=0, **options)


@pytest.mark.parametrize(
    ("shape", "axis", "expected"), [((3,), -1, (1, 3)), ((3,), 1, (3, 1)), ((2, 3), 0, (1, 6))]
)
def test_flatten2d_without_axes_on_a_side(shape, axis, expected):
    # The docstring's first two examples; coremltools fails on them.
    assert compute("flatten2d", x=number(shape), axis=axis)[0].shape == expected


@pytest.mark.parametrize("shape", [(3,), (2, 0, 4), (2, 3, 4)], ids=str)
def test_shape(shape):
    compare("shape", x=number(shape))


@pytest.mark.parametrize("reps", [[1, 1], [2, 3], [3, 1]], ids=str)
def test_tile(reps):
    for dtype in DTYPES:
        compare("tile", x=number((2, 3), dtype), reps=reps, ulps=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_concat_and_stack(axis, dtype):
    shapes = [[2, 3, 4], [2, 3, 4], [2, 3, 4]]
    values = tuple(draw(seed, shape, dtype) for seed, shape in enumerate(shapes, 50))
    compare("concat", values=values, axis=axis, ulps=0)
    compare("stack", values=values, axis=axis, ulps=0)
    shapes[1][axis] = 7
    values = tuple(draw(seed, shape, dtype) for seed, shape in enumerate(shapes, 50))
    compare("concat", values=values, axis=axis, ulps=0)


def test_concat_and_stack_of_scalars():
    values = tuple(map(numpy.float32, (3, 1, 2)))
    compare("concat", values=values, axis=0, ulps=0)
    compare("stack", values=values, axis=0, ulps=0)
    compare("stack", values=values[:1], axis=-1, ulps=0)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_split(axis):
    length = (6, 4, 8)[axis]
    for dtype in DTYPES:
        x = number((6, 4, 8), dtype)
        compare("split", x=x, num_splits=2, axis=axis, ulps=0)
        compare("split", x=x, num_splits=length, axis=axis, ulps=0)
        compare("split", x=x, split_sizes=[1, length - 3, 2], axis=axis, ulps=0)
        compare("split", x=x, num_splits=2, split_sizes=[1, length - 1], axis=axis, ulps=0)


@pytest.mark.parametrize("axes", [None, [0], [-1], [1, 2], [0, -1]], ids=str)
def test_reverse(axes):
    options = {} if axes is None else {"axes": axes}
    for dtype in [*DTYPES, *SMALL]:
        compare("reverse", "iOS17", x=number((2, 3, 4), dtype), ulps=0, **options)


@pytest.mark.parametrize("lower", [None, -1, 0, 1, 9])
@pytest.mark.parametrize("upper", [None, -1, 0, 2])
@pytest.mark.parametrize("shape", [(3, 4), (2, 4, 3)], ids=str)
def test_band_part(shape, lower, upper):
    options = {k: v for k, v in {"lower": lower, "upper": upper}.items() if v is not None}
    for dtype in DTYPES:
        compare("band_part", x=number(shape, dtype) + dtype(1), ulps=0, **options)


@pytest.mark.parametrize("shape", [[3], [2, 3], [1, 1, 1]], ids=str)
@pytest.mark.parametrize(
    "value", [None, numpy.float32(2.5), numpy.float16(2.5), numpy.int32(7), numpy.bool_(True)]
)
def test_fill(shape, value):
    options = {} if value is None else {"value": value}
    compare("fill", shape=shape, ulps=0, **options)
    for dtype in DTYPES:
        compare("fill_like", "iOS16", ref_tensor=number(shape, dtype), ulps=0, **options)


@pytest.mark.parametrize("dtype", [numpy.float32, numpy.float16, numpy.int32])
@pytest.mark.parametrize("limits", [(0, 5, 1), (1, 10, 3), (7, 0, -2), (-4, 4, 2)], ids=str)
def test_range(limits, dtype):
    names = ("start", "end", "step")
    compare("range_1d", ulps=0, **{k: dtype(v) for k, v in zip(names, limits, strict=True)})


def test_range_of_fractions():
    # numpy adds the rounded step to the start; the kernel rounds each element once.
    limits = {"start": numpy.float32(0.1), "end": numpy.float32(1), "step": numpy.float32(0.3)}
    (result,) = compare("range_1d", ulps=4, **limits)
    assert result.tolist() == pytest.approx([0.1, 0.4, 0.7])


def test_range_without_elements():
    (result,) = compute("range_1d", start=5, end=5, step=1)
    assert result.shape == (0,)
    assert result.dtype == torch.int32


PADS = [[1, 2], [0, 0], [1, 0, 2, 1], [0, 1, 1, 0, 2, 2]]


@pytest.mark.parametrize("dtype", [numpy.float32, numpy.float16])
@pytest.mark.parametrize("pad", PADS, ids=str)
@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", None])
def test_pad(pad, mode, dtype):
    options = {} if mode is None else {"mode": mode}
    if mode == "constant":
        options["constant_val"] = dtype(-1.5)
    compare("pad", x=number((3, 4, 5), dtype), pad=pad, ulps=0, **options)


@pytest.mark.parametrize("dtype", DTYPES)
def test_non_zero(dtype):
    x = numpy.array([[3, 0, 0], [0, 4, 0], [5, 6, 0]], dtype)
    compare("non_zero", x=x)
    compare("non_zero", x=x[0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shapes", [((4,), (4,), (4,)), ((2, 1), (2, 3), (2, 3)), ((2, 3), (2, 3), (1, 3))], ids=str
)
def test_select(shapes, dtype):
    cond, a, b = (draw(seed, shape, dtype) for seed, shape in enumerate(shapes, 60))
    compare("select", cond=cond > 0, a=a, b=b, ulps=0)


def test_select_of_scalars():
    compare("select", cond=numpy.bool_(True), a=numpy.float32(1), b=numpy.float32(2), ulps=0)
    (result,) = compute("select", cond=torch.tensor([True, False]), a=1.0, b=-1.0)
    assert result.tolist() == [1, -1]


def test_select_broadcasts_the_condition():
    # coremltools' shape ignores the condition.
    cond = torch.tensor([[True], [False]])
    (result,) = compute("select", cond=cond, a=torch.arange(3), b=torch.arange(3, 6))
    assert result.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_select_without_values_returns_indices():
    (result,) = compute("select", cond=torch.tensor([[True, False], [False, True]]))
    assert result.tolist() == [[0, 0], [1, 1]]


@pytest.mark.parametrize("dtype", [numpy.float32, numpy.float16, numpy.int32])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("ascending", [None, False, True])
def test_argsort(axis, ascending, dtype):
    options = {k: v for k, v in {"axis": axis, "ascending": ascending}.items() if v is not None}
    x = numpy.random.default_rng(61).permutation(24).reshape(2, 3, 4).astype(dtype)
    compare("argsort", x=x, **options)


@pytest.mark.one_of(5)
@pytest.mark.parametrize("dtype", [numpy.float32, numpy.float16, numpy.int32, *SMALL])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("ascending", [False, True])
@pytest.mark.parametrize("k", [None, 1, 2])
def test_topk(k, axis, ascending, dtype):
    options = {k: v for k, v in {"axis": axis, "k": k}.items() if v is not None}
    x = numpy.random.default_rng(62).permutation(24).reshape(2, 3, 4).astype(dtype)
    if numpy.issubdtype(dtype, numpy.unsignedinteger):
        ascending = True  # coremltools sorts -x otherwise, see test_contradictions.py
    compare("topk", "iOS17", x=x, ascending=ascending, ulps=0, **options)
    uint16 = {"output_indices_dtype": "uint16"}
    compare("topk", "iOS17", x=x, ascending=ascending, ulps=0, **uint16, **options)
    alone = {"return_indices": False, "sort": False}
    compare("topk", "iOS17", x=x, ascending=ascending, ulps=0, **alone, **options)
    if dtype not in SMALL:
        compare("topk", x=x, ascending=ascending, ulps=0, **options)
