"""Operations without value inference, against documented examples and independent code.

Examples "of coremltools' tests" have the numbers that its tests on Apple's runtime expect
(coremltools/converters/mil/mil/ops/tests/iOS14).
"""

import itertools

import numpy
import pytest
import torch

from backends.coreml.kernels.tests.folding import assert_close, compare, compute, draw
from harness import ProgramError

pytestmark = pytest.mark.nightly

FLOATS = [numpy.float32, numpy.float16]


def number(shape, dtype=numpy.float32):
    return numpy.arange(numpy.prod(shape, dtype=int)).reshape(shape).astype(dtype)


def test_depth_to_space_example_of_the_specification():
    # ReorganizeDataLayerParams in NeuralNetwork.proto.
    x = number((1, 8, 1, 2)) + 1
    (deep,) = compare("depth_to_space", x=x, block_size=2, valued=False)
    assert deep.tolist() == [[[[1, 5, 2, 6], [9, 13, 10, 14]], [[3, 7, 4, 8], [11, 15, 12, 16]]]]
    (shuffled,) = compare("pixel_shuffle", x=x, upscale_factor=2, valued=False)
    expected = [[[[1, 3, 2, 4], [5, 7, 6, 8]], [[9, 11, 10, 12], [13, 15, 14, 16]]]]
    assert shuffled.tolist() == expected


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("block", [2, 3])
def test_blocks_have_inverses(block, dtype):
    x = number((2, 2 * block**2, 3, 4), dtype)
    pairs = {"depth_to_space": ("space_to_depth", "block_size", "block_size"),
             "pixel_shuffle": ("pixel_unshuffle", "upscale_factor",
                               "downscale_factor")}  # fmt: skip
    for forward, (back, first, second) in pairs.items():
        (moved,) = compare(forward, x=x, valued=False, **{first: block})
        if back == "space_to_depth":
            (again,) = compare(back, x=moved.numpy(), valued=False, **{second: block})
        else:
            factor = {second: numpy.uint32(block)}
            (again,) = compare(back, "iOS16", x=moved.numpy(), valued=False, **factor)
        assert numpy.array_equal(again.numpy(), x)


def test_space_to_batch_example_of_coremltools_tests():
    x = number((2, 1, 2, 4)) + 1
    options = {"block_shape": [2, 2], "paddings": [[0, 0], [2, 0]]}
    (moved,) = compare("space_to_batch", x=x, valued=False, **options)
    expected = [[0, 1, 3], [0, 9, 11], [0, 2, 4], [0, 10, 12], [0, 5, 7], [0, 13, 15], [0, 6, 8],
                [0, 14, 16]]  # fmt: skip
    assert moved.reshape(8, 3).tolist() == expected
    options = {"block_shape": [2, 2], "crops": [[0, 0], [2, 0]]}
    (back,) = compare("batch_to_space", x=moved.numpy(), valued=False, **options)
    assert numpy.array_equal(back.numpy(), x)


@pytest.mark.parametrize("seed", range(8))
def test_space_to_batch_and_back(seed):
    generator = numpy.random.default_rng(seed)
    block = generator.integers(1, 4, 2)
    pad = generator.integers(0, 3, (2, 2))
    sizes = [int(b * generator.integers(2, 4) - p.sum()) for b, p in zip(block, pad, strict=True)]
    if min(sizes) < 1:
        sizes, pad = [int(b) * 3 for b in block], numpy.zeros((2, 2), int)
    x = number((2, 3, *sizes))
    (moved,) = compare(
        "space_to_batch", x=x, block_shape=block.tolist(), paddings=pad.tolist(), valued=False
    )
    padded = numpy.pad(x, [(0, 0), (0, 0), *map(tuple, pad)])
    for i, j in itertools.product(range(block[0]), range(block[1])):
        first = (i * block[1] + j) * 2
        expected = padded[:, :, i :: block[0], j :: block[1]]
        assert numpy.array_equal(moved[first : first + 2].numpy(), expected)
    (back,) = compute(
        "batch_to_space", x=moved.numpy(), block_shape=block.tolist(), crops=pad.tolist()
    )
    assert numpy.array_equal(back.numpy(), x)


def test_sliding_windows_example_of_coremltools_tests():
    x = numpy.array([9, 5, 1, 3], numpy.float32).reshape(1, 4, 1, 1)
    (result,) = compare("sliding_windows", x=x, axis=1, size=2, valued=False)
    assert result.flatten().tolist() == [9, 5, 5, 1, 1, 3]


@pytest.mark.parametrize("axis", [0, 1, -1, -3])
@pytest.mark.parametrize(("size", "stride"), [(1, 1), (2, 1), (3, 2), (2, 3)])
def test_sliding_windows(axis, size, stride):
    for dtype in (*FLOATS, numpy.int32):
        x = number((4, 5, 6), dtype)
        (result,) = compare(
            "sliding_windows", x=x, axis=axis, size=size, stride=stride, valued=False
        )
        for place in range(result.shape[axis % 3]):
            rows = range(place * stride, place * stride + size)
            expected = numpy.take(x, rows, axis)
            assert numpy.array_equal(result.numpy().take(place, axis % 3), expected)


def test_reverse_sequence_example_of_coremltools_tests():
    x = [[1, 2, 3, 4, 5, 0, 0, 0], [1, 2, 0, 0, 0, 0, 0, 0], [1, 2, 3, 4, 0, 0, 0, 0],
         [1, 2, 3, 4, 5, 6, 7, 8]]  # fmt: skip
    (result,) = compute("reverse_sequence", x=x, lengths=[7, 2, 3, 5], seq_axis=1, batch_axis=0)
    expected = [[0, 0, 5, 4, 3, 2, 1, 0], [2, 1, 0, 0, 0, 0, 0, 0], [3, 2, 1, 4, 0, 0, 0, 0],
                [5, 4, 3, 2, 1, 6, 7, 8]]  # fmt: skip
    assert result.tolist() == expected


@pytest.mark.parametrize(("sequence", "batch"), [(0, 1), (1, 0), (2, 0), (0, -1), (-2, 2)])
def test_reverse_sequence(sequence, batch):
    x = number((3, 4, 5))
    size, count = x.shape[sequence], x.shape[batch]
    lengths = numpy.random.default_rng(1).integers(0, size + 1, count).tolist()
    options = {"lengths": lengths, "seq_axis": sequence, "batch_axis": batch}
    (result,) = compare("reverse_sequence", x=x, valued=False, **options)
    expected = numpy.moveaxis(x.copy(), [batch, sequence], [0, 1])
    for row, length in zip(expected, lengths, strict=True):
        row[:length] = row[:length][::-1].copy()
    assert numpy.array_equal(result.numpy(), numpy.moveaxis(expected, [0, 1], [batch, sequence]))


def test_one_hot_examples_of_coremltools_tests():
    indices = numpy.array([1, 0], numpy.int32)
    size = {"indices": indices, "one_hot_vector_size": 4}
    (result,) = compare("one_hot", valued=False, **size)
    assert result.tolist() == [[0, 1, 0, 0], [1, 0, 0, 0]]
    (result,) = compare("one_hot", axis=0, valued=False, **size)
    assert result.tolist() == [[0, 1], [1, 0], [0, 0], [0, 0]]
    values = {"on_value": numpy.float32(1), "off_value": numpy.float32(0.5)}
    (result,) = compare("one_hot", valued=False, **values, **size)
    assert result.tolist() == [[0.5, 1, 0.5, 0.5], [1, 0.5, 0.5, 0.5]]


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_one_hot_axes(axis):
    indices = numpy.random.default_rng(1).integers(0, 5, (2, 3), numpy.int32)
    (result,) = compare("one_hot", indices=indices, one_hot_vector_size=5, axis=axis, valued=False)
    expected = numpy.moveaxis(numpy.eye(5, dtype=int)[indices], -1, axis)
    assert numpy.array_equal(result.numpy(), expected)


def test_one_hot_outside_of_the_vector():
    assert not compute("one_hot", indices=torch.tensor([-1, 4]), one_hot_vector_size=4)[0].any()


def test_crop_example_of_coremltools_tests():
    x = number((1, 1, 4, 4)) + 1
    (result,) = compare("crop", x=x, crop_height=[0, 1], crop_width=[1, 1], valued=False)
    assert result.flatten().tolist() == [2, 3, 6, 7, 10, 11]


def test_reshape_like_example_of_the_docstring():
    references = (number((2, 3, 4)), number((1, 5, 6)))
    (result,) = compare(
        "reshape_like", "iOS16", x=number((5, 36)), ref_tensors=references, begins=(0, 1),
        ends=(2, 0), end_masks=(False, True), valued=False,
    )  # fmt: skip
    assert result.shape == (2, 3, 5, 6)


def test_concat_example_of_the_docstring():
    values = [[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 10], [11, 12]]]
    tensors = tuple(numpy.array(v, numpy.float32) for v in values)
    (result,) = compute("concat", values=tensors, axis=0, interleave=True)
    assert result.tolist() == [[1, 2], [7, 8], [3, 4], [9, 10], [5, 6], [11, 12]]
    (result,) = compute("concat", values=tensors, axis=-1, interleave=True)
    assert result.tolist() == [[1, 7, 2, 8], [3, 9, 4, 10], [5, 11, 6, 12]]
    (result,) = compute("concat", values=tensors, axis=0)
    assert result.tolist() == sum(values, [])  # noqa: RUF017 - two lists


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [*FLOATS, numpy.int32])
def test_exclusive_cumsum(axis, reverse, dtype):
    x = number((3, 4, 5), dtype)
    (result,) = compute("cumsum", x=x, axis=axis, exclusive=True, reverse=reverse)
    ordered = numpy.flip(x, axis) if reverse else x
    expected = numpy.cumsum(ordered, axis, dtype=dtype) - ordered
    expected = numpy.flip(expected, axis) if reverse else expected
    assert numpy.array_equal(result.numpy(), expected)


def suppress(boxes, scores, most_overlap, least_score, limit, per_class):
    """Select boxes one after another in plain Python; float64."""
    best = [max(row) for row in scores]
    classes = [row.index(max(row)) for row in scores]
    corners = [(x - w / 2, y - h / 2, x + w / 2, y + h / 2) for x, y, w, h in boxes]
    kept = []
    for box in sorted(range(len(boxes)), key=lambda i: -best[i]):
        if best[box] < least_score:
            continue
        a = corners[box]
        for other in kept:
            b = corners[other]
            sides = [max(min(a[i + 2], b[i + 2]) - max(a[i], b[i]), 0) for i in range(2)]
            shared = sides[0] * sides[1]
            areas = sum((c[2] - c[0]) * (c[3] - c[1]) for c in (a, b)) - shared
            same = classes[box] == classes[other] or not per_class
            if same and shared > most_overlap * areas:
                break
        else:
            kept.append(box)
    return (kept or [max(range(len(boxes)), key=best.__getitem__)])[:limit]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize("overlap", [0.1, 0.5, 1.0])
@pytest.mark.parametrize(("least", "limit", "classes"), [(-9, 7, 1), (0, 40, 4), (9, 3, 4)])
def test_non_maximum_suppression(overlap, least, limit, classes, per_class, dtype):
    boxes = draw(1, (2, 30, 4), dtype, 1, 20)
    scores = draw(2, (2, 30, classes), dtype)
    numbers = {"iou_threshold": dtype(overlap), "max_boxes": limit,
               "per_class_suppression": per_class}  # fmt: skip
    results = compare(
        "non_maximum_suppression", boxes=boxes, scores=scores, score_threshold=dtype(least),
        valued=False, **numbers,
    )  # fmt: skip
    transposed = {"boxes": boxes.swapaxes(1, 2).copy(), "scores": scores.swapaxes(1, 2).copy()}
    new = compare("non_maximum_suppression", "iOS17", valued=False, **numbers, **transposed)
    for batch in range(2):
        lists = boxes[batch].tolist(), scores[batch].tolist()
        kept = suppress(*lists, overlap, least, limit, per_class)
        check_selection([r[batch] for r in results], boxes[batch], scores[batch], kept)
        assert results[3][batch] == len(kept)
        kept = suppress(*lists, overlap, -numpy.inf, limit, per_class)
        check_selection(
            [new[0][batch].mT, new[1][batch].mT, new[2][batch]], boxes[batch], scores[batch], kept
        )


def check_selection(results, boxes, scores, kept):
    indices = results[2].tolist()
    assert indices[: len(kept)] == kept
    assert set(indices[len(kept) :]) <= {-1}
    for result, source in zip(results, (boxes, scores), strict=False):
        assert numpy.array_equal(result[: len(kept)].numpy(), source[kept])
        assert not result[len(kept) :].any()


def test_non_maximum_suppression_example_of_coremltools_tests():
    boxes = numpy.repeat(number((4,)), 4).reshape(1, 4, 4)
    scores = numpy.array([-3.5, 9.4, 2.3, 0.7], numpy.float32).reshape(1, 4, 1)
    results = compute(
        "non_maximum_suppression", boxes=boxes, scores=scores, iou_threshold=0.2,
        score_threshold=0.4, max_boxes=2, per_class_suppression=True,
    )  # fmt: skip
    assert results[2].tolist() == [[1, 2]]
    assert results[3].tolist() == [2]


def test_topk_takes_all_with_minus_one():
    # The docstring of iOS 17; coremltools' value inference drops the last element.
    values, indices = compute("topk", x=torch.tensor([0.5, 1, 3, 2]), k=-1)
    assert values.tolist() == [3, 2, 1, 0.5]
    assert indices.tolist() == [2, 3, 1, 0]


def test_softplus_parametric_does_not_overflow():
    x = torch.tensor([100.0, -100.0]).reshape(1, 1, 2)
    (result,) = compute("softplus_parametric", x=x, alpha=torch.ones(1), beta=torch.ones(1))
    assert result.flatten().tolist() == [100, pytest.approx(0, abs=1e-40)]


def test_identity_of_a_list():
    parts = [torch.ones(1), torch.zeros(2)]
    assert compute("identity", x=torch.ones(1))[0].tolist() == [1]
    from backends.coreml.kernels import call_kernel

    assert call_kernel("identity", {"x": parts}) is parts


def test_attention_with_a_mask_of_another_dtype():
    q = draw(1, (1, 3, 4), numpy.float16)
    options = {"query": q, "key": q, "value": q, "attn_mask": draw(2, (3, 3))}
    (result,) = compare("scaled_dot_product_attention", "iOS18", magnitude=4, **options)
    half = {**options, "attn_mask": options["attn_mask"].astype(numpy.float16)}
    assert_close(result, compute("scaled_dot_product_attention", **half)[0], 1)


def test_einsum_of_other_equations():
    x = torch.ones(2, 2)
    with pytest.raises(ProgramError, match="einsum: unsupported equation 'ab,bc->ac'"):
        compute("einsum", values=(x.numpy(), x.numpy()), equation="ab,bc->ac")
