"""Checked mode reports faults of a kernel, and accepts everything that Metal allows."""

from __future__ import annotations

import numpy as np
import pytest

from backends.metal.host import (
    BarrierDivergence,
    DataRace,
    IntegerDivisionByZero,
    KernelFault,
    Library,
    LostWrite,
    OutOfBounds,
    ReadOnlyWrite,
    ThreadgroupMemoryExceeded,
    UninitializedRead,
    dispatch_array,
)

HEADERS = "#include <c10/metal/utils.h>\n#include <c10/metal/reduction_utils.h>\n"

POINTWISE = """kernel void generated_kernel(device float* out_ptr0, constant float* in_ptr0,
    uint xindex [[thread_position_in_grid]]) {{
  int x0 = xindex;
  auto tmp0 = in_ptr0[{load}];
  out_ptr0[{store}] = static_cast<float>(tmp0);
}}"""


def pointwise(load="x0", store="x0", size=100, grid=100):
    out, data = np.zeros(size, np.float32), np.arange(1, size + 1, dtype=np.float32)
    kernel = Library(POINTWISE.format(load=load, store=store)).kernel()
    try:
        kernel.dispatch([out, data], (grid, 1, 1), (32, 1, 1))
    except KernelFault:
        assert not out.any()
        raise
    return out


def test_the_correct_kernel_passes():
    assert pointwise().tolist() == list(range(1, 101))


@pytest.mark.parametrize(
    ("load", "store", "buffer", "index", "thread"),
    [
        ("x0 + 1", "x0", "in_ptr0", 100, 99),
        ("x0 - 1", "x0", "in_ptr0", -1, 0),
        ("x0 * 2", "x0", "in_ptr0", 100, 50),
        ("x0 + 1000000000", "x0", "in_ptr0", 1_000_000_000, 0),
        ("x0 - 2000000000", "x0", "in_ptr0", -2_000_000_000, 0),
        ("x0", "x0 + 1", "out_ptr0", 100, 99),
        ("x0", "99 - 2*x0", "out_ptr0", -1, 50),
    ],
)
def test_bad_index(load, store, buffer, index, thread):
    with pytest.raises(OutOfBounds, match=f"generated_kernel, thread .* {buffer}") as caught:
        pointwise(load, store)
    assert (caught.value.buffer, caught.value.index) == (buffer, index)
    assert caught.value.thread == (thread, 0, 0)


def test_wild_index_is_outside_of_every_buffer():
    with pytest.raises(OutOfBounds, match="unknown memory"):
        pointwise("(long(x0) + 1) << 50")


def test_grid_larger_than_the_tensor():
    with pytest.raises(OutOfBounds, match=r"in_ptr0\[100\], which has 100 elements"):
        pointwise(grid=101)


@pytest.mark.parametrize("store", ["x0 / 2", "0", "x0 % 99", "x0 % 64"])
def test_two_threads_write_one_element(store):
    with pytest.raises(DataRace, match="out_ptr0"):
        pointwise(store=store)


def test_reading_memory_that_another_threadgroup_writes():
    source = """kernel void generated_kernel(device float* data,
        uint i [[thread_position_in_grid]]) {
      data[i] = data[(i + OFFSET) % 64] + 1;
    }"""
    for offset in (1, 32, 63):
        kernel = Library(source.replace("OFFSET", str(offset))).kernel()
        with pytest.raises(DataRace, match="without a barrier"):
            kernel.dispatch([np.zeros(64, np.float32)], (64, 1, 1), (32, 1, 1))
    kernel = Library(source.replace("OFFSET", "64")).kernel()
    kernel.dispatch([np.zeros(64, np.float32)], (64, 1, 1), (32, 1, 1))


def test_many_threads_may_write_the_same_value():
    source = """kernel void generated_kernel(device float* data,
        uint i [[thread_position_in_grid]]) {
      data[i / 8] = i / 8;
    }"""
    data = np.zeros(8, np.float32)
    Library(source).kernel().dispatch([data], (64, 1, 1), (32, 1, 1))
    assert data.tolist() == list(range(8))


def test_a_threadgroup_fence_does_not_order_device_memory():
    source = """kernel void generated_kernel(device float* data,
        uint i [[thread_position_in_grid]]) {
      data[i] = i + 1.0;
      threadgroup_barrier(metal::mem_flags::FLAGS);
      const float other = data[i ^ 1];
      threadgroup_barrier(metal::mem_flags::FLAGS);
      data[i] = other;
    }"""
    data = np.zeros(64, np.float32)
    good = source.replace("FLAGS", "mem_device")
    Library(good).kernel().dispatch([data], (64, 1, 1), (64, 1, 1))
    assert data[:4].tolist() == [2, 1, 4, 3]
    with pytest.raises(DataRace):
        Library(source.replace("FLAGS", "mem_threadgroup")).kernel().dispatch(
            [data], (64, 1, 1), (64, 1, 1)
        )


def test_an_atomic_and_a_plain_write_race():
    source = """kernel void generated_kernel(device metal::atomic_int* count, device int* same,
        uint i [[thread_position_in_grid]]) {
      if (i == 5) { same[0] = 7; }
      else { metal::atomic_fetch_add_explicit(count, 1, metal::memory_order_relaxed); }
    }"""
    data = np.zeros(1, np.int32)
    with pytest.raises(DataRace):
        Library(source).kernel().dispatch([data, data], (8, 1, 1), (8, 1, 1))


def test_writing_a_constant():
    source = """kernel void generated_kernel(device float* out, constant float* in,
        uint i [[thread_position_in_grid]]) {
      out[i] = 0; const_cast<float*>(in)[i] = 1;
    }"""
    with pytest.raises(ReadOnlyWrite, match=r"in\[0\]"):
        Library(source).kernel().dispatch([np.ones(4, np.float32)] * 1 + [np.ones(4, np.float32)],
                                          (4, 1, 1), (4, 1, 1))  # fmt: skip


REDUCTION = (
    HEADERS
    + """[[max_total_threads_per_threadgroup(197)]]
kernel void generated_kernel(device float* out_ptr0, constant float* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]) {
  auto xindex = thread_pos.x; auto r0_index = thread_pos.y;
  int x0 = xindex; int r0_1 = r0_index;
  threadgroup float tmp_acc_0[7];
  threadgroup float tmp_acc_1[197];
  auto tmp0 = in_ptr0[r0_1 + 197*x0];
  auto tmp1 = c10::metal::threadgroup_sum(tmp_acc_0, tmp0, r0_index * 1, 197);
  tmp_acc_1[r0_index * 1] = tmp0 - tmp1;
  auto tmp2 = c10::metal::threadgroup_welford_reduce(tmp_acc_1, 197);
  if (r0_index == 0) out_ptr0[x0] = static_cast<float>(tmp2.x);
}"""
)


def reduction(old="", new=""):
    assert old in REDUCTION
    data = np.random.default_rng(0).standard_normal((3, 197)).astype(np.float32)
    out = np.zeros(3, np.float32)
    grid, group = dispatch_array((3, 197), (1, 197), 197)
    Library(REDUCTION.replace(old, new)).kernel().dispatch([out, data], grid, group)
    return out, data


def test_the_correct_reduction_passes():
    out, data = reduction()
    np.testing.assert_allclose(out, data.mean(1) - data.sum(1), rtol=1e-4)


@pytest.mark.parametrize(
    ("old", "new", "error", "buffer"),
    [
        # The width of a reduction, too large and too small.
        ("r0_index * 1, 197)", "r0_index * 1, 256)", OutOfBounds, "tmp_acc_0"),
        ("r0_index * 1, 197)", "r0_index * 1, 160)", LostWrite, "tmp_acc_0"),
        ("r0_index * 1, 197)", "r0_index * 1, 32)", LostWrite, "tmp_acc_0"),
        ("(tmp_acc_1, 197)", "(tmp_acc_1, 198)", OutOfBounds, "tmp_acc_1"),
        ("(tmp_acc_1, 197)", "(tmp_acc_1, 196)", LostWrite, "tmp_acc_1"),
        # Room for the partial results.
        ("tmp_acc_0[7]", "tmp_acc_0[6]", OutOfBounds, "tmp_acc_0"),
        ("tmp_acc_1[197]", "tmp_acc_1[196]", OutOfBounds, "tmp_acc_1"),
        # Indices.
        ("[r0_index * 1] =", "[r0_index * 1 + 1] =", OutOfBounds, "tmp_acc_1"),
        ("[r0_index * 1] =", "[r0_index / 2] =", DataRace, "tmp_acc_1"),
        ("[r0_index * 1] =", "[196 - r0_index + r0_index / 196] =", DataRace, "tmp_acc_1"),
        ("r0_1 + 197*x0", "r0_1 + 198*x0", OutOfBounds, "in_ptr0"),
        ("if (r0_index == 0) out_ptr0[x0]", "out_ptr0[x0 / 2]", DataRace, "out_ptr0"),
        # Another threadgroup's sum: these differ.
        ("out_ptr0[x0]", "out_ptr0[0]", DataRace, "out_ptr0"),
        # A reduction that not all threads join.
        (
            "tmp_acc_1[r0_index * 1] =",
            "if (r0_index == 9) return; tmp_acc_1[r0_index * 1] =",
            BarrierDivergence,
            None,
        ),
        (
            "tmp_acc_1[r0_index * 1] =",
            "if (r0_index != 9) tmp_acc_1[r0_index * 1] =",
            UninitializedRead,
            "tmp_acc_1",
        ),
        ("tmp_acc_1[197]", "tmp_acc_1[9000]", ThreadgroupMemoryExceeded, None),
        ("int x0 = xindex", "int x0 = xindex / (xindex - xindex)", IntegerDivisionByZero, None),
    ],
)  # fmt: skip
def test_planted_fault(old, new, error, buffer):
    with pytest.raises(error) as caught:
        reduction(old, new)
    assert caught.value.kernel == "generated_kernel"
    assert caught.value.buffer == buffer


TREE = """kernel void generated_kernel(device float* out, constant float* in,
    uint i [[thread_position_in_grid]]) {
  threadgroup float part[64];
  part[i] = in[i];
  FIRST
  for (uint n = 32; n > 0; n /= 2) {
    if (i < n) part[i] += part[i + n];
    INNER
  }
  if (i == 0) out[0] = part[0];
}"""
BARRIER = "threadgroup_barrier(metal::mem_flags::mem_threadgroup);"


@pytest.mark.parametrize(("first", "inner"), [("", BARRIER), (BARRIER, ""), ("", "")])
def test_missing_barrier(first, inner):
    source = TREE.replace("FIRST", first).replace("INNER", inner)
    data = np.arange(64, dtype=np.float32)
    with pytest.raises((DataRace, UninitializedRead)) as caught:
        Library(source).kernel().dispatch([np.zeros(1, np.float32), data], (64, 1, 1), (64, 1, 1))
    assert caught.value.buffer == "part"


def test_all_barriers():
    source = TREE.replace("FIRST", BARRIER).replace("INNER", BARRIER)
    data, out = np.arange(64, dtype=np.float32), np.zeros(1, np.float32)
    Library(source).kernel().dispatch([out, data], (64, 1, 1), (64, 1, 1))
    assert out[0] == data.sum()


def test_a_fault_leaves_the_runtime_usable():
    for _ in range(3):
        with pytest.raises(BarrierDivergence):
            reduction(
                "tmp_acc_1[r0_index * 1] =",
                "if (r0_index == 9) return; tmp_acc_1[r0_index * 1] =",
            )
        reduction()


SCATTER = """kernel void generated_kernel(device float* out_ptr0, constant long* in_ptr0,
    constant float* in_ptr1, device float* out_ptr1, uint xindex [[thread_position_in_grid]]) {{
  int x0 = xindex;
  auto tmp0 = in_ptr0[x0];
  auto tmp1 = in_ptr1[x0];
  auto tmp2 = tmp0 < 0;
  auto tmp3 = tmp2 ? tmp0 + 4 : tmp0;
  if ((tmp3 < 0 || tmp3 >= 4)) return;
  {body}
}}"""


def scatter(body, indices=(0, 1, 1, -4, 3)):
    out, other = np.zeros(4, np.float32), np.zeros(8, np.float32)
    values = np.arange(1, len(indices) + 1, dtype=np.float32)
    Library(SCATTER.format(body=body)).kernel().dispatch(
        [out, np.array(indices, np.int64), values, other], (len(indices), 1, 1), (2, 1, 1)
    )
    return out


def test_a_store_at_loaded_indices_may_meet_another():
    """PyTorch does not specify which of several values for one index remains."""
    out = scatter("out_ptr0[tmp3] = static_cast<float>(tmp1);")
    assert out[0] in (1, 4)
    assert out[1] in (2, 3)
    assert out[2:].tolist() == [0, 5]


@pytest.mark.parametrize(
    ("body", "buffer"),
    [
        ("out_ptr0[x0 / 2] = tmp1;", "out_ptr0"),
        ("out_ptr0[0] = tmp1;", "out_ptr0"),
        # The index is data, but the element is also read: an addition without an atomic.
        ("out_ptr0[tmp3] = out_ptr0[tmp3] + tmp1;", "out_ptr0"),
        ("out_ptr0[tmp3] += tmp1;", "out_ptr0"),
        ("out_ptr0[tmp3] = tmp1; out_ptr1[x0] = out_ptr0[tmp3];", "out_ptr0"),
        # Another buffer is scattered to, this one is not.
        ("out_ptr0[tmp3] = tmp1; out_ptr1[x0 / 2] = tmp1;", "out_ptr1"),
        # Some of the stores are at places that the code itself chose.
        ("out_ptr0[tmp3] = tmp1; out_ptr0[1] = tmp1 + x0;", "out_ptr0"),
        ("*(out_ptr0 + tmp3) = tmp1;", "out_ptr0"),
    ],
)
def test_other_writes_of_several_threads_stay_races(body, buffer):
    with pytest.raises(DataRace, match=buffer):
        scatter(body)


def test_a_scattered_buffer_that_is_also_given_as_another_argument_is_watched():
    source = SCATTER.format(body="out_ptr0[tmp3] = tmp1; out_ptr1[x0] = tmp1;")
    memory = np.zeros(8, np.float32)
    with pytest.raises(DataRace):
        Library(source).kernel().dispatch(
            [memory, np.array([1, 1, 0, 3]), np.arange(4, dtype=np.float32), memory],
            (4, 1, 1),
            (2, 1, 1),
        )


def test_a_scattered_buffer_is_still_bounds_checked():
    body = "out_ptr0[tmp3 * 4] = tmp1;"
    with pytest.raises(OutOfBounds, match="out_ptr0"):
        scatter(body)
