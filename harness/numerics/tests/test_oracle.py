"""The oracle is float64 for any module, and the bound follows the arithmetic."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch._decomp import decomposition_table

from harness.model.precision import Precision
from harness.numerics.error_model.rules import ENTRIES, RULES, RoundingKind, get_rule
from harness.numerics.module_runs import run_calls
from harness.numerics.oracle import Reference, compute_reference

PRECISION = Precision()
UNIT = 2.0**-24


class Function(torch.nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


def reference(
    function: Callable[..., torch.Tensor],
    *inputs: torch.Tensor,
    precision: Precision = PRECISION,
) -> Reference:
    return compute_reference(Function(function), [inputs], precision, seed=1)


def largest_bound(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> float:
    return float(reference(function, *inputs).bound[0][0].max())


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (lambda x: x.to(torch.float32) / 3, torch.float32),
        (lambda x: x.to(torch.float16).to(torch.float32) / 3, torch.float32),
        (lambda x: torch.full((4,), 1 / 3, dtype=torch.float32) * x, torch.float32),
        (lambda x: x / 3, torch.int64),
        (lambda x: torch.sqrt(x), torch.int32),
    ],
)
def test_no_cast_rounds_the_oracle(
    function: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype
) -> None:
    x = torch.tensor([1, 2, 5, 7]).to(dtype)
    result = reference(function, x)
    truth = function(x.double()) if dtype.is_floating_point else function(x).double()
    exact = torch.tensor([1, 2, 5, 7], dtype=torch.float64)
    expected = exact.sqrt() if truth[3] > 2.5 else exact / 3
    assert torch.allclose(result.oracle[0][0], expected, rtol=1e-15, atol=0)
    assert result.eager[0][0].dtype == torch.float32


def test_exact_operations_have_no_spread() -> None:
    x = torch.randn(4, 5)
    bound = reference(lambda x: torch.relu(x.T).reshape(-1), x).bound[0][0]
    expected = torch.relu(x.T).reshape(-1).double() * UNIT + torch.finfo(torch.float32).tiny
    assert torch.allclose(bound, expected, rtol=1e-6, atol=0)


def test_the_bound_grows_with_the_reduction_but_not_linearly() -> None:
    bounds = {
        k: largest_bound(torch.mm, torch.rand(1, k) / k, torch.rand(k, 1)) for k in (4, 400, 40000)
    }
    assert 2 * bounds[4] < bounds[400] < bounds[40000]
    assert bounds[40000] / bounds[400] < 20, "probabilistic beyond 36 terms: sqrt(K)"


def test_cancellation_widens_the_bound() -> None:
    big = torch.tensor([1e6])
    plain = largest_bound(lambda x: x * 1.5 - 1.0, torch.tensor([1.0]))
    cancelling = largest_bound(lambda x: x * 1.5 - 1.5e6 + 0.5, big)
    assert cancelling > 1e4 * plain


def test_a_later_operation_damps_and_amplifies() -> None:
    x = torch.tensor([20.0])
    assert largest_bound(lambda x: torch.tanh(torch.exp(x) * 1e-3), x) < 1e-5
    assert largest_bound(lambda x: torch.exp(torch.exp(x / 10)), x) > 1e-3


def test_a_coarse_dtype_anywhere_widens_the_bound() -> None:
    x = torch.randn(8)
    fine = largest_bound(lambda x: x * 3, x)
    assert largest_bound(lambda x: (x * 3).bfloat16().float(), x) > 1e4 * fine
    assert largest_bound(lambda x: x * 3, x.half()) > 1e3 * fine


def test_infinities_do_not_spoil_their_neighbours() -> None:
    x = torch.tensor([[1.0, -torch.inf, 2.0], [0.5, 0.25, -torch.inf]])
    bound = reference(lambda x: torch.softmax(x, -1) @ torch.ones(3, 2), x).bound[0][0]
    assert bool(bound.isfinite().all())
    assert float(bound.min()) > UNIT


def test_a_bound_is_the_same_every_time() -> None:
    x = torch.randn(5, 6)
    first, second = (reference(lambda x: x.softmax(-1), x).bound[0][0] for _ in range(2))
    assert torch.equal(first, second)


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total: torch.Tensor = self.get_buffer("total")
        total.add_(x)
        return total * 1.0


def test_buffers_persist_over_calls_and_are_restored() -> None:
    module = Counter()
    calls = [(torch.tensor([1.0, 2.0]),)] * 3
    found = [call.outputs[0].tolist() for call in run_calls(module, calls)]
    assert found == [[1, 2], [2, 4], [3, 6]]
    result = compute_reference(module, calls, PRECISION, seed=0)
    assert [out[0].tolist() for out in result.oracle] == [[1, 2], [2, 4], [3, 6]]
    assert result.bound[2][0][0] > result.bound[0][0][0]
    assert module.get_buffer("total").tolist() == [0, 0]


def test_quantized_graphs_move_by_steps_of_their_requantizations() -> None:
    import torch.ao.quantization.fx._decomposed

    quantize = torch.ops.quantized_decomposed.quantize_per_tensor.default
    dequantize = torch.ops.quantized_decomposed.dequantize_per_tensor.default

    def once(x: torch.Tensor) -> torch.Tensor:
        return dequantize(quantize(x, 0.1, 0, -128, 127, torch.int8), 0.1, 0, -128, 127, torch.int8)  # type: ignore[no-any-return]

    x = torch.tensor([0.33, 1.21, -0.5, 99.0])
    precision = Precision(safety=2.0)
    of_input = reference(once, x, precision=precision)
    assert torch.allclose(of_input.oracle[0][0], torch.tensor([0.3, 1.2, -0.5, 12.7]).double())
    assert float(of_input.bound[0][0].max()) < 1e-5, "the program's own quantize is exact"
    inner = reference(lambda x: once(x * 1.0), x, precision=precision).bound[0][0]
    assert inner[:3].tolist() == pytest.approx([0.2] * 3, rel=1e-3), "two steps"
    assert 0.1 < float(inner[3]) < 0.2, "at the end of the range it moves one way only"


def test_every_compound_operation_can_be_decomposed() -> None:
    names = (getattr(overload, "_schema", None) for overload in decomposition_table)
    known = {schema.name.rpartition("::")[2] for schema in names if schema is not None}
    composite = torch._C.DispatchKey.CompositeImplicitAutograd
    compound = {name for name, rule in RULES.items() if rule.is_compound}
    for name in compound - known:
        packet = getattr(torch.ops.aten, name)
        overload = getattr(packet, packet.overloads()[0])
        assert overload.has_kernel_for_dispatch_key(composite), name
    assert {name for name, rule in RULES.items() if rule.errs_in_argument} <= compound


def test_an_unlisted_operation_counts_as_a_function() -> None:
    assert get_rule("some_future_operation").kind is RoundingKind.FUNCTION
    put = get_rule("index_put")
    assert put.get_kind((), {}) is RoundingKind.EXACT
    assert put.get_kind((None, None, None, True), {}) is RoundingKind.REDUCTION


def test_an_operator_has_one_rule() -> None:
    names = [name for listed in ENTRIES for name in listed.split()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("pure", "in_place"),
    [
        (torch.tanh, lambda x: x.clone().tanh_()),
        (torch.exp, lambda x: x.clone().exp_()),
        (lambda x: x.pow(1.5), lambda x: x.clone().pow_(1.5)),
        (lambda x: x.sub(x.exp(), alpha=2), lambda x: x.clone().sub_(x.exp(), alpha=2)),
        (lambda x: x.div(x.exp()), lambda x: x.clone().div_(x.exp())),
        (torch.nn.SiLU(), lambda x: torch.nn.SiLU(inplace=True)(x.clone())),
        (torch.nn.ELU(), lambda x: torch.nn.ELU(inplace=True)(x.clone())),
        (torch.nn.Mish(), lambda x: torch.nn.Mish(inplace=True)(x.clone())),
        (torch.nn.Hardswish(), lambda x: torch.nn.Hardswish(inplace=True)(x.clone())),
    ],
)
def test_an_in_place_operation_is_bounded_like_its_pure_twin(
    pure: Callable[[torch.Tensor], torch.Tensor], in_place: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    inputs = (torch.rand(200) + 0.5,)
    one, other = (
        compute_reference(Function(f), [inputs], Precision(), 0) for f in (pure, in_place)
    )
    torch.testing.assert_close(other.oracle, one.oracle)
    ratio = other.bound[0][0] / one.bound[0][0]
    assert 0.5 < float(ratio.median()) < 2
    assert float(ratio.max()) < 20


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("mm", lambda x: x @ x.T),
        ("native_layer_norm", lambda x: torch.nn.functional.layer_norm(x, (512,))),
    ],
)
def test_sums_in_float32_narrow_the_bound_of_half_precision(
    name: str, function: Callable[..., torch.Tensor]
) -> None:
    inputs = (torch.rand(4, 512) + 0.5).bfloat16()
    wide = Precision(float32_sums=frozenset({name}))
    narrow, plain = (
        float(reference(function, inputs, precision=precision).bound[0][0].median())
        for precision in (wide, PRECISION)
    )
    assert narrow < plain / 10
    error = (reference(function, inputs).eager[0][0].double() - function(inputs.double())).abs()
    assert bool((error <= reference(function, inputs, precision=wide).bound[0][0]).all())


def test_a_variance_is_bounded_as_its_sums() -> None:
    bound = reference(lambda x: x.var(1), torch.randn(4, 512)).bound[0][0]
    # 136 roundings of a sum of 512 terms, divided by 511; not the 8 roundings of a function.
    assert 30 * UNIT < float(bound.median()) < 3000 * UNIT


def test_a_layer_used_twice_and_tied_weights_are_restored() -> None:
    layer = torch.nn.Linear(3, 3)
    tied = torch.nn.Linear(3, 3)
    tied.weight = layer.weight
    module = torch.nn.Sequential(layer, layer, tied).requires_grad_(False)
    before = [p.clone() for p in module.parameters()]
    x = torch.randn(2, 3)
    result = compute_reference(module, [(x,)], Precision(), 0)
    assert all(torch.equal(p, b) for p, b in zip(module.parameters(), before, strict=True))
    assert layer.weight is tied.weight
    wide = [b.double() for b in before]
    expected = x.double()
    for bias in (wide[1], wide[1], wide[2]):
        expected = expected @ wide[0].T + bias
    torch.testing.assert_close(result.oracle[0][0], expected, rtol=1e-14, atol=0)


def _written(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    cast = x.float()
    cast.add_(1.0)
    return x * 2, cast


def _written_before(x: torch.Tensor) -> torch.Tensor:
    cast = torch.ops.aten.to.dtype(x, torch.float32)
    x.mul_(3.0)
    return cast + x


def _chosen(x: torch.Tensor) -> torch.Tensor:
    first, second = x.half(), x.type(torch.float32)  # one of them is x
    first.add_(1.0)
    second.mul_(2.0)
    return x + first


def _asking(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if x.dtype != torch.float64:  # which it is in the oracle's run
        x = x.to(x.dtype)
        x = torch.ops.aten.to.dtype(x, x.dtype)
    whole = torch.ops.aten.to.dtype(x, torch.int64)
    cast = x.float()
    cast.add_(whole.to(torch.float32) * 2)
    return x + 1, cast


@pytest.mark.parametrize("function", [_written, _written_before, _chosen, _asking])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_cast_that_does_nothing_is_no_copy(
    function: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype
) -> None:
    x = torch.tensor([1.0, 2.0, -5.0, 7.0], dtype=dtype)
    found = reference(function, x)
    for truth, eager, bound in zip(found.oracle[0], found.eager[0], found.bound[0], strict=True):
        assert torch.allclose(truth, eager.double(), rtol=1e-2), "the oracle writes as eager does"
        assert float(bound.max()) < 0.1, "the perturbed runs write as eager does"


CONSTANTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "x - 0.1": lambda x: x - 0.1,
    "0.1 - x": lambda x: 0.1 - x,
    "add": lambda x: torch.add(x, -0.1),
    "product": lambda x: x * 0.3 - 0.03,
    "quotient": lambda x: x / 0.3 - 0.1 / 0.3,
    "clamped": lambda x: x.clamp(min=0.1) - 0.1,
    "filled": lambda x: x - torch.full_like(x, 0.1),
    "masked": lambda x: torch.where(x < 0.15, 0.1, x) - x,
    "compared": lambda x: torch.where(x > 0.1, 1.0, -1.0) * x,
    "equal": lambda x: torch.where(x == 0.1, 1.0, -1.0) * x,
    "factor": lambda x: torch.add(x, torch.ones_like(x), alpha=-0.1),
}


@pytest.mark.parametrize("name", CONSTANTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_number_may_be_rounded_to_the_dtype(name: str, dtype: torch.dtype) -> None:
    x = torch.tensor([0.1, 0.1000001, 0.09999, 0.2, 0.11, -3.0]).to(dtype)
    found = reference(CONSTANTS[name], x)
    error = (found.eager[0][0].double() - found.oracle[0][0]).abs()
    assert bool((error <= found.bound[0][0]).all()), (error / found.bound[0][0]).tolist()


def test_a_number_that_the_dtype_holds_does_not_err() -> None:
    x = torch.tensor([0.5, 0.25, 3.0])
    assert largest_bound(lambda x: x - 0.5, x) < 5 * UNIT * 3
    assert float(reference(lambda x: x - 0.5, x).bound[0][0][0]) < 1e-37
