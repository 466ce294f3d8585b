"""Convolutions, pooling and normalizations, against loops over windows and declared shapes."""

import itertools
import math

import numpy
import pytest
import torch

from backends.coreml.kernels import call_kernel
from backends.coreml.kernels.tests.folding import assert_close, compare, compute, draw
from harness import ProgramError

pytestmark = pytest.mark.nightly

FLOATS = [numpy.float32, numpy.float16]


def draw_window(seed, largest=3):
    """Return seeded sizes, kernel, strides, dilations and a padding."""
    generator = numpy.random.default_rng(seed)
    rank = 1 + seed % largest
    sizes = generator.integers(5, 9, rank).tolist()
    kernel = generator.integers(1, 4, rank).tolist()
    strides = generator.integers(1, 4, rank).tolist()
    dilations = generator.integers(1, 3, rank).tolist()
    pad_type = ["valid", "same", "same_lower", "custom"][generator.integers(4)]
    pad = generator.integers(0, 3, 2 * rank).tolist()
    return sizes, kernel, strides, dilations, pad_type, pad


def pad_array(x, sizes, kernel, strides, pad_type, pad, value=0.0):
    """Pad the spatial axes as documented: ``same`` like TensorFlow."""
    pairs = []
    for axis, (n, k, s) in enumerate(zip(sizes, kernel, strides, strict=True)):
        total = max((math.ceil(n / s) - 1) * s + k - n, 0)
        pairs.append({
            "valid": (0, 0),
            "custom": tuple(pad[2 * axis : 2 * axis + 2]),
            "same": (total // 2, total - total // 2),
            "same_lower": (total - total // 2, total // 2),
        }[pad_type])  # fmt: skip
    return numpy.pad(x, [(0, 0), (0, 0), *pairs], constant_values=value)


def count_windows(padded, kernel, strides):
    return [(n - k) // s + 1 for n, k, s in zip(padded.shape[2:], kernel, strides, strict=True)]


def convolve(x, weight, strides, dilations, groups):
    """Convolve a padded input in float64, an output element at a time."""
    spread = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilations, strict=True)]
    counts = count_windows(x, spread, strides)
    result = numpy.zeros((x.shape[0], weight.shape[0], *counts))
    inside, outside = weight.shape[1], weight.shape[0] // groups
    for place in itertools.product(*map(range, counts)):
        ranges = [
            slice(p * s, p * s + k, d)
            for p, s, k, d in zip(place, strides, spread, dilations, strict=True)
        ]
        for channel in range(weight.shape[0]):
            first = channel // outside * inside
            part = x[(slice(None), slice(first, first + inside), *ranges)]
            result[(slice(None), channel, *place)] = (
                (part * weight[channel]).reshape(len(x), -1).sum(1)
            )
    return result


@pytest.mark.parametrize("seed", range(36))
def test_conv(seed):
    sizes, kernel, strides, dilations, pad_type, pad = draw_window(seed)
    dtype = FLOATS[seed % 2]
    groups = 1 + seed % 2
    x = draw(seed, (2, 4, *sizes), dtype)
    weight = draw(seed + 1, (6, 4 // groups, *kernel), dtype)
    options = {"strides": strides, "dilations": dilations, "groups": groups, "pad_type": pad_type}
    if pad_type == "custom":
        options["pad"] = pad
    if seed % 3:
        options["bias"] = draw(seed + 2, (6,), dtype)
    spread = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    padded = pad_array(x.astype(numpy.float64), sizes, spread, strides, pad_type, pad)
    expected = convolve(padded, weight.astype(numpy.float64), strides, dilations, groups)
    if "bias" in options:
        bias = options["bias"].astype(numpy.float64)
        expected += bias.reshape(1, -1, *[1] * len(sizes))
    inputs = {"x": x, "weight": weight, **options}
    (result,) = compare("conv", "iOS16", valued=False, **inputs)
    assert_close(result, torch.from_numpy(expected.astype(dtype)), 8, magnitude=8)


def test_conv_defaults():
    x, weight = draw(1, (1, 2, 5, 5)), draw(2, (3, 2, 2, 2))
    (result,) = compare("conv", x=x, weight=weight, valued=False)
    assert result.shape == (1, 3, 4, 4)


def test_conv_of_two_dtypes():
    x, weight = draw(1, (1, 2, 5, 5), numpy.float16), draw(2, (3, 2, 2, 2))
    (result,) = compare("conv", "iOS17", x=x, weight=weight, bias=draw(3, (3,)), valued=False)
    assert result.dtype == torch.float16


def test_conv_ignores_pad_of_other_types():
    inputs = {"x": draw(1, (1, 2, 5, 5)), "weight": draw(2, (3, 2, 2, 2)), "pad": [1, 1, 1, 1]}
    results = [compute("conv", pad_type=kind, **inputs)[0] for kind in ("valid", "custom")]
    assert [r.shape[2] for r in results] == [4, 6]


def test_conv_quantized():
    x, codes = draw(1, (1, 2, 5, 5)), numpy.arange(24, dtype=numpy.uint8).reshape(3, 2, 2, 2)
    scale, shift = numpy.array([0.5, 1, 2], numpy.float32), numpy.array([-1, 0, 1], numpy.float32)
    (result,) = compare(
        "conv_quantized", x=x, weight=codes, quantization_type="linear", quant_scale=scale,
        quant_bias=shift, pad_type="same", nbits=8, valued=False,
    )  # fmt: skip
    weight = codes * scale.reshape(-1, 1, 1, 1) + shift.reshape(-1, 1, 1, 1)
    assert torch.equal(result, compute("conv", x=x, weight=weight, pad_type="same")[0])


def spread_out(x, weight, strides, dilations, groups):
    """Compute the full transposed convolution in float64, an input element at a time."""
    spread = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilations, strict=True)]
    sizes = [(n - 1) * s + k for n, s, k in zip(x.shape[2:], strides, spread, strict=True)]
    inside, outside = x.shape[1] // groups, weight.shape[1]
    result = numpy.zeros((x.shape[0], outside * groups, *sizes))
    for place in itertools.product(*map(range, x.shape[2:])):
        ranges = [
            slice(p * s, p * s + k, d)
            for p, s, k, d in zip(place, strides, spread, dilations, strict=True)
        ]
        for channel in range(x.shape[1]):
            first = channel // inside * outside
            value = x[(slice(None), channel, *place)].reshape(-1, 1, *[1] * len(place))
            result[(slice(None), slice(first, first + outside), *ranges)] += value * weight[channel]
    return result


@pytest.mark.parametrize("seed", range(36))
def test_conv_transpose(seed):
    sizes, kernel, strides, dilations, pad_type, pad = draw_window(seed + 100)
    if pad_type == "same_lower":
        pad_type = "custom"
    dtype = FLOATS[seed % 2]
    groups = 1 + seed % 2
    x = draw(seed, (2, 4, *sizes), dtype)
    weight = draw(seed + 1, (4, 3, *kernel), dtype)
    options = {"strides": strides, "dilations": dilations, "groups": groups, "pad_type": pad_type}
    full = spread_out(
        x.astype(numpy.float64), weight.astype(numpy.float64), strides, dilations, groups
    )
    if pad_type == "custom":
        options["pad"] = pad
        cut = [slice(b, n - a) for b, a, n in zip(pad[::2], pad[1::2], full.shape[2:], strict=True)]
        full = full[(slice(None), slice(None), *cut)]
    elif pad_type == "same":
        for axis, (n, s) in enumerate(zip(sizes, strides, strict=True), 2):
            total = full.shape[axis] - n * s
            first = max(total, 0) // 2
            wide = numpy.pad(full, [(0, 9 if i == axis else 0) for i in range(full.ndim)])
            full = numpy.take(wide, range(first, first + n * s), axis)
    if seed % 3:
        options["bias"] = draw(seed + 2, (3 * groups,), dtype)
        full = full + options["bias"].astype(numpy.float64).reshape(-1, *[1] * len(sizes))
    (result,) = compare("conv_transpose", x=x, weight=weight, valued=False, **options)
    assert_close(result, torch.from_numpy(full.astype(dtype)), 16, magnitude=8)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("extra", [0, 1])
def test_conv_transpose_with_an_output_shape(extra, rank):
    # The output padding of torch.
    functions = [torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d]
    x, weight = draw(1, (2, 4, *[5] * rank)), draw(2, (4, 3, *[3] * rank))
    bias = draw(3, (3,))
    expected = functions[rank - 1](
        torch.from_numpy(x), torch.from_numpy(weight), torch.from_numpy(bias), 2, 1, extra
    )
    (result,) = compare(
        "conv_transpose", x=x, weight=weight, bias=bias, strides=[2] * rank, pad_type="custom",
        pad=[1] * 2 * rank, output_shape=list(expected.shape), valued=False,
    )  # fmt: skip
    assert_close(result, expected, 8, magnitude=8)


@pytest.mark.parametrize("seed", range(12))
def test_conv_transpose_is_the_gradient_of_conv(seed):
    sizes, kernel, strides, _, pad_type, _ = draw_window(seed, largest=2)
    if pad_type != "valid":
        pad_type = "same"
    x = torch.from_numpy(draw(seed, (1, 2, *sizes))).requires_grad_()
    weight = torch.from_numpy(draw(seed + 1, (3, 2, *kernel)))
    options = {"strides": torch.tensor(strides), "pad_type": pad_type, "weight": weight}
    from backends.coreml.kernels.convolution import conv

    result = conv(x=x, **options)
    upper = torch.from_numpy(draw(seed + 2, result.shape))
    (gradient,) = torch.autograd.grad(result, x, upper)
    back = call_kernel(
        "conv_transpose", {"x": upper, **options, "output_shape": torch.tensor(x.shape)}
    )
    assert_close(back, gradient, 8, magnitude=8)


def pool(x, sizes, kernel, strides, pad_type, pad, reduce):
    """Reduce each window of a padded input; padding is NaN."""
    padded = pad_array(x, sizes, kernel, strides, pad_type, pad, numpy.nan)
    counts = count_windows(padded, kernel, strides)
    result = numpy.zeros((*x.shape[:2], *counts))
    for place in itertools.product(*map(range, counts)):
        ranges = [slice(p * s, p * s + k) for p, s, k in zip(place, strides, kernel, strict=True)]
        window = padded[(slice(None), slice(None), *ranges)]
        result[(slice(None), slice(None), *place)] = reduce(window.reshape(*x.shape[:2], -1))
    return result


POOLS = {
    "max_pool": (numpy.nanmax, {}),
    "avg_pool": (lambda w: numpy.nan_to_num(w).mean(-1), {}),
    "avg_pool excluding": (numpy.nanmean, {"exclude_padding_from_average": True}),
    "l2_pool": (lambda w: numpy.sqrt(numpy.nansum(w**2, -1)), {}),
}


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("kind", POOLS)
def test_pool(kind, seed):
    name = kind.split()[0]
    sizes, kernel, strides, _, pad_type, pad = draw_window(
        seed + 200, largest=2 if name == "l2_pool" else 3
    )
    # Each window has an element of the input.
    pad = [min(number, kernel[i // 2] - 1) for i, number in enumerate(pad)]
    function, options = POOLS[kind]
    reduce = (lambda w: function(w, -1)) if function in (numpy.nanmax, numpy.nanmean) else function
    dtype = FLOATS[seed % 2]
    x = draw(seed, (2, 3, *sizes), dtype)
    expected = pool(x.astype(numpy.float64), sizes, kernel, strides, pad_type, pad, reduce)
    options = {**options, "strides": strides, "pad_type": pad_type}
    if pad_type == "custom":
        options["pad"] = pad
    (result,) = compare(name, "iOS16", x=x, kernel_sizes=kernel, valued=False, **options)
    assert_close(result, torch.from_numpy(expected.astype(dtype)), 4, magnitude=1)


CEILED = [
    case
    for case in itertools.product([(7,), (8,), (6, 9)], [2, 3], [2, 3], [0, 1])
    if case != ((6, 9), 2, 3, 0)  # see test_contradictions.py
]


@pytest.mark.parametrize(("sizes", "width", "stride", "padding"), CEILED)
def test_pool_with_ceil_mode(sizes, width, stride, padding):
    x, rank = draw(1, (1, 2, *sizes)), len(sizes)
    options = {"kernel_sizes": [width] * rank, "strides": [stride] * rank, "ceil_mode": True,
               "pad_type": "custom", "pad": [padding] * 2 * rank}  # fmt: skip
    tensor, (shape, name) = torch.from_numpy(x), ((width, stride, padding), f"{rank}d")
    functional = torch.nn.functional
    (result,) = compare("max_pool", x=x, valued=False, **options)
    expected = getattr(functional, f"max_pool{name}")(tensor, *shape, ceil_mode=True)
    assert torch.equal(result, expected)
    for exclude in (False, True):
        (result,) = compare(
            "avg_pool", x=x, exclude_padding_from_average=exclude, valued=False, **options
        )
        expected = getattr(functional, f"avg_pool{name}")(tensor, *shape, True, not exclude)
        assert_close(result, expected, 2, magnitude=1)


def test_ceil_mode_takes_a_window_larger_than_the_input():
    x = draw(1, (1, 2, 2, 3))
    options = {"pad_type": "valid", "ceil_mode": True, "strides": [9, 9], "valued": False}
    (result,) = compare("avg_pool", x=x, kernel_sizes=[9, 9], **options)
    assert_close(result, torch.from_numpy(x).mean((2, 3), keepdim=True), 2, magnitude=1)
    (result,) = compare("max_pool", x=x, kernel_sizes=[9, 9], **options)
    assert torch.equal(result, torch.from_numpy(x).amax((2, 3), keepdim=True))
    with pytest.raises(ProgramError, match="a window of 9 does not fit into 2"):
        compute("avg_pool", x=x, kernel_sizes=[9, 9], pad_type="valid", strides=[9, 9])
    with pytest.raises(ProgramError, match="a window of 12 does not fit into 2"):
        compute(
            "avg_pool", x=x, kernel_sizes=[12, 12], pad_type="valid", strides=[9, 9], ceil_mode=True
        )


def test_average_without_torchs_kernel_has_the_same_rule():
    # Windows of float16 in three dimensions, for which torch has no kernel; against float32.
    x = draw(1, (1, 2, 7, 6, 5), numpy.float16)
    options = {"kernel_sizes": [3, 2, 3], "strides": [2, 2, 2], "pad_type": "custom",
               "pad": [1, 1, 1, 1, 0, 0]}  # fmt: skip
    for exclude in (False, True):
        half, single = (
            compute("avg_pool", x=v, exclude_padding_from_average=exclude, **options)[0]
            for v in (x, x.astype(numpy.float32))
        )
        assert_close(half, single.half(), 1)


def test_pool_pads_with_more_than_half_the_window():
    x = torch.ones(1, 1, 2)
    options = {"kernel_sizes": [2], "pad_type": "custom", "pad": [2, 2]}
    (largest,) = compute("max_pool", x=x, **options)
    assert largest.flatten().tolist() == [-math.inf, 1, 1, 1, -math.inf]
    (mean,) = compute("avg_pool", x=x, **options)
    assert mean.flatten().tolist() == [0, 0.5, 1, 0.5, 0]


def test_ceil_mode_needs_equal_padding():
    options = {"kernel_sizes": [2], "pad_type": "custom", "pad": [1, 0], "ceil_mode": True}
    with pytest.raises(ProgramError, match="MIL operation max_pool: ceil_mode needs equal"):
        compute("max_pool", x=torch.ones(1, 1, 5), **options)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(2, 3, 5), (2, 3, 4, 5), (2, 3, 2, 4, 5)], ids=str)
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("epsilon", [None, 0.1])
def test_batch_norm(shape, affine, epsilon, dtype):
    x = draw(1, shape, dtype)
    mean, variance = draw(2, (3,), dtype), draw(3, (3,), dtype, 0.5, 2)
    options = {} if epsilon is None else {"epsilon": dtype(epsilon)}
    if affine:
        options |= {"gamma": draw(4, (3,), dtype), "beta": draw(5, (3,), dtype)}
    (result,) = compare("batch_norm", x=x, mean=mean, variance=variance, valued=False, **options)
    wide = [v.astype(numpy.float64).reshape(-1, *[1] * (len(shape) - 2)) for v in (mean, variance)]
    expected = (x.astype(numpy.float64) - wide[0]) / numpy.sqrt(wide[1] + (epsilon or 1e-5))
    assert_close(result, scale_channels(expected, options, dtype), 4, magnitude=4)


def scale_channels(x, options, dtype):
    for key, function in (("gamma", numpy.multiply), ("beta", numpy.add)):
        if key in options:
            column = options[key].astype(numpy.float64).reshape(-1, *[1] * (x.ndim - 2))
            x = function(x, column)
    return torch.from_numpy(x.astype(dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(2, 3, 5), (2, 3, 4, 5), (1, 3, 1)], ids=str)
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("epsilon", [None, 0.1])
def test_instance_norm(shape, affine, epsilon, dtype):
    x = draw(6, shape, dtype)
    options = {} if epsilon is None else {"epsilon": dtype(epsilon)}
    if affine:
        options |= {"gamma": draw(4, (3,), dtype), "beta": draw(5, (3,), dtype)}
    (result,) = compare("instance_norm", x=x, valued=False, **options)
    axes, wide = tuple(range(2, len(shape))), x.astype(numpy.float64)
    center = wide - wide.mean(axes, keepdims=True)
    expected = center / numpy.sqrt(wide.var(axes, keepdims=True) + (epsilon or 1e-5))
    # The difference of one element and its mean has the error of x / sqrt(epsilon).
    magnitude = 1000 if shape[2:] == (1,) else 4
    assert_close(result, scale_channels(expected, options, dtype), 8, magnitude)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("shape", [(2, 6, 5), (2, 6, 3, 4)], ids=str)
def test_local_response_norm(shape, size, dtype):
    x = draw(7, shape, dtype)
    options = {"alpha": dtype(0.5), "beta": dtype(0.75), "k": dtype(2)}
    (result,) = compare("local_response_norm", x=x, size=size, valued=False, **options)
    squares = numpy.pad(x.astype(numpy.float64) ** 2, [
        (0, 0), (size // 2, (size - 1) // 2), *[(0, 0)] * (len(shape) - 2)
    ])  # fmt: skip
    total = sum(squares[:, first : first + shape[1]] for first in range(size))
    expected = x / (2 + 0.5 / size * total) ** 0.75
    assert_close(result, torch.from_numpy(expected.astype(dtype)), 4)


def test_local_response_norm_defaults():
    x = torch.tensor([3.0]).reshape(1, 1, 1)
    expected = 3 / (1 + 1e-4 * 9) ** 0.75
    assert compute("local_response_norm", x=x, size=1)[0].item() == pytest.approx(expected)


def test_normalizations_of_two_dtypes():
    x, gamma = draw(1, (2, 3, 4), numpy.float16), draw(2, (3,))
    statistics = {"mean": draw(3, (3,)), "variance": draw(4, (3,), low=0.5)}
    compare("batch_norm", "iOS17", x=x, gamma=gamma, valued=False, **statistics)
    compare("instance_norm", "iOS17", x=x, gamma=gamma, beta=gamma, valued=False)
    (result,) = compute("layer_norm", x=x, axes=[1], gamma=gamma, beta=gamma)
    assert result.dtype == torch.float16
    (result,) = compute("batch_norm", x=draw(1, (2, 3, 4)), gamma=gamma.astype(numpy.float16),
                        **statistics)  # fmt: skip
    assert result.dtype == torch.float32
