"""8-bit floats in TOSA: delegated with the extension; fallback nodes with a reason without it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from executorch.backends.arm.tosa import partitioner as upstream

from backends.tosa.mxfp import FORMATS
from backends.tosa.recipes import make_partitioners, make_unverified_edge_config
from backends.tosa.specifications import MXFP
from harness import Case, Tester

pytestmark = pytest.mark.filterwarnings("ignore")  # vendors' own

EXTENSION = {torch.float8_e4m3fn: "fp8e4m3", torch.float8_e5m2: "fp8e5m2"}
SPECIFICATIONS = [
    "TOSA-1.0+FP",
    "TOSA-1.0+FP+fp8e4m3",
    "TOSA-1.1+FP+fp8e5m2",
    "TOSA-1.1+FP+fp8e4m3+fp8e5m2+mxfp",
    MXFP,
]


class Sliced(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, 1:3]


class Cast(torch.nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(self.dtype)


@contextmanager
def reported() -> Iterator[list[str]]:
    """Collect the partitioner's log with its table of rejected nodes and reasons."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    level = upstream.logger.level
    upstream.logger.addHandler(handler)
    upstream.logger.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        upstream.logger.removeHandler(handler)
        upstream.logger.setLevel(level)


def lowered(
    module: torch.nn.Module, x: torch.Tensor, specification: str, *, mx: bool = False
) -> tuple[Tester, str]:
    """A tester after lowering, and the partitioner's report, its lines joined."""
    tester = Tester(Case("float8", lambda: (module, (x,))), "tosa:fp")
    if mx:
        tester.quantize_weights(FORMATS["mxfp8_e4m3"])
    with reported() as lines:
        tester.export().lower(
            partitioners=make_partitioners(specification), edge_config=make_unverified_edge_config()
        )
    # The table breaks its cells into lines.
    return tester, "".join("".join(lines).replace("│", " ").split())


@pytest.mark.one_of(3)
@pytest.mark.parametrize("specification", SPECIFICATIONS)
@pytest.mark.parametrize("dtype", EXTENSION)
def test_an_8_bit_input_needs_its_extension(dtype: torch.dtype, specification: str) -> None:
    tester, report = lowered(Sliced(), torch.randn(2, 4).to(dtype), specification)
    legal = EXTENSION[dtype] in specification
    assert tester.delegation.delegates == legal
    refusal = f"dtype{dtype}requires{EXTENSION[dtype]}extension"
    disallowed = f"{dtype}"
    assert legal == (refusal not in report and disallowed not in report), report
    tester.to_executorch().serialize().run().compare()
    assert tester.execution.runtime == ("reference" if legal else "native")
    assert tester.verdict.passed, tester.verdict.problem


@pytest.mark.one_of(3)
@pytest.mark.parametrize("specification", SPECIFICATIONS)
@pytest.mark.parametrize("dtype", EXTENSION)
def test_a_cast_to_8_bits_needs_its_extension(dtype: torch.dtype, specification: str) -> None:
    tester, report = lowered(Cast(dtype), torch.randn(2, 4), specification)
    legal = EXTENSION[dtype] in specification
    assert tester.delegation.delegates == legal
    assert legal == (str(dtype) not in report), report
    if legal:  # the portable kernel of the cast does not support 8-bit floats
        tester.to_executorch().serialize().run().compare()
        assert tester.verdict.passed, tester.verdict.problem


@pytest.mark.one_of(2)
@pytest.mark.parametrize("specification", SPECIFICATIONS)
def test_a_converted_layer_needs_mxfp(specification: str) -> None:
    tester, report = lowered(torch.nn.Linear(32, 16), torch.randn(2, 32), specification, mx=True)
    legal = "mxfp" in specification
    assert tester.delegation.delegates == legal
    left = set() if legal else {"tosa_mxfp.linear.default"}
    assert set(tester.delegation.undelegated_ops) == left
    assert legal == ("tosa_mxfp" not in report), report


@pytest.mark.parametrize(
    "specification", ["TOSA-1.0+FP+mxfp", "TOSA-1.1+INT+mxfp", "TOSA-1.0+INT+fp8e4m3"]
)
def test_an_extension_of_another_version_or_profile_is_refused(specification: str) -> None:
    with pytest.raises(ValueError, match="Bad extensions for TOSA"):
        make_partitioners(specification)


def test_a_bfloat16_layer_needs_bf16_beside_mxfp() -> None:
    layer, x = torch.nn.Linear(32, 16).bfloat16(), torch.randn(2, 32).bfloat16()
    tester, report = lowered(layer, x, "TOSA-1.1+FP+mxfp", mx=True)
    assert tester.delegation.delegates == 0
    assert "bfloat16" in report
    tester, _ = lowered(layer, x, MXFP, mx=True)
    assert tester.delegation.undelegated_ops == {}
