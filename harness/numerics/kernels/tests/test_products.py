"""Float64 products equal torch's own, whichever kernel computes them."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from harness.numerics.kernels import products, threads

CONVOLUTION = torch.ops.aten.convolution.default


def convolution(
    dims: int, groups: int, stride: int, dilation: int, transposed: bool, batch: int = 2
) -> tuple[object, ...]:
    """Return arguments of a convolution with one channel per group and two results per channel."""
    channels = 4
    generator = torch.Generator().manual_seed(0)
    shape = (channels, 2) if transposed else (2 * channels, channels // groups)
    x = torch.randn(batch, channels, *[7] * dims, dtype=torch.float64, generator=generator)
    w = torch.randn(*shape, *[3] * dims, dtype=torch.float64, generator=generator)
    bias = torch.randn(shape[1] * groups if transposed else shape[0], dtype=torch.float64)
    return (x, w, bias, [stride] * dims, [1] * dims, [dilation] * dims, transposed, [0] * dims,
            groups)  # fmt: skip


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("layout", ["contiguous", "channels last", "strided"])
def test_a_convolution_is_torchs_own(dims: int, layout: str, transposed: bool) -> None:
    for groups, stride, dilation in itertools.product((1, 2, 4), (1, 2), (1, 2)):
        if transposed and groups == 2:
            continue
        args = convolution(dims, groups, stride, dilation, transposed)
        image = args[0]
        assert isinstance(image, torch.Tensor)
        if layout == "strided":
            image = image.repeat_interleave(2, -1)[..., ::2]
        elif layout == "channels last":
            image = image.movedim(1, -1).contiguous().movedim(-1, 1)
        found = products.compute(CONVOLUTION, "convolution", (image, *args[1:]), {})
        expected = CONVOLUTION(image, *args[1:])
        torch.testing.assert_close(found, expected, rtol=1e-14, atol=1e-13)
        assert found.stride() == expected.stride()


def test_a_depthwise_convolution_of_a_channels_last_image_is_computed_contiguously(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    args = convolution(2, 4, 1, 1, transposed=False)
    image = args[0].contiguous(memory_format=torch.channels_last)  # type: ignore[attr-defined]
    seen: list[bool] = []

    class Spy:
        _schema = CONVOLUTION._schema

        def __call__(self, x: torch.Tensor, *others: object) -> torch.Tensor:
            seen.append(x.is_contiguous())
            return CONVOLUTION(x, *others)  # type: ignore[no-any-return]

    out = products.compute(Spy(), "convolution", (image, *args[1:]), {})
    assert seen == [True]
    assert out.is_contiguous(memory_format=torch.channels_last)


def test_an_empty_batch_has_an_empty_result() -> None:
    args = convolution(2, 4, 1, 1, transposed=False, batch=0)
    found = products.compute(CONVOLUTION, "convolution", args, {})
    assert found.shape == CONVOLUTION(*args).shape == (0, 8, 7, 7)


@pytest.mark.parametrize("name", ["mm", "bmm", "addmm", "baddbmm"])
def test_a_product_is_torchs_own(name: str) -> None:
    func = getattr(torch.ops.aten, name).default
    batch = (3,) if name in ("bmm", "baddbmm") else ()
    factors = [torch.randn(*batch, *shape, dtype=torch.float64) for shape in ((5, 6), (6, 4))]
    added = [torch.randn(4, dtype=torch.float64)] if "add" in name else []
    if name == "baddbmm":
        added = [torch.randn(3, 5, 4, dtype=torch.float64)]
    found = products.compute(func, name, (*added, *factors), {})
    assert torch.equal(found, func(*added, *factors))


def test_much_arithmetic_takes_all_threads_and_little_takes_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: taken[-1])
    monkeypatch.setattr(torch, "set_num_threads", lambda count: taken.append(count))
    taken = [6]
    seen: list[int] = []

    class Product:
        _schema = torch.ops.aten.mm.default._schema

        def __call__(self, *args: torch.Tensor) -> torch.Tensor:
            seen.append(taken[-1])
            return args[0]

    wide = torch.empty(()).expand(2**11, 2**11)
    assert math.prod(wide.shape) * 2**11 >= threads.ALL_THREADS_FROM
    with threads.one_thread():
        products.compute(Product(), "mm", (wide, wide), {})
        with threads.one_thread():
            products.compute(Product(), "mm", (wide, wide), {})
        products.compute(Product(), "mm", (wide[:9], wide), {})
        assert taken[-1] == 1
    assert seen == [6, 6, 1]
    assert taken[-1] == 6
