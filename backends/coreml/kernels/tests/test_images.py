"""Resizing and sampling, against the documented grids, torch, and coremltools' own examples.

Examples "of coremltools' tests" have the numbers that its tests on Apple's runtime expect
(coremltools/converters/mil/mil/ops/tests/*/test_image_resizing.py).
"""

import numpy
import pytest
import torch
from torch.nn import functional

from backends.coreml.kernels.tests.folding import assert_close, compare, compute, draw
from harness import ProgramError, UnsupportedProgram

pytestmark = pytest.mark.nightly

FLOATS = [numpy.float32, numpy.float16]

# resize_bilinear's docstring: positions in an image of 2, for 5 and 6 samples.
GRIDS = {
    "UNALIGN_CORNERS": ([0, 0.1, 0.5, 0.9, 1], [0, 0, 0.33, 0.67, 1, 1]),
    "STRICT_ALIGN_CORNERS": ([0, 0.25, 0.5, 0.75, 1], [0, 0.2, 0.4, 0.6, 0.8, 1]),
    "ALIGN_CORNERS": ([0, 0.25, 0.5, 0.75, 1], [0, 0.2, 0.4, 0.6, 0.8, 1]),
    "DEFAULT": ([0, 0.4, 0.8, 1, 1], [0, 0.33, 0.67, 1, 1, 1]),
    "OFFSET_CORNERS": ([0.1, 0.3, 0.5, 0.7, 0.9], [0.08, 0.25, 0.42, 0.58, 0.75, 0.92]),
}


@pytest.mark.parametrize("mode", GRIDS)
def test_grids_of_the_docstring(mode):
    x = numpy.array([0, 1], numpy.float32).reshape(1, 1, 2)
    for expected in GRIDS[mode]:
        count = len(expected)
        sizes = {"target_size_height": 1, "target_size_width": count, "sampling_mode": mode}
        (result,) = compare("resize_bilinear", x=x, valued=False, **sizes)
        assert result.flatten().tolist() == pytest.approx(expected, abs=5e-3)
        shape = {"shape": [1, count], "resized_dims": numpy.uint32(2), "sampling_mode": mode}
        assert torch.equal(compare("resize", "iOS17", x=x, valued=False, **shape)[0], result)


@pytest.mark.parametrize("mode", GRIDS)
def test_one_sample(mode):
    x = numpy.arange(5, dtype=numpy.float32).reshape(1, 1, 5)
    (result,) = compute("resize_bilinear", x=x, sampling_mode=mode)
    expected = {"ALIGN_CORNERS": 2, "UNALIGN_CORNERS": 2, "OFFSET_CORNERS": 2}
    assert result.item() == expected.get(mode, 0)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("sizes", [(3, 4), (7, 9), (2, 11), (5, 5)], ids=str)
@pytest.mark.parametrize("align", [False, True])
def test_bilinear_is_torchs(align, sizes, dtype):
    x = draw(1, (2, 3, 5, 6), dtype)
    expected = functional.interpolate(
        torch.from_numpy(x), sizes, mode="bilinear", align_corners=align
    )
    mode = "STRICT_ALIGN_CORNERS" if align else "UNALIGN_CORNERS"
    height, width = sizes
    (result,) = compare(
        "resize_bilinear", x=x, target_size_height=height, target_size_width=width,
        sampling_mode=mode, valued=False,
    )  # fmt: skip
    assert_close(result, expected, 4, magnitude=3)
    factors = [(height + 1e-4) / 5, (width + 1e-4) / 6]
    scaled = compare(
        "upsample_bilinear", x=x, scale_factor_height=numpy.float32(factors[0]),
        scale_factor_width=numpy.float32(factors[1]), align_corners=align, valued=False,
    )  # fmt: skip
    assert torch.equal(scaled[0], result)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("factors", [(1, 2), (2, 3), (3.17, 0.67), (2.0, 1.12), (0.5, 0.75)])
def test_upsample(factors, dtype):
    x = draw(2, (2, 3, 10, 22), dtype)
    factors = tuple(numpy.float32(f) if isinstance(f, float) else f for f in factors)
    scales = dict(zip(("scale_factor_height", "scale_factor_width"), factors, strict=True))
    (nearest,) = compare("upsample_nearest_neighbor", x=x, valued=False, **scales)
    expected = functional.interpolate(torch.from_numpy(x), nearest.shape[2:], mode="nearest")
    assert torch.equal(nearest, expected)
    sizes = [f"target_size_{name}" for name in ("height", "width")]
    sizes = dict(zip(sizes, nearest.shape[2:], strict=True))
    (resized,) = compare("resize_nearest_neighbor", x=x, valued=False, **sizes)
    assert torch.equal(resized, nearest)
    (linear,) = compare("upsample_bilinear", x=x, valued=False, **scales)
    expected = functional.interpolate(
        torch.from_numpy(x), nearest.shape[2:], mode="bilinear", align_corners=True
    )
    # torch computes positions up to 22 in float32.
    assert_close(linear, expected, 4, magnitude=3 * 22)


def test_upsample_nearest_examples_of_coremltools_tests():
    x = numpy.array([1.5, -2.5, 3.5], numpy.float32).reshape(1, 1, 1, 3)
    two, three = [1.5, -2.5] * 3, [1.5, -2.5, 3.5] * 2
    for height, width, expected in ((3.17, 0.67, two), (2.0, 1.12, three)):
        (result,) = compute(
            "upsample_nearest_neighbor", x=x, scale_factor_height=height, scale_factor_width=width
        )
        assert result.flatten().tolist() == expected


HALVES = {
    (True, None): [1, 1.2, 1.4, 1.6, 1.8, 2],
    (True, False): [1, 1.2, 1.4, 1.6, 1.8, 2],
    (False, None): [1, 1, 4 / 3, 5 / 3, 2, 2],
    (False, True): [1, 1, 4 / 3, 5 / 3, 2, 2],
    (False, False): [1, 4 / 3, 5 / 3, 2, 2, 2],
}


@pytest.mark.parametrize(("align", "half"), HALVES)
def test_half_pixel_centers_of_coremltools_tests(align, half):
    x = numpy.array([1, 2], numpy.float32).reshape(1, 1, 1, 2)
    options = {} if half is None else {"half_pixel_centers": half}
    (result,) = compare(
        "upsample_bilinear", "iOS16", x=x, scale_factor_height=2, scale_factor_width=3,
        align_corners=align, valued=False, **options,
    )  # fmt: skip
    assert result.flatten().tolist() == pytest.approx(HALVES[align, half] * 2)


def test_both_corners_and_centers():
    with pytest.raises(ProgramError, match="upsample_bilinear: align_corners and half_pixel"):
        compute("upsample_bilinear", x=torch.ones(1, 1, 2), half_pixel_centers=True)


def test_resize_examples_of_coremltools_tests():
    x = numpy.array([-6.174, 9.371], numpy.float32).reshape(1, 1, 2, 1)
    (result,) = compare(
        "resize", "iOS17", x=x, shape=[1, 1, 3, 2], resized_dims=numpy.uint32(2),
        interpolation_mode="NEAREST_NEIGHBOR", valued=False,
    )  # fmt: skip
    low, high = x.flatten().tolist()
    assert result.flatten().tolist() == [low, low, low, low, high, high]


def test_resize_keeps_sizes_of_zero():
    x = draw(3, (1, 2, 3, 4))
    options = {"resized_dims": 2, "interpolation_mode": "LINEAR"}
    assert_close(compute("resize", x=x, shape=[1, 0, 0], **options)[0], torch.from_numpy(x))
    (result,) = compute("resize", x=x, shape=[6, 0], **options)
    assert result.shape == (1, 2, 6, 4)


def test_resize_with_an_undefined_nearest_element():
    options = {"interpolation_mode": "NEAREST_NEIGHBOR", "sampling_mode": "UNALIGN_CORNERS"}
    with pytest.raises(UnsupportedProgram, match="resize: NEAREST_NEIGHBOR with sampling mode"):
        compute("resize", x=torch.ones(1, 2, 2), shape=[4, 4], resized_dims=2, **options)


IMAGE = numpy.arange(1, 17, dtype=numpy.float32).reshape(1, 1, 4, 4)
BOXES = [
    ([1, 1, 2, 2], 2, False, [6, 7, 10, 11]),
    ([1, 1, 2, 2], 4, False, [6 + i * 4 / 3 + j / 3 for i in range(4) for j in range(4)]),
    ([1, 1, 2, 2], 1, False, [8.5]),
    ([0, 0, 1 / 3, 1 / 3], 2, True, [1, 2, 5, 6]),
    ([2, 2, 1, 1], 2, False, [11, 10, 7, 6]),
    ([0.1, 0.3, 1.3, 1.0], 2, True, [3.1, 5.2, 10, 10]),
    ([0.5, 1.8, 1.0, 0.3], 2, True, [10, 7.9, 10, 13.9]),
    ([0.0, 0.4, 0.6, 0.7], 2, True, [2.2, 3.1, 9.4, 10.3]),
]


@pytest.mark.parametrize(("box", "count", "normalized", "expected"), BOXES)
def test_crop_resize_examples_of_coremltools_tests(box, count, normalized, expected):
    options = {"target_height": count, "target_width": count, "sampling_mode": "ALIGN_CORNERS",
               "normalized_coordinates": normalized}  # fmt: skip
    box = numpy.array(box, numpy.float32)
    padded = {"pad_value": numpy.float32(10)}
    (new,) = compare("crop_resize", "iOS17", x=IMAGE, boxes=box.reshape(1, 4), valued=False,
                     **options, **padded)  # fmt: skip
    assert new.flatten().tolist() == pytest.approx(expected, abs=2e-3)
    roi = box.reshape(1, 1, 4, 1, 1)
    (old,) = compare("crop_resize", "iOS16", x=IMAGE, roi=roi, valued=False, **options, **padded)
    assert torch.equal(old.flatten(), new.flatten())
    assert old.shape == (1, 1, 1, count, count)
    roi = numpy.concatenate([[0], box]).astype(numpy.float32).reshape(1, 1, 5, 1, 1)
    (old,) = compare("crop_resize", "iOS16", x=IMAGE, roi=roi, valued=False, **options, **padded)
    assert torch.equal(old.flatten(), new.flatten())


def test_crop_resize_takes_each_box_from_each_image():
    x = numpy.concatenate([IMAGE, IMAGE + 100]).astype(numpy.float16)
    roi = numpy.array([[1, 1, 2, 2], [0, 0, 1, 1]], numpy.float16).reshape(2, 1, 4, 1, 1)
    options = {"target_height": 1, "target_width": 1, "sampling_mode": "ALIGN_CORNERS"}
    (result,) = compare("crop_resize", x=x, roi=roi, valued=False, **options)
    assert result.flatten().tolist() == [8.5, 108.5, 3.5, 103.5]
    boxes, indices = roi.reshape(2, 4), numpy.array([1, 1], numpy.int32)
    (result,) = compare("crop_resize", "iOS17", x=x, boxes=boxes, box_indices=indices,
                        valued=False, **options)  # fmt: skip
    assert result.flatten().tolist() == [108.5, 103.5]


MODES = {
    "CORNERS_HEIGHT_FIRST": [0.5, 1, 2.5, 3],
    "CORNERS_WIDTH_FIRST": [1, 0.5, 3, 2.5],
    "CENTER_SIZE_HEIGHT_FIRST": [1.5, 2, 2, 2],
    "CENTER_SIZE_WIDTH_FIRST": [2, 1.5, 2, 2],
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sampling", GRIDS)
def test_box_conventions(mode, sampling):
    # One box in four conventions; half its size with a scale of 2.
    options = {"target_height": 3, "target_width": 4, "sampling_mode": sampling}
    box = numpy.array([MODES[mode]], numpy.float32)
    first = numpy.array([MODES["CORNERS_HEIGHT_FIRST"]], numpy.float32)
    (expected,) = compute("crop_resize", x=IMAGE, boxes=first, **options)
    options["box_coordinate_mode"] = mode
    (result,) = compute("crop_resize", x=IMAGE, boxes=box, **options)
    assert torch.equal(result, expected)
    (result,) = compute("crop_resize", x=IMAGE, boxes=box / 2, spatial_scale=2.0, **options)
    assert torch.equal(result, expected)


@pytest.mark.parametrize("sampling", GRIDS)
def test_a_box_of_the_image_resizes_it(sampling):
    x = draw(4, (1, 2, 5, 6))
    options = {"sampling_mode": sampling}
    (expected,) = compute(
        "resize_bilinear", x=x, target_size_height=7, target_size_width=4, **options
    )
    boxes = numpy.array([[0, 0, 4, 5]], numpy.float32)
    (result,) = compute("crop_resize", x=x, boxes=boxes, target_height=7, target_width=4, **options)
    assert_close(result, expected, 2, magnitude=3)


def test_box_of_an_image_that_does_not_exist():
    for options in ({}, {"box_indices": torch.tensor([1, 1])}, {"box_indices": torch.tensor([0])}):
        with pytest.raises(ProgramError, match="MIL operation crop_resize: "):
            compute("crop_resize", x=IMAGE, boxes=numpy.zeros((2, 4), numpy.float32), **options)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["constant", "border", "reflection"])
@pytest.mark.parametrize("sampling", ["bilinear", "nearest"])
def test_resample_is_torchs_grid_sample(sampling, padding, align, dtype):
    x, points = draw(5, (2, 3, 4, 5), dtype), draw(6, (2, 6, 7, 2), low=-2, high=2)
    names = {"constant": "zeros", "border": "border", "reflection": "reflection"}
    expected = functional.grid_sample(
        torch.from_numpy(x).float(), torch.from_numpy(points), sampling, names[padding], align
    )
    # torch's reflection without align_corners is at the border of the pixels: MIL's symmetric.
    mode = "symmetric" if padding == "reflection" and not align else padding
    (result,) = compare(
        "resample", x=x, coordinates=points, sampling_mode=sampling, padding_mode=mode,
        padding_value=dtype(0), coordinates_mode="normalized_minus_one_to_one",
        align_corners=align, valued=False,
    )  # fmt: skip
    assert_close(result, expected.to(result.dtype), 4, magnitude=8)


SMALL = numpy.array([11, 22, 33, 44], numpy.float32).reshape(1, 1, 2, 2)
RESAMPLED = [
    ("bilinear", "constant", 6.17, "normalized_minus_one_to_one", True, [8.585, 6.17, 27.5, 6.17]),
    ("nearest", "border", -1, "unnormalized", False, [11, 11, 11, 44]),
    ("bilinear", "reflection", -1, "normalized_zero_to_one", True, [22, 36.3, 11, 34.1]),
    ("nearest", "symmetric", -1, "normalized_zero_to_one", False, [22, 33, 11, 33]),
]


@pytest.mark.parametrize(("sampling", "padding", "value", "mode", "align", "expected"), RESAMPLED)
def test_resample_examples_of_coremltools_tests(sampling, padding, value, mode, align, expected):
    points = numpy.array([-1, -2, -3.7, -1, 0, 0, 3.5, 1.2], numpy.float32).reshape(1, 2, 2, 2)
    (result,) = compute(
        "resample", x=SMALL, coordinates=points, sampling_mode=sampling, padding_mode=padding,
        padding_value=value, coordinates_mode=mode, align_corners=align,
    )  # fmt: skip
    assert result.flatten().tolist() == pytest.approx(expected, abs=1e-4)


def test_resample_far_outside():
    points = torch.tensor([[1e30, -1e30], [torch.nan, 0], [torch.inf, 0], [-torch.inf, 0]])
    for padding in ("constant", "border", "reflection", "symmetric"):
        for sampling in ("bilinear", "nearest"):
            (result,) = compute(
                "resample", x=SMALL, coordinates=points.reshape(1, 2, 2, 2),
                sampling_mode=sampling, padding_mode=padding, padding_value=0.0,
                coordinates_mode="normalized_zero_to_one", align_corners=True,
            )  # fmt: skip
            assert result.isfinite().all()
            if padding == "constant":
                assert not result.any()


def test_affine_examples_of_coremltools_tests():
    matrix = numpy.array([[-1, -2, -3.7, -1, 3.5, 1.2]], numpy.float32)
    options = {
        "sampling_mode": "bilinear", "padding_mode": "constant", "align_corners": True,
        "padding_value": numpy.float32(0), "coordinates_mode": "normalized_minus_one_to_one",
    }  # fmt: skip
    for (height, width), expected in (
        ((3, 3), [10.7525, 2.5025, 0, 1.98, 0, 0, 0, 0, 0]),
        ((2, 5), [10.7525, 5.94, 2.5025, 0.44, 0, 0, 0, 0, 0, 0]),
    ):
        (result,) = compare(
            "affine", x=SMALL, transform_matrix=matrix, output_height=height, output_width=width,
            valued=False, **options,
        )  # fmt: skip
        assert result.flatten().tolist() == pytest.approx(expected, abs=1e-4)
    two = numpy.concatenate([SMALL, SMALL])
    (result,) = compute(
        "affine", x=two, transform_matrix=matrix, output_height=3, output_width=3, **options
    )
    assert torch.equal(result[0], result[1])
