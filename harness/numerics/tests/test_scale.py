"""Large values are computed in parts and shared by the runs, with the bounds of small ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from harness.backend_api import Precision
from harness.numerics import bounds
from harness.numerics.compare import compare
from harness.numerics.error_model import noise
from harness.numerics.large_tensors import attention, shared_sums
from harness.numerics.metrics import conclusiveness, differences
from harness.numerics.oracle import Reference, compute_reference

F = torch.nn.functional


class Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def reference(function: Callable[..., Any], *inputs: torch.Tensor) -> Reference:
    return compute_reference(Function(function), [inputs], Precision(), 0)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Process 7 elements at a time instead of a hundred thousand."""
    for module in (bounds, differences, noise):
        monkeypatch.setattr(module, "_PART", 7)
    monkeypatch.setattr(noise, "_LARGE", 8)


def layers(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = x @ w.t()
    y += 1.0  # a stored product must not share memory with y
    z = torch.relu(y) @ (x @ w.t()).t()
    return z.flip(0) @ torch.softmax(z, -1)


def test_sharing_runs_changes_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = torch.randn(6, 5), torch.randn(8, 5)
    apart = reference(layers, x, w)
    monkeypatch.setattr(shared_sums, "_LARGE", 0)
    shared = reference(layers, x, w)
    torch.testing.assert_close(shared.oracle, apart.oracle, rtol=0, atol=0)
    torch.testing.assert_close(shared.bound, apart.bound, rtol=1e-4, atol=0)


def test_without_memory_nothing_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = torch.randn(6, 5), torch.randn(8, 5)
    apart = reference(layers, x, w)
    monkeypatch.setattr(shared_sums, "_LARGE", 0)
    monkeypatch.setattr(shared_sums, "_MAX_BYTES", 0)
    # Magnitudes differ, which are computed in float32.
    torch.testing.assert_close(reference(layers, x, w).bound, apart.bound, rtol=1e-6, atol=0)


def squares(x: torch.Tensor) -> torch.Tensor:
    return x * x + 0.5


OPERATIONS: dict[str, tuple[Callable[..., torch.Tensor], list[tuple[int, ...]]]] = {
    "linear": (lambda x, w, b: F.linear(squares(x), w, b), [(5, 6), (7, 6), (7,)]),
    "of rows": (lambda x, w: squares(x) @ w, [(2, 3, 6), (6, 4)]),
    "batched": (lambda x, w: squares(x) @ w, [(2, 3, 6), (2, 6, 4)]),
    "convolution": (
        lambda x, w, b: F.conv2d(squares(x), w, b, stride=2, padding=1),
        [(2, 4, 6, 5), (6, 4, 3, 3), (6,)],
    ),
    "grouped": (lambda x, w: F.conv1d(squares(x), w, groups=2), [(3, 4, 9), (6, 2, 3)]),
    "transposed": (
        lambda x, w, b: F.conv_transpose2d(squares(x), w, b, stride=2, output_padding=1),
        [(2, 4, 5, 4), (4, 3, 3, 3), (3,)],
    ),
    "written to": (lambda x, w: F.linear(squares(x), w).relu_() @ w, [(5, 6), (6, 6)]),
    "its argument written to": (
        lambda x, w: F.linear(y := squares(x), w) + y.mul_(2.0), [(5, 6), (6, 6)]
    ),
}  # fmt: skip


@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e25])
@pytest.mark.parametrize("name", OPERATIONS)
def test_how_far_a_linear_operation_is_off_needs_few_digits(
    name: str, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, shapes = OPERATIONS[name]
    x, w, *bias = (torch.randn(shape) for shape in shapes)
    x[0] *= 1e-5  # a row, or an image, that is much smaller than the others
    inputs = [x, w * scale, *bias]
    apart = reference(function, *inputs)
    monkeypatch.setattr(shared_sums, "_LARGE", 0)
    shared = reference(function, *inputs)
    torch.testing.assert_close(shared.oracle, apart.oracle, rtol=0, atol=0)
    torch.testing.assert_close(shared.bound, apart.bound, rtol=1e-5, atol=0)


def test_a_copy_still_in_use_keeps_its_memory() -> None:
    result = torch.randn(3, 4)
    exact = shared_sums.TensorSnapshot.from_tensor(result)
    known = shared_sums.SharedSum([], exact=exact)
    first = known.copy_result()
    assert first is not None
    held, place = first.view(-1)[2:], first.data_ptr()
    del first
    second = known.copy_result()
    assert second is not None
    assert second.data_ptr() != place
    held.zero_()
    assert torch.equal(second, result)
    place = second.data_ptr()
    second += 1.0
    del second
    third = known.copy_result()
    assert third is not None
    assert third.data_ptr() == place, "memory without an owner is reused"
    assert torch.equal(third, result)


def test_a_sum_after_a_jump_is_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run on the other side of a tie sums other terms."""

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return w[(x @ x.t()).sum(-1).argmax()] @ w

    x, w = torch.ones(4, 3) * 0.1, torch.diag(torch.tensor([1.0, 1e3, 1e6, 1e9]))
    apart = reference(function, x, w)
    monkeypatch.setattr(shared_sums, "_LARGE", 0)
    shared = reference(function, x, w)
    torch.testing.assert_close(shared.bound, apart.bound, rtol=1e-4, atol=0)


@pytest.mark.usefixtures("small_parts")
def test_the_bound_of_a_large_value_is_that_of_a_small_one() -> None:
    x, w = torch.randn(16, 32), torch.randn(24, 32)
    large = reference(F.linear, x, w)
    assert compare(large.eager, large).passed
    wrong = large.eager[0][0].clone()
    wrong[11, 3] += 1e-3
    verdict = compare([[wrong]], large)
    assert verdict.numerics[0].worst_index == [11, 3]
    assert verdict.numerics[0].exceeding == 1


def test_parts_of_noise_are_as_large_as_the_whole(request: pytest.FixtureRequest) -> None:
    x, w = torch.randn(16, 32), torch.randn(24, 32)
    whole = reference(lambda x, w: torch.exp(F.linear(x, w) / 8), x, w)
    request.getfixturevalue("small_parts")
    parts = reference(lambda x, w: torch.exp(F.linear(x, w) / 8), x, w)
    ratio = parts.bound[0][0] / whole.bound[0][0]
    assert 0.9 < float(ratio.mean()) < 1.1
    assert 0.4 < float(ratio.min()) < float(ratio.max()) < 2.5


KINDS = ("plain", "causal", "masked", "hidden keys", "grouped", "longer keys", "scaled")


def make_attention(kind: str) -> tuple[Callable[..., torch.Tensor], list[torch.Tensor]]:
    query, key, value = (torch.randn(2, 4, 6, 4) for _ in range(3))
    if kind == "grouped":
        key, value = key[:, :2], value[:, :2]
    if kind == "longer keys":
        key, value = (torch.randn(2, 4, 9, 4) for _ in range(2))
    masks = {"masked": torch.randn(6, 6), "hidden keys": torch.rand(2, 1, 6, 6) < 0.7}
    masks["hidden keys"][..., 2] = True
    options: dict[str, Any] = {
        "is_causal": kind in ("causal", "grouped"),
        "attn_mask": masks.get(kind),
        "enable_gqa": kind == "grouped",
        "scale": 3.0 if kind == "scaled" else None,
    }

    def attend(*inputs: torch.Tensor) -> torch.Tensor:
        found = F.scaled_dot_product_attention(*inputs, **options)
        return found.transpose(1, 2).reshape(2, 6, 16)

    return attend, [query, key, value]


@pytest.mark.parametrize("max_scores", [1000, 30, 6])
@pytest.mark.parametrize("kind", KINDS)
def test_attention_in_blocks_is_attention(
    kind: str, max_scores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    attend, inputs = make_attention(kind)
    whole = reference(attend, *inputs)
    monkeypatch.setattr(attention, "_LARGE", 0)
    monkeypatch.setattr(attention, "_BLOCK", max_scores)
    blocks = reference(attend, *inputs)
    torch.testing.assert_close(blocks.oracle, whole.oracle, rtol=1e-13, atol=1e-14)
    assert compare(blocks.eager, blocks).passed
    ratio = blocks.bound[0][0] / whole.bound[0][0]
    assert 0.7 < float(ratio.mean()) < 2.5, ratio


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_large_attention_errs_in_its_dtype(
    dtype: torch.dtype, wide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    attend, inputs = make_attention("causal")
    sums = frozenset({attention.NAME}) if wide else frozenset()
    module, calls = Function(attend), [tuple(item.to(dtype) for item in inputs)]
    whole = compute_reference(module, calls, Precision(float32_sums=sums), 0)
    monkeypatch.setattr(attention, "_LARGE", 0)
    blocks = compute_reference(module, calls, Precision(float32_sums=sums), 0)
    assert compare(blocks.eager, blocks).passed
    assert 0.7 < float((blocks.bound[0][0] / whole.bound[0][0]).mean()) < 2.5


def test_a_wrong_weight_of_large_attention_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    attend, inputs = make_attention("plain")
    monkeypatch.setattr(attention, "_LARGE", 0)
    found = reference(attend, *inputs)
    query, key, value = inputs
    assert not compare([[attend(query, key * 1.0001, value)]], found).passed
    swapped = key[..., [1, 0, 2, 3, 4, 5], :]
    assert not compare([[attend(query, swapped, value)]], found).passed


def test_attention_with_a_row_without_keys_is_not_computed_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, inputs = make_attention("masked")
    mask = torch.zeros(6, 6).masked_fill(torch.eye(6, dtype=torch.bool).any(0), -torch.inf)
    assert attention.find_large(*inputs) is None
    monkeypatch.setattr(attention, "_LARGE", 0)
    assert attention.find_large(*inputs) is not None
    assert attention.find_large(*inputs, attn_mask=mask) is None


@pytest.mark.usefixtures("small_parts")
def test_figures_computed_in_parts_equal_those_of_the_whole() -> None:
    actual, expected = torch.randn(40), torch.randn(40)
    expected[5] = actual[5] = torch.inf
    limit = torch.rand(40, dtype=torch.float64)
    errors = differences.ErrorSummary.from_tensors(actual, expected.double(), limit, expected)
    error, within = differences.compute_errors(actual, expected.double(), limit, expected)
    assert errors.exceeding == int((~within).sum())
    assert errors.max_abs == float(error.max())
    assert errors.mean_abs == pytest.approx(float(error.mean()))
    assert errors.worst == int((error / limit).argmax())
    found = differences.Difference.from_tensors(actual, expected)
    kept = torch.arange(40) != 5
    a, r = actual[kept].double(), expected[kept].double()
    assert found.noise == pytest.approx(float((a - r).square().sum()))
    assert found.cosine == pytest.approx(float(torch.cosine_similarity(a, r, 0)))


def test_the_conclusive_share_of_a_large_output_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    oracle = torch.cat([torch.zeros(300), torch.arange(1.0, 101)]).double()
    bound = torch.full((400,), 0.1, dtype=torch.float64)
    assert conclusiveness.compute_conclusive_share(oracle, bound) == 0.25
    monkeypatch.setattr(conclusiveness, "_SAMPLE", 200)
    share = conclusiveness.compute_conclusive_share(oracle, bound)
    assert share == pytest.approx(0.25, abs=0.1)
    assert conclusiveness.compute_conclusive_share(torch.zeros(400).double(), bound) == 0


class Threads(torch.nn.Module):
    """Records the number of threads it runs on, and the size of its elements in bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[int, int]] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append((x.element_size(), torch.get_num_threads()))
        return x + 1


def test_float64_runs_use_one_thread_and_eager_runs_all() -> None:
    """An operation on several threads ends with the slowest, which other processes delay. Eager
    runs of all stages are compared bit by bit, so that each uses the same number of threads."""
    module, before = Threads(), torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        compute_reference(module, [(torch.randn(3),)], Precision(), 0)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert len(module.seen) > 8
    assert set(module.seen) == {(4, 3), (8, 1)}


def quantized(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Compute two products of quantized activations, with codes for weights."""
    codes, plain = torch.ops.quantized_decomposed, (0, -128, 127, torch.int8)

    def requantize(value: torch.Tensor, scale: float) -> torch.Tensor:
        encoded = codes.quantize_per_tensor.default(value, scale, *plain)
        return codes.dequantize_per_tensor.default(encoded, scale, *plain)

    weight = codes.dequantize_per_tensor.default(w, 0.01, *plain)
    first = requantize(requantize(x, 0.02) @ weight, 0.05)
    return requantize(first.relu() @ weight.mT, 0.1)


def test_sums_after_a_requantization_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch.ao.quantization.fx._decomposed  # registers the operators

    x, w = torch.randn(40, 24), torch.randint(-100, 100, (24, 32), dtype=torch.int8)
    apart = reference(quantized, x, w)
    monkeypatch.setattr(shared_sums, "_LARGE", 0)
    found: list[bool] = []
    add_deviation = shared_sums.SharedSums.add_deviation

    def record(self: Any, known: Any, call: Any) -> torch.Tensor | None:
        out = add_deviation(self, known, call)
        found.append(out is not None)
        return out

    monkeypatch.setattr(shared_sums.SharedSums, "add_deviation", record)
    shared = reference(quantized, x, w)
    torch.testing.assert_close(shared.oracle, apart.oracle, rtol=0, atol=0)
    assert found
    assert all(found)
    assert len(found) == 16, "both products in each of eight runs"
    torch.testing.assert_close(shared.bound, apart.bound, rtol=1e-5, atol=0)


def test_weights_are_decoded_once_for_all_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch.ao.quantization.fx._decomposed  # registers the operators

    from harness.numerics import arithmetic

    x, w = torch.randn(4, 24), torch.randint(-100, 100, (24, 32), dtype=torch.int8)
    decoded: list[torch.Size] = []
    decode = arithmetic.dequantize

    def record(name: str, args: tuple[Any, ...]) -> torch.Tensor:
        decoded.append(args[0].shape)
        return decode(name, args)

    monkeypatch.setattr(arithmetic, "dequantize", record)
    reference(quantized, x, w)
    assert decoded.count(w.shape) == 2, "once in each of two unperturbed runs"


def test_a_decoded_weight_that_a_run_writes_to_is_decoded_again() -> None:
    import torch.ao.quantization.fx._decomposed  # registers the operators

    def function(w: torch.Tensor) -> torch.Tensor:
        weight = torch.ops.quantized_decomposed.dequantize_per_tensor.default(
            w, 0.5, 0, -128, 127, torch.int8
        )
        return weight.add_(1.0)

    w = torch.arange(-5, 5, dtype=torch.int8)
    found = reference(function, w)
    torch.testing.assert_close(found.oracle[0][0], w.double() * 0.5 + 1)
    assert float(found.bound[0][0].max()) < 1e-6
