"""The fallback kernels against torch in float64, and how often they round."""

from __future__ import annotations

import math

import pytest
import torch
from executorch.backends.apple.metal.ops.gated_delta_rule import gated_delta_rule
from executorch.backends.apple.metal.ops.gather_qmv import _quantize_int4_affine, gather_qmv

from backends.metal.fallbacks import IMPLEMENTATIONS, attention, quantized as quantized_kernels
from backends.metal.fallbacks.quantized import unpack
from backends.metal.generation.lowbit import pack

FLOATS = [torch.float32, torch.bfloat16]
ROUNDOFF = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8}


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(7)


@pytest.fixture(params=["whole", "in blocks"])
def _sizes(request, monkeypatch):
    """Compute large results in parts, a row or two at a time."""
    if request.param == "in blocks":
        monkeypatch.setattr(attention, "_SCORES", 12)
        monkeypatch.setattr(quantized_kernels, "_DECODED", 600)


def run(name, *arguments):
    return IMPLEMENTATIONS[f"aoti_torch_mps_{name}"](*arguments)


def normal(*sizes, dtype=torch.float32):
    return torch.randn(sizes).to(dtype)


def assert_rounded_once(got, want, magnitude, length):
    """Within one rounding to the dtype and a float32 sum of ``length`` terms before it."""
    bound = ROUNDOFF[got.dtype] * want.abs() + (length + 8) * 2.0**-24 * magnitude + 1e-30
    assert got.shape == want.shape
    excess = (got.double() - want).abs() / bound
    assert excess.max() <= 1.01, excess.max()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("turned", [False, True])
def test_mm(dtype, turned):
    left, right = normal(7, 300, dtype=dtype), normal(300, 5, dtype=dtype)
    if turned:
        right = right.T.contiguous().T
    out = torch.full((7, 5), float("nan"), dtype=dtype)
    assert run("mm_out", out, left, right) == ()
    a, b = left.double(), right.double()
    assert_rounded_once(out, a @ b, a.abs() @ b.abs(), 300)


@pytest.mark.parametrize("dtype", FLOATS)
def test_bmm(dtype):
    left, right = normal(3, 7, 200, dtype=dtype), normal(3, 200, 5, dtype=dtype)
    out = torch.full((3, 7, 5), float("nan"), dtype=dtype)
    run("bmm_out", out, left, right)
    a, b = left.double(), right.double()
    assert_rounded_once(out, a @ b, a.abs() @ b.abs(), 200)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("sizes", [(5,), (1, 5), (7, 5), ()])
def test_addmm(dtype, sizes):
    bias, left, right = normal(*sizes, dtype=dtype), normal(7, 64), normal(64, 5)
    left, right = left.to(dtype), right.to(dtype)
    out = torch.full((7, 5), float("nan"), dtype=dtype)
    run("addmm_out", out, bias, left, right, 0.5, -2.0)
    a, b, c = left.double(), right.double(), bias.double()
    want = 0.5 * c - 2 * (a @ b)
    assert_rounded_once(out, want, 0.5 * c.abs() + 2 * (a.abs() @ b.abs()), 64)


CONVOLUTIONS = {
    "1d": ((2, 4, 20), (6, 4, 3), (2,), (1,), (2,), 0, (0,), 1),
    "1d depthwise": ((2, 4, 20), (4, 1, 5), (1,), (4,), (1,), 0, (0,), 4),
    "1d unbatched": ((4, 20), (6, 4, 3), (1,), (0,), (1,), 0, (0,), 1),
    "2d": ((2, 4, 9, 8), (6, 4, 3, 2), (2, 1), (1, 0), (1, 2), 0, (0, 0), 1),
    "2d grouped": ((1, 4, 9, 8), (6, 2, 3, 3), (1, 1), (1, 1), (1, 1), 0, (0, 0), 2),
    "2d unbatched": ((4, 9, 8), (6, 4, 3, 3), (1, 1), (0, 0), (1, 1), 0, (0, 0), 1),
    "1d transposed": ((2, 4, 9), (4, 3, 3), (2,), (1,), (1,), 1, (1,), 1),
    "2d transposed": ((2, 4, 5, 6), (4, 2, 3, 3), (2, 2), (1, 1), (1, 1), 1, (1, 0), 2),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolution(case, biased, dtype):
    sizes, weights, stride, padding, dilation, transposed, more, groups = CONVOLUTIONS[case]
    source, weight = normal(*sizes, dtype=dtype), normal(*weights, dtype=dtype)
    channels = weights[1] * groups if transposed else weights[0]
    bias = normal(channels, dtype=dtype) if biased else None
    n = len(stride)
    rest = (stride, n, padding, n, dilation, n, transposed, more, n, groups)
    [got] = run("convolution", source, weight, bias, *rest)

    def reference(change):
        batched = source if source.dim() == n + 2 else source[None]
        result = torch.ops.aten.convolution(
            change(batched.double()),
            change(weight.double()),
            None if bias is None else change(bias.double()),
            *(list(stride), list(padding), list(dilation), bool(transposed), list(more), groups),
        )
        return result if source.dim() == n + 2 else result[0]

    assert got.dtype == dtype
    assert got.is_contiguous()
    terms = math.prod(weights[1:])
    assert_rounded_once(got, reference(torch.clone), reference(torch.abs), terms)


def test_a_channels_last_convolution_returns_the_layout_of_later_kernels():
    source = normal(2, 4, 5, 6).contiguous(memory_format=torch.channels_last)
    weight = normal(3, 4, 1, 1)
    rest = ((1, 1), 2, (0, 0), 2, (1, 1), 2, 0, (0, 0), 2, 1)
    [got] = run("convolution", source, weight, None, *rest)
    assert got.stride() == (90, 1, 18, 3)
    [same] = run("convolution", source.contiguous(), weight, None, *rest)
    torch.testing.assert_close(got, same)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("dim", [-1, 0])
@pytest.mark.parametrize("largest", [0, 1])
def test_topk(dtype, dim, largest):
    source = torch.randperm(60).reshape(6, 10).to(dtype)
    values, indices = run("topk", source, 4, dim, largest, 0)
    want, places = torch.topk(source.double(), 4, dim, bool(largest))
    torch.testing.assert_close(values, want.to(dtype), rtol=0, atol=0)
    assert torch.equal(indices, places)
    assert indices.dtype == torch.int64
    assert values.is_contiguous()
    assert indices.is_contiguous()


def attend(query, key, value, mask=None, causal=0, scale=None, version="_v2"):
    name = f"_scaled_dot_product_attention_math_for_mps{version}"
    rest = (0,) if version else ()
    return run(name, query, key, value, mask, 0.0, causal, None, scale, *rest)


def exact_attention(query, key, value, **options):
    repeats = query.shape[1] // key.shape[1]
    key, value = (one.double().repeat_interleave(repeats, 1) for one in (key, value))
    if options.get("attn_mask") is not None:
        options["attn_mask"] = options["attn_mask"].double()
    return torch.nn.functional.scaled_dot_product_attention(query.double(), key, value, **options)


@pytest.mark.usefixtures("_sizes")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("version", ["", "_v2"])
@pytest.mark.parametrize("mode", ["plain", "causal", "mask", "heads", "scale", "strided"])
def test_attention(mode, version, dtype):
    heads = 2 if mode == "heads" else 4
    query = normal(2, 4, 6, 64, dtype=dtype)
    key, value = (normal(2, heads, 6, 64, dtype=dtype) for _ in range(2))
    mask, options = None, {}
    if mode == "mask":
        mask = normal(6, 6, dtype=dtype).masked_fill(torch.eye(6, dtype=torch.bool), -math.inf)
        options["attn_mask"] = mask
    elif mode == "causal":
        options["is_causal"] = True
    elif mode == "scale":
        options["scale"] = 0.3
    elif mode == "strided":
        query, key = (one.transpose(1, 2).contiguous().transpose(1, 2) for one in (query, key))
    causal, scale = int(mode == "causal"), options.get("scale")
    got, weights = attend(query, key, value, mask, causal, scale, version)
    want = exact_attention(query, key, value, **options)
    magnitude = exact_attention(query, key, value.abs(), **options)
    assert got.is_contiguous()
    # Scores of up to about 10, whose error of some 2^-24 times their sum the exponential carries.
    assert_rounded_once(got, want, 40 * magnitude, 64)
    assert weights.shape == (2, 4, 6, 6)
    assert weights.isnan().all()


@pytest.mark.usefixtures("_sizes")
def test_a_row_of_attention_without_keys_is_zero():
    query = normal(1, 1, 2, 64)
    for nothing in (-math.inf, torch.finfo(torch.float32).min, -1e9):
        mask = torch.tensor([[0.0, 0.0], [nothing, nothing]])
        got, _ = attend(query, query, query, mask)
        assert (got[0, 0, 1] == 0).all()
        assert got[0, 0, 0].isfinite().all()


@pytest.mark.usefixtures("_sizes")
def test_causal_attention_ends_at_the_last_key():
    query, key, value = normal(1, 1, 2, 64), normal(1, 1, 5, 64), normal(1, 1, 5, 64)
    got, _ = attend(query, key, value, causal=1)
    seen = torch.ones(2, 5).tril(3) == 1
    want = exact_attention(query, key, value, attn_mask=torch.zeros(2, 5).masked_fill(~seen, -1e30))
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("_sizes")
def test_a_query_before_the_first_key_sees_all_keys():
    query, key, value = normal(1, 1, 4, 64), normal(1, 1, 2, 64), normal(1, 1, 2, 64)
    got, _ = attend(query, key, value, causal=1)
    seen = torch.tensor([[1, 1], [1, 1], [1, 0], [1, 1]]) == 1
    want = exact_attention(query, key, value, attn_mask=torch.zeros(4, 2).masked_fill(~seen, -1e30))
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5)


def quantized(rows, columns, group, dtype):
    codes = torch.randint(0, 16, (rows, columns), dtype=torch.uint8)
    groups = -(-columns // group)
    scales, offsets = (torch.rand(rows, groups) + 0.5).to(dtype), normal(rows, groups, dtype=dtype)
    return codes, scales, offsets


def decoded(codes, scales, offsets, group):
    width = codes.shape[-1]
    step, offset = (
        one.double().repeat_interleave(group, -1)[..., :width] for one in (scales, offsets)
    )
    return codes.double() * step, offset


def test_unpacking_undoes_torchaos_packing():
    codes, _, _ = quantized(4, 64, 32, torch.float32)
    assert torch.equal(unpack(pack(codes, 4)), codes)


@pytest.mark.usefixtures("_sizes")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("group", "columns"), [(32, 64), (64, 512), (256, 512), (64, 200)])
def test_linear_4bit_of_one_row(group, columns, dtype):
    codes, scales, offsets = quantized(7, columns, group, dtype)
    x = normal(1, columns, dtype=dtype)
    [got] = run("_linear_fp_act_4bit_weight", x, pack(codes, 4), group, scales, offsets)
    steps, shift = decoded(codes, scales, offsets, group)
    want = x.double() @ (steps + shift).T
    magnitude = x.double().abs() @ (steps.abs() + shift.abs()).T
    # Four values at a time are summed in the dtype before the offset multiplies them.
    quads = x.double().abs() @ shift.abs().T * 3 * ROUNDOFF[dtype] / 2.0**-24
    assert_rounded_once(got, want, magnitude + quads, columns)


@pytest.mark.usefixtures("_sizes")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("group", [32, 256])
def test_linear_4bit_of_more_rows(group, dtype):
    codes, scales, offsets = quantized(8, 512, group, dtype)
    x = normal(5, 512, dtype=dtype)
    [got] = run("_linear_fp_act_4bit_weight", x, pack(codes, 4), group, scales, offsets)
    steps, shift = decoded(codes, scales, offsets, group)
    # The weight itself, with its two roundings to the dtype.
    product = (codes.to(dtype).double() * decoded(codes * 0 + 1, scales, offsets, group)[0]).to(
        dtype
    )
    weight = (product.double() + shift).to(dtype).double()
    if dtype is torch.float32:
        weight = steps + shift
    magnitude = x.double().abs() @ (steps.abs() + shift.abs()).T
    assert_rounded_once(got, x.double() @ weight.T, magnitude, 512)


@pytest.mark.usefixtures("_sizes")
@pytest.mark.parametrize("dtype", FLOATS)
def test_gather_qmv(dtype):
    weights = normal(3, 6, 128)
    packed, scales, offsets = _quantize_int4_affine(weights, 32)
    scales, offsets = scales.to(dtype), offsets.to(dtype)
    x, experts = normal(4, 128, dtype=dtype), torch.tensor([2, 0, 2, 1], dtype=torch.int32)
    [got] = run("gather_qmv", x, packed, scales, offsets, experts, 32)
    steps, shift = decoded(unpack(packed), scales, offsets, 32)
    chosen, moved = steps[experts.long()], shift[experts.long()]
    wide = x.double()[:, :, None]
    want = ((chosen + moved) @ wide).squeeze(-1)
    magnitude = ((chosen.abs() + moved.abs()) @ wide.abs()).squeeze(-1)
    quads = (moved.abs() @ wide.abs()).squeeze(-1) * 3 * ROUNDOFF[dtype] / 2.0**-24
    assert_rounded_once(got, want, magnitude + quads, 128)
    if dtype is torch.float32:
        upstream = gather_qmv(x, packed, scales, offsets, experts, 32)
        torch.testing.assert_close(got, upstream, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("heads", [4, 2])
def test_gated_delta_rule(heads, dtype):
    query, key = (normal(2, 5, heads, 64, dtype=dtype) / 8 for _ in range(2))
    value = normal(2, 5, 4, 64, dtype=dtype)
    gate, beta = (torch.rand(2, 5, 4).to(dtype) for _ in range(2))
    state = normal(2, 4, 64, 64, dtype=dtype)
    now, expected = state.clone(), state.clone()
    [got] = run("gated_delta_rule", query, key, value, gate, beta, now)
    want = gated_delta_rule(query, key, value, gate, beta, expected)
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(now, expected)
    assert not torch.equal(now, state)
    exact_state, steps = state.double(), []
    repeats = 4 // heads
    q, k = (one.double().repeat_interleave(repeats, 2) for one in (query, key))
    for step in range(5):
        exact_state = exact_state * gate[:, step, :, None, None].double()
        known = torch.einsum("bhvk,bhk->bhv", exact_state, k[:, step])
        delta = (value[:, step].double() - known) * beta[:, step, :, None].double()
        exact_state = exact_state + torch.einsum("bhv,bhk->bhvk", delta, k[:, step])
        steps.append(torch.einsum("bhvk,bhk->bhv", exact_state, q[:, step]))
    exact = torch.stack(steps, 1)
    scale = exact.abs().max()
    assert (got.double() - exact).abs().max() <= 2 * ROUNDOFF[dtype] * scale + 1e-5
    assert (now.double() - exact_state).abs().max() <= ROUNDOFF[dtype] * 8 + 1e-5


def test_results_are_rounded_once_and_not_summed_in_the_dtype():
    """2^8 + 1 + ... would stay at 2^8 in bfloat16."""
    left = torch.ones(1, 257, dtype=torch.bfloat16)
    left[0, 0] = 256
    out = torch.empty(1, 1, dtype=torch.bfloat16)
    run("mm_out", out, left, torch.ones(257, 1, dtype=torch.bfloat16))
    assert out.item() == 512
