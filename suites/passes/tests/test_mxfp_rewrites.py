"""Arm's rewrites of MX layers into TOSA's block-scaled operators keep the computed values.

The test computes both sides with our own encoders, so that only the rewrite can differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from executorch.backends.arm._passes.rewrite_mxfp_conv2d import RewriteMXFPConv2dPass
from executorch.backends.arm._passes.rewrite_mxfp_linear import RewriteMXFPLinearPass
from executorch.backends.arm.tosa.specification import TosaLoweringContext, TosaSpecification
from executorch.exir import EdgeCompileConfig, to_edge
from executorch.exir.program._program import _transform
from torch.export import ExportedProgram

from backends.tosa.mxfp import FORMATS
from backends.tosa.semantics import PAYLOADS, RULE, make_mxfp_semantics
from backends.tosa.specifications import MXFP
from harness.model.recipe import KnownPass
from harness.numerics.formats.microscaling import Element, encode, unpack_nibbles
from harness.passes.pass_log import ProgramRewrite
from harness.passes.properties import PassCheck, check_properties, count_changed_operators

SPECIFICATION = TosaSpecification.create_from_string(MXFP)
REWRITES = (RewriteMXFPLinearPass, RewriteMXFPConv2dPass)
STORED = {"f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2}


def rewrite(program: ExportedProgram) -> ExportedProgram:
    """Run both of Arm's passes, which need the TOSA specification."""
    with TosaLoweringContext(SPECIFICATION):
        for rewriting in REWRITES:
            program = _transform(program, rewriting(program))
    return program


def wrong(program: ExportedProgram) -> ExportedProgram:
    """Run the passes and drop the last block of each weight."""
    program = rewrite(program)
    for name, value in program.state_dict.items():
        if value.dtype == torch.float8_e8m0fnu:
            codes = value.view(torch.uint8).clone()
            codes[..., -1] = 0
            program.state_dict[name] = codes.view(value.dtype)
    return program


def meant(operator: Any) -> Callable[..., torch.Tensor]:
    """Return a function that computes a layer's operator in float64 from our encoders' blocks."""

    def compute(*args: Any, **kwargs: Any) -> torch.Tensor:
        product = make_mxfp_semantics().parse_mx_product(operator, args, kwargs)
        assert product is not None
        return product.multiply(product.encode(product.activation).values()).float().contiguous()

    return compute


def cast(x: torch.Tensor, block: int, output_dtype: str) -> tuple[torch.Tensor, torch.Tensor]:
    encoded = encode(x, PAYLOADS[output_dtype], RULE, -1, block)
    scales, codes = encoded.scales.view(torch.float8_e8m0fnu), encoded.codes
    if output_dtype == "f4e2m1":
        return codes[..., ::2] | codes[..., 1::2] << 4, scales
    return codes.view(STORED[output_dtype]) if output_dtype in STORED else codes, scales


def values(data: torch.Tensor, scale: torch.Tensor, block: int, element: Element) -> torch.Tensor:
    codes = data.view(torch.uint8)
    codes = unpack_nibbles(codes) if element.bits == 4 else codes
    powers = torch.exp2(scale.view(torch.uint8).double() - 127)
    return element.table[codes.long()] * powers.repeat_interleave(block, -1)


def element_of(data: torch.Tensor, payload: str) -> Element:
    return PAYLOADS[payload or next(name for name, dtype in STORED.items() if dtype == data.dtype)]


def multiply(
    a: torch.Tensor, a_scale: torch.Tensor, b: torch.Tensor, b_scale: torch.Tensor, block: int,
    payload_dtype: str = "",
) -> torch.Tensor:  # fmt: skip
    element = element_of(a, payload_dtype)
    left, right = values(a, a_scale, block, element), values(b, b_scale, block, element)
    return (left @ right.mT).float()


def convolve(
    x: torch.Tensor, x_scale: torch.Tensor, w: torch.Tensor, w_scale: torch.Tensor,
    bias: torch.Tensor, stride: list[int], pad: list[int], dilation: list[int], block: int,
    payload_dtype: str = "",
) -> torch.Tensor:  # fmt: skip
    element = element_of(x, payload_dtype)
    image = values(x, x_scale, block, element).permute(0, 3, 1, 2)
    kernel = values(w, w_scale, block, element).permute(0, 3, 1, 2)
    padded = torch.nn.functional.pad(image, [pad[2], pad[3], pad[0], pad[1]])
    found = torch.nn.functional.conv2d(padded, kernel, bias.double(), stride, 0, dilation)
    return found.permute(0, 2, 3, 1).float()


MEANINGS = {
    "tosa_mxfp.linear.default": meant(torch.ops.tosa_mxfp.linear.default),
    "tosa_mxfp.conv2d.default": meant(torch.ops.tosa_mxfp.conv2d.default),
    "tosa.CAST_TO_BLOCK_SCALED.default": cast,
    "tosa.MATMUL_T_BLOCK_SCALED.default": multiply,
    "tosa.CONV2D_BLOCK_SCALED.default": convolve,
    "tosa.CONST_SHAPE.default": lambda shape: shape,
}


class Layers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(64, 32)
        self.second = torch.nn.Linear(32, 16, bias=False)
        self.conv = torch.nn.Conv2d(32, 32, 2, stride=(2, 1), padding=(1, 0), dilation=(1, 2))
        self.last = torch.nn.Conv2d(32, 4, 1, bias=False)

    def forward(self, x: torch.Tensor, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        hidden = self.first(x)
        return self.second(hidden), hidden[0], self.last(self.conv(image))


def proof(name: str, passes: Callable[[ExportedProgram], ExportedProgram]) -> PassCheck:
    torch.manual_seed(0)
    inputs = (torch.randn(2, 3, 64), torch.randn(2, 32, 6, 7))
    module = FORMATS[name](Layers()).eval()
    program = to_edge(
        torch.export.export(module, inputs),
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    ).exported_program()
    known = KnownPass(f"{__name__}:{passes.__name__}", "")
    return PassCheck(
        ProgramRewrite.from_passes(program, lambda: [known.make()]),
        [inputs],
        [known],
        {},
        meanings=MEANINGS,
    )


@pytest.mark.parametrize("name", FORMATS)
def test_rewrites_keep_every_property(name: str) -> None:
    made = proof(name, rewrite)
    found = {one.name: one for one in check_properties(made)}
    changed = count_changed_operators(made.rewrite)
    assert changed["tosa_mxfp.linear.default"] == (2, 0)
    assert changed["tosa_mxfp.conv2d.default"] == (2, 0)
    assert changed["tosa.CAST_TO_BLOCK_SCALED.default"] == (0, 4)
    others = {name: one.detail for name, one in found.items() if not one.holds}
    assert others.keys() == {"serialization"}, others
    assert "program before it cannot be saved" in others["serialization"]


def test_a_wrong_rewrite_is_detected() -> None:
    found = {one.name: one for one in check_properties(proof(next(iter(FORMATS)), wrong))}
    assert found["outputs"].holds is False
