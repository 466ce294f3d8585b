"""Weights of 2, 5, 6 and 8 bits: a wrong payload is red, and so is a refused weight."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from backends.mlx import codegen
from harness import Cell, Status, run_cell
from suites.mlx.quantized import CASES

BITS = (2, 5, 6, 8)
_LINEAR = next(case for case in CASES if case.name == "quantized_linear/3d_bias")

Packed = tuple[torch.Tensor, torch.Tensor | None]
Spoil = Callable[[torch.Tensor, int], None]


def _flip_highest_bit_of_a_code(codes: torch.Tensor, bits: int) -> None:
    words = codes.view(torch.int32)
    words[3, 0] ^= 1 << (bits - 1)


def _reverse_words(codes: torch.Tensor, bits: int) -> None:
    words = codes.view(torch.int32)
    words.copy_(words.flip(1))


def _move_codes_by_a_bit(codes: torch.Tensor, bits: int) -> None:
    words = codes.view(torch.int32)
    words.copy_(words << 1)


@pytest.mark.one_of(4)
@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize(
    "spoil",
    [_flip_highest_bit_of_a_code, _reverse_words, _move_codes_by_a_bit],
)
def test_a_wrong_payload_is_red(monkeypatch: pytest.MonkeyPatch, spoil: Spoil, bits: int) -> None:
    codegen.install()
    from executorch.backends.mlx import patterns

    pack = patterns.to_mlx_qparams

    def pack_wrongly(*args: object) -> Packed:
        codes, offsets = pack(*args)
        spoil(codes, bits)
        return codes, offsets

    assert run(bits).status is Status.PASSED
    monkeypatch.setattr(patterns, "to_mlx_qparams", pack_wrongly)
    assert run(bits).status is Status.MISMATCH


@pytest.mark.parametrize("bits", BITS)
def test_a_refused_weight_is_red(monkeypatch: pytest.MonkeyPatch, bits: int) -> None:
    codegen.install()
    from executorch.backends.mlx import patterns

    monkeypatch.setattr(patterns, "parse_dequant_node", lambda node: None)
    cell = run(bits)
    assert cell.status is Status.FAILED
    assert "0 QuantizedMatmulNode, expected 1" in (cell.error or "")


def run(bits: int) -> Cell:
    return run_cell(_LINEAR, f"mlx:int{bits}")
