"""Slices, gathers and scatters with seeded parameters: exact."""

import itertools

import numpy
import pytest
import torch

from backends.coreml.kernels import call_kernel
from backends.coreml.kernels.tests.folding import assert_close, compare, compute, draw
from harness import ProgramError

FLOATS = [numpy.float32, numpy.float16]
ALL = [numpy.float32, numpy.float16, numpy.int32, numpy.int8, numpy.uint8, numpy.int16,
       numpy.uint16]  # fmt: skip
MODES = ["update", "add", "sub", "mul", "div", "max", "min"]


def number(shape, dtype=numpy.float32):
    return numpy.arange(numpy.prod(shape, dtype=int)).reshape(shape).astype(dtype)


def draw_slice(seed):
    """Return a shape and arguments of a slice with non-empty results."""
    generator = numpy.random.default_rng(seed)
    shape, arguments = [], {key: [] for key in ("begin", "end", "stride")}
    masks = {key: [] for key in ("begin_mask", "end_mask", "squeeze_mask")}
    for _ in range(generator.integers(1, 5)):
        size = int(generator.integers(2, 7))
        first, last = sorted(generator.choice(size, 2, replace=False).tolist())
        stride = int(generator.choice([1, 1, 2, 3, -1, -2]))
        begin, end = (first, last) if stride > 0 else (last, first)
        if stride > 0 and generator.random() < 0.3:
            begin, end = begin - size, end - size
        flags = generator.random(3) < (0.25, 0.25, 0.15)
        shape.append(size)
        for table, values in ((arguments, (begin, end, stride)), (masks, flags)):
            for key, value in zip(table, values, strict=True):
                table[key].append(value if table is arguments else bool(value))
    if all(masks["squeeze_mask"]):
        masks["squeeze_mask"][0] = False
    return shape, arguments | masks


@pytest.mark.parametrize("seed", range(60))
def test_slice_by_index(seed):
    shape, arguments = draw_slice(seed)
    dtype = ALL[seed % len(ALL)]
    compare("slice_by_index", "iOS17", x=number(shape, dtype), ulps=0, **arguments)


@pytest.mark.parametrize("seed", range(60))
def test_slice_update(seed):
    shape, arguments = draw_slice(seed)
    dtype = ALL[seed % len(ALL)]
    x = number(shape, dtype)
    (part,) = compute("slice_by_index", x=x, **arguments)
    update = (number(part.shape, numpy.int32) + 7).astype(dtype)
    (result,) = compare("slice_update", "iOS18", x=x, update=update, ulps=0, **arguments)
    (again,) = compute("slice_by_index", x=result.numpy(), **arguments)
    assert numpy.array_equal(again.numpy(), update)
    assert (result.numpy() != x).sum() <= update.size


def test_slice_update_leaves_its_input():
    x = torch.zeros(2, 3)
    options = {"begin": torch.tensor([0, 0]), "end": torch.tensor([1, 3])}
    call_kernel("slice_update", {"x": x, "update": torch.ones(1, 3), **options})
    assert x.sum() == 0


def test_squeezed_slices_count_from_the_end():
    x = number((3, 4))
    options = {"begin": [-1, 0], "end": [0, 4], "squeeze_mask": [True, False]}
    (result,) = compare("slice_by_index", x=x, ulps=0, **options)
    assert result.tolist() == [8, 9, 10, 11]


def test_slices_are_clamped_as_in_numpy():
    x = number((5,))
    for begin, end in ((-9, 3), (1, 99), (4, -2)):
        (result,) = compute("slice_by_index", x=x, begin=[begin], end=[end])
        assert result.tolist() == x[begin:end].tolist()


@pytest.mark.parametrize("seed", range(30))
def test_slice_by_size(seed):
    generator = numpy.random.default_rng(seed)
    shape = generator.integers(2, 7, generator.integers(1, 5)).tolist()
    begin = [int(generator.integers(0, n)) for n in shape]
    size = [int(generator.integers(1, n - b + 1)) for n, b in zip(shape, begin, strict=True)]
    if seed % 3 == 0:
        size[0] = -1
    x = number(shape, ALL[seed % len(ALL)])
    compare("slice_by_size", "iOS17", x=x, begin=begin, size=size, ulps=0)


def test_slice_by_size_of_nothing():
    # coremltools' value inference takes all that remain, its shape nothing.
    assert compute("slice_by_size", x=number((4,)), begin=[1], size=[0])[0].shape == (0,)


INDICES = ["int32", "int16", "uint16", "int8", "uint8"]


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)], ids=str)
def test_gather(shape, axis):
    size = (4, 5, 6)[axis]
    for seed, dtype in enumerate(ALL):
        indices = numpy.random.default_rng(seed).integers(0, size, shape).astype(numpy.int32)
        x = number((4, 5, 6), dtype)
        inputs = {"x": x, "indices": indices if shape else numpy.int32(indices), "axis": axis}
        compare("gather", "iOS17", ulps=0, **inputs)
        if dtype in (numpy.float32, numpy.float16, numpy.int32):
            inputs["indices"] = inputs["indices"] - numpy.int32(size)
            compare("gather", "iOS16", ulps=0, **inputs)


@pytest.mark.parametrize("index", INDICES)
def test_gather_at_small_indices(index):
    indices = numpy.array([[2, 0], [1, 2]]).astype(index)
    compare("gather", "iOS17", x=number((4, 3)), indices=indices, axis=1, ulps=0)
    compare("gather_along_axis", "iOS17", x=number((2, 3)), indices=indices, axis=1, ulps=0)


@pytest.mark.parametrize("batch_dims", [0, 1, 2])
@pytest.mark.parametrize("axis", [1, 2, 3])
@pytest.mark.parametrize("tail", [(), (3,), (2, 3)], ids=str)
def test_gather_with_batch_dims(batch_dims, axis, tail):
    if batch_dims > axis:
        return
    x, lead = number((2, 3, 4, 5)), (2, 3)[:batch_dims]
    indices = numpy.random.default_rng(1).integers(0, x.shape[axis], lead + tail, numpy.int32)
    if not indices.ndim:
        indices = numpy.int32(indices)
    (result,) = compute("gather", x=x, indices=indices, axis=axis, batch_dims=batch_dims)
    expected = numpy.array([
        numpy.take(x[place], numpy.asarray(indices)[place], axis - batch_dims)
        for place in itertools.product(*map(range, lead))
    ])  # fmt: skip
    shape = [*x.shape[:axis], *numpy.shape(indices)[batch_dims:], *x.shape[axis + 1 :]]
    assert numpy.array_equal(result.numpy(), expected.reshape(shape))
    if numpy.ndim(indices) > batch_dims:
        compare("gather", "iOS16", x=x, indices=indices, axis=axis, batch_dims=batch_dims, ulps=0)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_along_axis(axis):
    for seed, dtype in enumerate(ALL):
        x = number((3, 4, 5), dtype)
        shape = list(x.shape)
        shape[axis] = 7
        indices = numpy.random.default_rng(seed).integers(0, x.shape[axis], shape, numpy.int32)
        compare("gather_along_axis", "iOS17", x=x, indices=indices, axis=axis, ulps=0)
        if dtype in (numpy.float32, numpy.float16, numpy.int32):
            negative = {"x": x, "indices": indices - x.shape[axis], "axis": axis}
            compare("gather_along_axis", "iOS15", ulps=0, **negative)


@pytest.mark.parametrize("batch_dims", [0, 1, 2])
@pytest.mark.parametrize("depth", [1, 2])
def test_gather_nd(batch_dims, depth):
    generator = numpy.random.default_rng(3)
    for dtype in ALL:
        x = number((2, 3, 4, 5), dtype)
        lead = x.shape[:batch_dims]
        sizes = x.shape[batch_dims : batch_dims + depth]
        columns = [generator.integers(0, n, (*lead, 6), numpy.int32) for n in sizes]
        indices = numpy.stack(columns, -1)
        options = {"batch_dims": batch_dims}
        (result,) = compare("gather_nd", "iOS17", x=x, indices=indices, valued=False, **options)
        expected = numpy.array([
            [x[(*place, *position)] for position in indices[place]]
            for place in itertools.product(*map(range, lead))
        ])  # fmt: skip
        assert numpy.array_equal(result.numpy().reshape(expected.shape), expected)


def combine(mode, old, new):
    functions = {
        "update": lambda a, b: b,
        "add": numpy.add,
        "sub": numpy.subtract,
        "mul": numpy.multiply,
        "div": numpy.divide,
        "max": numpy.maximum,
        "min": numpy.minimum,
    }
    return functions[mode](old, new)


@pytest.mark.parametrize("dtype", [*FLOATS, numpy.int32])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scatter(axis, mode, dtype):
    if mode == "div" and dtype is numpy.int32:
        return
    data = draw(70, (3, 4, 5), dtype, 1, 9)
    size = data.shape[axis]
    indices = numpy.array([size - 1, 0], numpy.int32)
    shape = list(data.shape)
    shape[axis] = 2
    updates = draw(71, shape, dtype, 1, 9)
    expected = data.copy()
    for place, index in enumerate(indices):
        row = [slice(None)] * 3
        row[axis] = index
        value = numpy.take(updates, place, axis)
        expected[tuple(row)] = combine(mode, expected[tuple(row)], value)
    inputs = {"data": data, "indices": indices, "updates": updates, "axis": axis, "mode": mode}
    (result,) = compare("scatter", valued=False, **inputs)
    assert_close(result, torch.from_numpy(expected), 1)
    inputs["indices"] = indices - size
    assert torch.equal(compute("scatter", **inputs)[0], result)


def test_scatter_example_of_the_docstring():
    inputs = {"data": [[1, 2, 3], [4, 5, 6]], "updates": [[5, 6, 7], [8, 9, 10]]}
    (result,) = compute("scatter", indices=[1, 0], axis=0, mode="add", **inputs)
    assert result.tolist() == [[9, 11, 13], [9, 11, 13]]
    # The default is the mode that coremltools saves.
    assert compute("scatter", indices=[1, 0], **inputs)[0].tolist() == result.tolist()


@pytest.mark.parametrize("dtype", [*FLOATS, numpy.int32])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scatter_along_axis(axis, mode, dtype):
    if mode == "div" and dtype is numpy.int32:
        return
    data = draw(72, (3, 4, 5), dtype, 1, 9)
    shape = list(data.shape)
    shape[axis] = 2
    size = data.shape[axis]
    indices = numpy.argsort(numpy.random.default_rng(73).random(data.shape), axis)
    indices = numpy.take(indices, [0, 1], axis).astype(numpy.int32)
    updates = draw(74, shape, dtype, 1, 9)
    old = numpy.take_along_axis(data, indices, axis)
    expected = data.copy()
    numpy.put_along_axis(expected, indices, combine(mode, old, updates), axis)
    inputs = {"data": data, "indices": indices, "updates": updates, "axis": axis, "mode": mode}
    (result,) = compute("scatter_along_axis", **inputs)
    assert_close(result, torch.from_numpy(expected.astype(dtype)), 1)
    if mode == "update":
        compare("scatter_along_axis", ulps=0, **inputs)
    inputs["indices"] = indices - size
    assert torch.equal(compute("scatter_along_axis", **inputs)[0], result)


@pytest.mark.parametrize("dtype", [*FLOATS, numpy.int32])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_scatter_nd(depth, mode, dtype):
    if mode == "div" and dtype is numpy.int32:
        return
    data = draw(75, (3, 4, 5), dtype, 1, 9)
    indices = numpy.array([[2, 0, 4], [0, 3, 1]], numpy.int32)[:, :depth]
    updates = draw(76, (2, *data.shape[depth:]), dtype, 1, 9)
    expected = data.copy()
    for index, value in zip(indices, updates, strict=True):
        expected[tuple(index)] = combine(mode, expected[tuple(index)], value)
    inputs = {"data": data, "indices": indices, "updates": updates, "mode": mode}
    (result,) = compare("scatter_nd", valued=False, **inputs)
    assert_close(result, torch.from_numpy(expected), 1)


@pytest.mark.parametrize("mode", ["add", "sub", "mul", "div", "max", "min"])
def test_scatter_applies_repeated_indices(mode):
    data, updates = torch.tensor([8.0, 1.0]), torch.tensor([2.0, 4.0])
    (result,) = compute("scatter", data=data, indices=[0, 0], updates=updates, mode=mode)
    expected = {"add": 14, "sub": 2, "mul": 64, "div": 1, "max": 8, "min": 2}
    assert result.tolist() == [expected[mode], 1]


OUT_OF_RANGE = {
    "gather": {"x": torch.zeros(3), "indices": torch.tensor([3])},
    "gather_along_axis": {"x": torch.zeros(3), "indices": torch.tensor([3])},
    "gather_nd": {"x": torch.zeros(3), "indices": torch.tensor([[3]])},
    "scatter": {"data": torch.zeros(3), "indices": torch.tensor([3]), "updates": torch.ones(1)},
    "scatter_along_axis": {
        "data": torch.zeros(3), "indices": torch.tensor([3]), "updates": torch.ones(1)
    },
    "scatter_nd": {"data": torch.zeros(3), "indices": torch.tensor([[3]]),
                   "updates": torch.ones(1)},
}  # fmt: skip


@pytest.mark.parametrize("validate", [None, False, True])
@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_indices_out_of_range(name, validate):
    inputs = dict(OUT_OF_RANGE[name])
    if validate is not None:
        inputs["validate_indices"] = validate
    with pytest.raises(ProgramError, match=f"MIL operation {name}: index 3 is out of range"):
        call_kernel(name, inputs)
    inputs["indices"] = torch.full_like(inputs["indices"], -1)
    if validate is None:
        call_kernel(name, inputs)
    else:
        with pytest.raises(ProgramError, match=f"MIL operation {name}: index -1 is out of range"):
            call_kernel(name, inputs)
