"""Operators in MX formats: their oracle and their bound."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from executorch.backends.arm.ao_ext import MXFPOpConfig, to_mxfp
from executorch.backends.arm.ao_ext.mxfp import mxfp_dtype_to_str

from backends.tosa.semantics import PAYLOADS, RULE, make_mxfp_semantics
from harness.backend_api import Precision
from harness.numerics import oracle
from harness.numerics.formats.microscaling import E2M1, E4M3, E5M2, ELEMENTS, Element, encode

pytestmark = pytest.mark.filterwarnings("ignore")  # executorch's: experimental

UNIT = 2.0**-24
SEMANTICS = make_mxfp_semantics()
compute_reference = functools.partial(oracle.compute_reference, semantics=SEMANTICS)
parse_mx_product, decode = SEMANTICS.parse_mx_product, SEMANTICS.decode
TORCH = {
    "E2M1": torch.float4_e2m1fn_x2,
    "E2M3": "fp6_e2m3",
    "E3M2": "fp6_e3m2",
    "E4M3": torch.float8_e4m3fn,
    "E5M2": torch.float8_e5m2,
}
every_element = pytest.mark.parametrize("element", ELEMENTS.values(), ids=lambda e: e.name)


def converted(layer: torch.nn.Module, element: Element) -> torch.nn.Module:
    """The layer with its weight in that format, as Arm's conversion makes it."""
    holder = torch.nn.Sequential(layer).requires_grad_(False)
    to_mxfp(holder, MXFPOpConfig(weight_dtype=TORCH[element.name]))
    made: torch.nn.Module = holder[0]
    return made


class Around(torch.nn.Module):
    """A layer with something before it."""

    def __init__(self, layer: torch.nn.Module, before: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.layer = layer
        self.before = before

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layer(self.before(*inputs))
        return result


def weight_of(layer: torch.nn.Module, element: Element) -> torch.Tensor:
    """Decode with torchao, independently of our code: float64, blocks along the last axis."""
    from torchao.prototype.mx_formats.mx_tensor import to_dtype

    data, scale = layer.get_buffer("weight_qdata"), layer.get_buffer("weight_scale")
    return to_dtype(data, scale, TORCH[element.name], 32, torch.float32).double()  # type: ignore[no-any-return]


@every_element
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_linear_layer_multiplies_decoded_blocks(element: Element, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    layer = converted(torch.nn.Linear(96, 8, dtype=dtype), element)
    x = torch.randn(2, 3, 96).to(dtype)
    found = compute_reference(layer, [(x,)], Precision(), 0)
    activation = encode(x, element, RULE).values()
    truth = activation @ weight_of(layer, element)[0].T + layer.get_parameter("bias").double()
    torch.testing.assert_close(found.oracle[0][0], truth, rtol=1e-14, atol=1e-14)
    assert found.eager[0][0].dtype == dtype
    if dtype == torch.float32:
        # In bfloat16 an amax of L · 2^k is common, and eager's scale differs there.
        error = (found.eager[0][0].double() - truth).abs()
        assert (error <= found.bound[0][0]).all()


@every_element
@pytest.mark.parametrize("bias", [True, False])
def test_a_convolution_multiplies_decoded_blocks(element: Element, bias: bool) -> None:
    torch.manual_seed(2)
    options: dict[str, Any] = {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)}
    layer = converted(torch.nn.Conv2d(64, 4, 3, bias=bias, **options), element)
    x = torch.randn(2, 64, 6, 7)
    found = compute_reference(layer, [(x,)], Precision(), 0)
    activation = encode(x, element, RULE, axis=1).values()
    weight = weight_of(layer, element).permute(0, 3, 1, 2)
    added = layer.get_parameter("bias").double() if bias else None
    truth = torch.nn.functional.conv2d(activation, weight, added, **options)
    torch.testing.assert_close(found.oracle[0][0], truth, rtol=1e-13, atol=1e-13)
    error = (found.eager[0][0].double() - truth).abs()
    assert (error <= found.bound[0][0]).all()


def test_the_payload_s_names_are_arm_s() -> None:
    assert {mxfp_dtype_to_str(TORCH[e.name]): e for e in ELEMENTS.values()} == PAYLOADS


def test_an_element_that_does_not_follow_is_refused() -> None:
    operator = torch.ops.tosa_mxfp.linear.default
    data, scale = torch.zeros(1, 2, 32), torch.ones(1, 2, 1)
    with pytest.raises(ValueError, match="no MX element"):
        parse_mx_product(operator, (torch.zeros(1, 32), data, scale), {})
    packed = torch.zeros(1, 2, 16, dtype=torch.uint8)
    found = parse_mx_product(operator, (torch.zeros(1, 32), packed, scale), {})
    assert found is not None
    assert found.element is E2M1
    assert parse_mx_product(torch.ops.aten.mm.default, (), {}) is None


def test_packed_elements_of_torchao_s_operator_are_decoded() -> None:
    import executorch.extension.llm.export.mx  # noqa: F401  (registers it)

    operator = torch.ops.torchao.dequantize_mx.default
    packed = torch.tensor([[0x21, 0xF9, *[0] * 14]], dtype=torch.uint8)
    scale = torch.tensor([[129]], dtype=torch.uint8).view(torch.float8_e8m0fnu)
    blocks = decode(operator, (packed, scale, torch.float4_e2m1fn_x2, 32), {})
    assert blocks is not None
    assert blocks.values()[0, :5].tolist() == [2.0, 4.0, -2.0, -24.0, 0.0]


def bound_of(
    layer: torch.nn.Module, before: Callable[..., Any], *inputs: torch.Tensor
) -> oracle.Reference:
    return compute_reference(Around(layer, before), [inputs], Precision(), 3)


@every_element
@pytest.mark.parametrize(
    "before",
    [
        lambda x: x,
        lambda x: torch.relu(x.transpose(0, 1).reshape(4, 64)),
        lambda x: torch.cat([x, x.neg()], 1).reshape(-1, 64)[::2].contiguous(),
    ],
    ids=["itself", "moved", "selected"],
)
def test_an_input_is_encoded_without_an_error(
    element: Element, before: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    torch.manual_seed(4)
    layer = converted(torch.nn.Linear(64, 16), element)
    found = bound_of(layer, before, torch.randn(4, 64))
    terms = 2 if element.name in ("E2M1", "E2M3", "E3M2") else 36
    size = encode(before(torch.randn(4, 64)), element, RULE).values().abs().max()
    limit = 8 * UNIT * (terms + 2) * 64 * size * weight_of(layer, element).abs().max()
    assert float(found.bound[0][0].max()) < limit


def identity(element: Element) -> torch.nn.Module:
    layer = torch.nn.Linear(32, 32, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(32))
    return converted(layer, element)


@every_element
def test_a_computed_activation_may_take_the_neighbouring_code(element: Element) -> None:
    """1 + 2^-m·(1/2 ± a little) rounds to 1 or to 1 + 2^-m; 1 + 2^-m / 4 rounds to 1."""
    step = 2.0**-element.mantissa_bits
    block = torch.full((1, 32), 1 + step / 4)
    block[0, 0] = element.largest / 1.5
    block[0, 1] = 1 + step / 2 * (1 + 2.0**-21)
    exact = bound_of(identity(element), lambda x, y: x, block, torch.ones(1))
    computed = bound_of(identity(element), lambda x, y: x / y, block, torch.ones(1))
    assert float(exact.bound[0][0][:, 1:].max()) < 1e-3 * step
    bound = computed.bound[0][0][0]
    assert step <= float(bound[1]) < 5 * step
    assert float(bound[2:].max()) < 1e-3 * step, "far from a tie"


@every_element
def test_a_flipped_scale_moves_a_value_by_a_step(element: Element) -> None:
    """Where the greatest magnitude is at a limit, the smallest are on one grid or a coarser one."""
    block = torch.zeros(1, 32)
    block[0, 0] = element.largest  # at this scale, or at twice it
    smallest = float(element.table[1])
    block[0, 1:16], block[0, 16:] = smallest, 2 * smallest
    found = bound_of(identity(element), lambda x, y: x / y, block, torch.ones(1))
    bound = found.bound[0][0][0]
    # An odd multiple of the smallest step has no code at the coarser scale.
    ends = [encode(block * factor, element, RULE).values() for factor in (1 - 1e-6, 1 + 1e-6)]
    moved = (ends[0] - ends[1]).abs()[0]
    assert moved[1:16].min() >= smallest
    assert (bound >= moved).all()
    assert float(bound[1:16].max()) < 5 * 2 * smallest


def test_without_the_exact_run_every_element_may_be_a_step_off() -> None:
    from harness.numerics.perturbation import PerturbedMode

    x, layer = torch.randn(4, 32).double(), identity(E4M3)
    with PerturbedMode(Precision(), 0, 0, semantics=SEMANTICS):
        found = layer(x)
    encoded = encode(x, E4M3, RULE)
    off = (found - encoded.values()).abs()
    torch.testing.assert_close(off, encoded.steps(), rtol=1e-3, atol=0.0)


@every_element
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_block_that_is_not_finite_is_nan(element: Element, value: float) -> None:
    x = torch.randn(3, 64)
    x[1, 40] = value
    layer = converted(torch.nn.Linear(64, 4), element)
    found = compute_reference(layer, [(x,)], Precision(), 0)
    assert found.oracle[0][0].isnan().tolist() == [[False] * 4, [True] * 4, [False] * 4]
    assert (found.bound[0][0][[0, 2]] > 0).all()
    assert (found.bound[0][0][[0, 2]] < 1e-3).all()


@every_element
def test_the_bound_follows_format_block_and_length(element: Element) -> None:
    """Sums of a block are exact in E2M1, E2M3 and E3M2: one rounding a block, not one a product."""
    by_length = {}
    for length in (32, 512):
        torch.manual_seed(5)
        layer = converted(torch.nn.Linear(length, 64, bias=False), element)
        x = torch.randn(4, length)
        magnitude = encode(x, element, RULE).values().abs() @ weight_of(layer, element)[0].abs().T
        found = compute_reference(layer, [(x,)], Precision(), 0).bound[0][0]
        by_length[length] = float((found / magnitude / UNIT).median())
    exact = element not in (E4M3, E5M2)
    # 4 · rms of noise between half and all of the amplitude is 3.05 of it; and the output rounds.
    for length, found in by_length.items():
        roundings = length // 32 if exact else length
        assert 2 <= found / (min(roundings, 2 * roundings**0.5) + 1) <= 4
    assert by_length[512] / by_length[32] < 16


def test_bfloat16_does_not_widen_the_product() -> None:
    """The operator sums in float32 and returns it; the cast after it rounds."""
    torch.manual_seed(6)
    layer = converted(torch.nn.Linear(64, 8, dtype=torch.bfloat16), E2M1)
    found = compute_reference(layer, [(torch.randn(3, 64).bfloat16(),)], Precision(), 0)
    ratio = found.bound[0][0] / (found.oracle[0][0].abs() * 2.0**-8)
    assert float(ratio.median()) < 5.5, "a rounding of the result, four times, and of the output"
