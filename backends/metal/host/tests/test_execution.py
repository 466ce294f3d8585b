"""Kernels that keep Metal's rules give the right results, checked and unchecked."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from backends.metal.host import Buffer, Library, dispatch_array, dispatch_single

HEADERS = "\n".join(
    f"#include <c10/metal/{name}.h>"
    for name in ("utils", "reduction_utils", "special_math", "random", "atomic")
)


def run(source, arguments, grid, group=None, *, name="generated_kernel"):
    """Run it both ways on copies; the outputs must agree to the bit. Outputs in place."""
    kernel = Library(f"{HEADERS}\n{source}").kernel(name)
    given = [np.array(a) if isinstance(a, np.ndarray) else a for a in arguments]
    group = group or tuple(min(n, 1024 if i == 0 else 1) for i, n in enumerate(grid))
    kernel.dispatch(given, grid, group, checked=False)
    kernel.dispatch(arguments, grid, group, checked=True)
    for one, other in zip(given, arguments, strict=True):
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one.view(np.uint8), other.view(np.uint8))


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def from_torch(tensor):
    return Buffer(tensor.data_ptr(), tensor.numel() * tensor.element_size(), tensor)


def test_elementwise_with_a_dynamic_size():
    a, b, out = random(3000), random(3000, seed=1), np.zeros(3000, np.float32)
    source = """kernel void generated_kernel(
        device float* out_ptr0, constant float* in_ptr0, constant float* in_ptr1,
        constant long& ks0, uint xindex [[thread_position_in_grid]]) {
      auto tmp0 = in_ptr0[xindex];
      auto tmp1 = in_ptr1[(ks0 - 1) - xindex];
      out_ptr0[xindex] = static_cast<float>(tmp0 * tmp1 + 1.5);
    }"""
    run(source, [out, a, b, 3000], (3000, 1, 1))
    np.testing.assert_array_equal(out, a * b[::-1] + np.float32(1.5))


@pytest.mark.parametrize("grid", [(7, 5, 3), (33, 70, 1), (1, 1, 9)])
def test_grid_that_threadgroups_do_not_divide(grid):
    out = np.zeros((*grid[::-1], 4), np.int32)
    source = """kernel void generated_kernel(device int* out, constant long& w, constant long& h,
        uint3 at [[thread_position_in_grid]], uint3 local [[thread_position_in_threadgroup]],
        uint3 group [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]]) {
      const auto i = ((at.z * h + at.y) * w + at.x) * 4;
      out[i] = at.x + 1; out[i + 1] = local.y; out[i + 2] = group.z; out[i + 3] = index;
    }"""
    _, group = dispatch_array(grid)
    run(source, [out, grid[0], grid[1]], grid, group)
    z, y, x = np.indices(grid[::-1])
    np.testing.assert_array_equal(out[..., 0], x + 1)
    np.testing.assert_array_equal(out[..., 1], y % group[1])
    np.testing.assert_array_equal(out[..., 2], z // group[2])
    extent = [np.minimum(group[i], grid[i] - a // group[i] * group[i]) for i, a in ((0, x), (1, y))]
    local = x % group[0] + extent[0] * (y % group[1] + extent[1] * (z % group[2]))
    np.testing.assert_array_equal(out[..., 3], local)


REDUCE = """[[max_total_threads_per_threadgroup({threads})]]
kernel void generated_kernel(device {out}* out_ptr0, constant {type}* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]) {{
  auto xindex = thread_pos.x; auto r0_index = thread_pos.y;
  int x0 = xindex;
  {body}
}}"""


def reduce(body, values, out, type="float", out_type="float"):
    rows, width = values.shape
    threads = min(width, 1024)
    grid, group = dispatch_array((rows, threads), (1, threads), threads)
    source = REDUCE.format(body=body, threads=threads, type=type, out=out_type)
    run(source, [out, values], grid, group)


@pytest.mark.parametrize("width", [1, 5, 32, 33, 197, 1000, 1024])
def test_sum_and_maximum_over_a_threadgroup(width):
    values, out = random(4, width), np.zeros((4, 2), np.float32)
    shared = -(-width // 32)
    reduce(
        f"""threadgroup float tmp_acc_0[{shared}], tmp_acc_1[{shared}];
        auto tmp0 = in_ptr0[r0_index + {width}*x0];
        auto tmp1 = c10::metal::threadgroup_sum(tmp_acc_0, tmp0, r0_index * 1, {width});
        auto tmp2 = c10::metal::threadgroup_max(tmp_acc_1, tmp0, r0_index * 1, {width});
        if (r0_index == 0) out_ptr0[2*x0] = static_cast<float>(tmp1);
        if (r0_index == 0) out_ptr0[2*x0 + 1] = static_cast<float>(tmp2);""",
        values,
        out,
    )
    np.testing.assert_allclose(out[:, 0], values.astype(np.float64).sum(1), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(out[:, 1], values.max(1))


def test_sum_in_several_steps():
    values, out = random(3, 5000), np.zeros(3, np.float32)
    reduce(
        """threadgroup float tmp_acc_0[32];
        float tmp_acc_1 = 0;
        for (auto r_cnt = 0; r_cnt < 5; ++r_cnt) {
          int r = 5 * r0_index + r_cnt;
          if (r >= 5000) break;
          tmp_acc_1 += in_ptr0[r + 5000*x0];
        }
        auto tmp1 = c10::metal::threadgroup_sum(tmp_acc_0, tmp_acc_1, r0_index * 1, 1024);
        if (r0_index == 0) out_ptr0[x0] = static_cast<float>(tmp1);""",
        values,
        out,
    )
    np.testing.assert_allclose(out, values.astype(np.float64).sum(1), rtol=1e-4, atol=1e-4)


def test_welford():
    values, out = random(3, 300) + 5, np.zeros((3, 2), np.float32)
    reduce(
        """threadgroup float tmp_acc_0[300];
        tmp_acc_0[r0_index * 1] = in_ptr0[r0_index + 300*x0];
        auto tmp1 = c10::metal::threadgroup_welford_reduce(tmp_acc_0, 300);
        if (r0_index == 0) out_ptr0[2*x0] = tmp1.x;
        if (r0_index == 0) out_ptr0[2*x0 + 1] = tmp1.y / tmp1.z;""",
        values,
        out,
    )
    np.testing.assert_allclose(out[:, 0], values.mean(1), rtol=1e-5)
    np.testing.assert_allclose(out[:, 1], values.var(1), rtol=1e-4)


def test_welford_in_several_steps():
    values, out = random(2, 3000) - 3, np.zeros((2, 2), np.float32)
    reduce(
        """threadgroup float3 tmp_acc_0[1024];
        tmp_acc_0[r0_index * 1] = 0.0;
        for (auto r_cnt = 0; r_cnt < 3; ++r_cnt) {
          int r = 3 * r0_index + r_cnt;
          if (r >= 3000) break;
          auto tmp0 = in_ptr0[r + 3000*x0];
          tmp_acc_0[r0_index * 1] = ::c10::metal::welford_combine(
              tmp_acc_0[r0_index * 1], float3(tmp0, 0.0, 1.0));
        }
        auto tmp1 = c10::metal::threadgroup_welford_combine(tmp_acc_0, 1024);
        if (r0_index == 0) { out_ptr0[2*x0] = tmp1.x; out_ptr0[2*x0 + 1] = tmp1.y / tmp1.z; }""",
        values,
        out,
    )
    np.testing.assert_allclose(out[:, 0], values.mean(1), rtol=1e-4)
    np.testing.assert_allclose(out[:, 1], values.var(1), rtol=1e-4)


@pytest.mark.parametrize("width", [3, 197])
def test_argmax(width):
    values, out = random(4, width), np.zeros(4, np.int64)
    reduce(
        f"""threadgroup float tmp_acc_0[7]; threadgroup long tmp_acc_1[7];
        auto tmp0 = in_ptr0[r0_index + {width}*x0];
        auto tmp1 = c10::metal::threadgroup_argmax(tmp_acc_0, tmp_acc_1,
            static_cast<float>(tmp0), static_cast<long>(r0_index * 1), r0_index * 1, {width});
        if (r0_index == 0) out_ptr0[x0] = static_cast<long>(tmp1);""",
        values,
        out,
        out_type="long",
    )
    np.testing.assert_array_equal(out, values.argmax(1))


def test_a_variable_without_a_value_does_not_get_a_plausible_one():
    out = np.zeros(4, np.int32)
    source = """kernel void generated_kernel(device int* out, constant float* in_ptr0,
        uint at [[thread_position_in_grid]]) {
      int found;
      if (in_ptr0[at] > 2) found = at;
      out[at] = found;
    }"""
    run(source, [out, np.array([1, 3, 1, 1], np.float32)], (4, 1, 1))
    assert out[1] == 1
    assert (np.delete(out, 1) < 0).all()


def test_maximum_keeps_nan():
    values, out = random(2, 64), np.zeros(2, np.float32)
    values[1, 40] = np.nan
    reduce(
        """threadgroup float tmp_acc_0[2];
        auto tmp0 = in_ptr0[r0_index + 64*x0];
        auto tmp1 = c10::metal::threadgroup_max(tmp_acc_0, tmp0, r0_index * 1, 64);
        if (r0_index == 0) out_ptr0[x0] = static_cast<float>(tmp1);""",
        values,
        out,
    )
    assert out[0] == values[0].max()
    assert np.isnan(out[1])


def test_any_writes_one_value_from_many_threads():
    values, out = np.zeros((3, 50), np.bool_), np.zeros(3, np.bool_)
    values[1] = True
    values[2, 7] = True
    reduce(
        """threadgroup bool tmp_acc_0;
        tmp_acc_0 = false;
        threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        if (in_ptr0[r0_index + 50*x0]) { tmp_acc_0 = true; }
        threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        if (r0_index == 0) out_ptr0[x0] = static_cast<bool>(tmp_acc_0);""",
        values,
        out,
        "bool",
        "bool",
    )
    assert out.tolist() == [False, True, True]


def test_shuffles():
    values, out = random(64), np.zeros((64, 8), np.float32)
    source = """kernel void generated_kernel(device float* out, constant float* in,
        uint i [[thread_position_in_grid]]) {
      const float v = in[i];
      out[8*i] = metal::simd_shuffle_down(v, 3);
      out[8*i + 1] = metal::simd_shuffle_up(v, 3);
      out[8*i + 2] = metal::simd_shuffle_xor(v, 5);
      out[8*i + 3] = metal::simd_broadcast(v, 9);
      out[8*i + 4] = metal::simd_shuffle_and_fill_down(v, -1.0f, 30);
      out[8*i + 5] = metal::simd_prefix_exclusive_sum(v);
      out[8*i + 6] = float(static_cast<ulong>(metal::simd_ballot(v > 0)));
      out[8*i + 7] = metal::simd_shuffle_rotate_down(v, 4);
    }"""
    run(source, [out, values], (64, 1, 1))
    for half in range(2):
        v, o = values[32 * half : 32 * half + 32], out[32 * half : 32 * half + 32]
        lane = np.arange(32)
        np.testing.assert_array_equal(o[:29, 0], v[3:])
        np.testing.assert_array_equal(o[3:, 1], v[:-3])
        np.testing.assert_array_equal(o[:, 2], v[lane ^ 5])
        np.testing.assert_array_equal(o[:, 3], np.full(32, v[9]))
        np.testing.assert_array_equal(o[:, 4], np.r_[v[30:], np.full(30, -1, np.float32)])
        np.testing.assert_allclose(o[:, 5], np.r_[0, v[:-1]].cumsum(), atol=1e-5)
        assert o[0, 6] == np.float32(sum(1 << i for i in range(32) if v[i] > 0))
        np.testing.assert_array_equal(o[:, 7], np.roll(v, -4))


def test_only_active_lanes_take_part():
    out = np.zeros(40, np.int32)
    source = """kernel void generated_kernel(device int* out, uint i [[thread_position_in_grid]]) {
      int r = 0;
      if (i % 3 == 0) { r = metal::simd_sum(1); } else { r = -metal::simd_sum(1); }
      for (uint n = 0; n < i % 2; ++n) r += 1000 * metal::simd_sum(1);
      out[i] = r;
    }"""
    run(source, [out], (40, 1, 1))
    for first, end in ((0, 32), (32, 40)):
        lanes = range(first, end)
        third = sum(i % 3 == 0 for i in lanes)
        for i in lanes:
            expected = third if i % 3 == 0 else third - len(lanes)
            assert out[i] == expected + 1000 * (len(lanes) // 2) * (i % 2)


def test_sum_of_longs_over_part_of_a_simdgroup():
    values, out = np.arange(35, dtype=np.int64).reshape(1, 35) << 33, np.zeros(1, np.int64)
    reduce(
        """threadgroup long tmp_acc_0[2];
        auto tmp1 = c10::metal::threadgroup_sum(
            tmp_acc_0, in_ptr0[r0_index], r0_index * 1, 35);
        if (r0_index == 0) out_ptr0[x0] = tmp1;""",
        values,
        out,
        "long",
        "long",
    )
    assert out[0] == values.sum()


@pytest.mark.parametrize(("type", "dtype"), [("half", torch.float16), ("bfloat", torch.bfloat16)])
def test_rounding_of_16_bits_is_torchs(type, dtype):
    bits = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16)
    every = bits.view(dtype)
    generator = torch.Generator().manual_seed(0)
    words = torch.randint(-(1 << 31), (1 << 31) - 1, (1 << 16,), generator=generator)
    floats = words.to(torch.int32).view(torch.float32)
    # Halfway between two neighbours, and next to it.
    floats[: 1 << 15] = (words[: 1 << 15].to(torch.int32) & ~0x1FFF | 0x1000).view(torch.float32)
    wide, narrow = torch.zeros(1 << 16), torch.zeros(1 << 16, dtype=dtype)
    source = f"""kernel void generated_kernel(device float* wide, device {type}* narrow,
        constant {type}* every, constant float* floats, uint i [[thread_position_in_grid]]) {{
      wide[i] = static_cast<float>(every[i]);
      narrow[i] = static_cast<{type}>(floats[i]);
    }}"""
    run(source, [from_torch(t) for t in (wide, narrow, every, floats)], *dispatch_single(1 << 16))
    assert torch.equal(wide.nan_to_num(7), every.float().nan_to_num(7))
    expected = floats.to(dtype)
    assert torch.equal(narrow.isnan(), expected.isnan())
    real = ~expected.isnan()
    assert torch.equal(narrow[real].view(torch.int16), expected[real].view(torch.int16))


@pytest.mark.parametrize("type", ["half", "bfloat"])
def test_arithmetic_of_16_bits_rounds_each_operation(type):
    dtype = torch.float16 if type == "half" else torch.bfloat16
    a, b = (torch.randn(999, generator=torch.Generator().manual_seed(s)).to(dtype) for s in (0, 1))
    out = torch.zeros(999, dtype=dtype)
    source = f"""kernel void generated_kernel(device {type}* out, constant {type}* a,
        constant {type}* b, uint i [[thread_position_in_grid]]) {{
      {type} sum = a[i] + b[i];
      sum *= b[i];
      out[i] = sum - a[i] * 2;
    }}"""
    run(source, [from_torch(t) for t in (out, a, b)], *dispatch_single(999))
    assert torch.equal(out, (a + b) * b - a * 2)


@pytest.mark.parametrize(
    ("type", "dtype"),
    [("float", torch.float32), ("int", torch.int32), ("long", torch.int64), ("half", torch.float16),
     ("bfloat", torch.bfloat16)],
)  # fmt: skip
def test_atomic_addition(type, dtype):
    out = torch.zeros(5, dtype=dtype)
    source = f"""kernel void generated_kernel(device {type}* out_ptr0,
        uint i [[thread_position_in_grid]]) {{
      auto p = reinterpret_cast<device c10::metal::AtomicType<{type}>::type *>(out_ptr0);
      c10::metal::AtomicType<{type}>::atomic_add(p, i % 3, static_cast<{type}>(i % 3 + 1));
    }}"""
    run(source, [from_torch(out)], (60, 1, 1), (32, 1, 1))
    # Once unchecked and once checked.
    assert out.tolist() == [40, 80, 120, 0, 0]


def test_special_functions_are_those_of_the_headers():
    x = torch.linspace(-3, 3, 301)
    out = torch.zeros(4, 301)
    source = """kernel void generated_kernel(device float* out, constant float* in,
        uint i [[thread_position_in_grid]]) {
      out[i] = c10::metal::erf(in[i]);
      out[301 + i] = c10::metal::log_gamma(metal::abs(in[i]) + 0.5);
      out[602 + i] = c10::metal::i0(in[i]);
      out[903 + i] = metal::precise::tanh(in[i]) + metal::precise::rsqrt(in[i] * in[i] + 1);
    }"""
    run(source, [from_torch(out), from_torch(x)], (301, 1, 1))
    y = x.double()
    expected = [
        torch.erf(y),
        torch.lgamma(y.abs() + 0.5),
        torch.i0(y),
        y.tanh() + (y * y + 1).rsqrt(),
    ]
    torch.testing.assert_close(out.double(), torch.stack(expected), rtol=2e-6, atol=2e-6)


def test_literals_are_floats():
    out = np.zeros(1, np.float32)
    source = """kernel void generated_kernel(device float* out,
        uint i [[thread_position_in_grid]]) { out[i] = (16777216.0 + 1.0) - 16777216.0; }"""
    run(source, [out], (1, 1, 1))
    assert out[0] == 0


def test_a_kernel_that_updates_in_place_through_two_arguments():
    data = random(100)
    before = data.copy()
    source = """kernel void generated_kernel(device float* in_out, constant float* same,
        uint i [[thread_position_in_grid]]) { in_out[i] = same[i] * 2; }"""
    Library(source).kernel().dispatch([data, data], (100, 1, 1), (100, 1, 1))
    np.testing.assert_array_equal(data, before * 2)
