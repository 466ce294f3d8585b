"""Limitations of programs with settings, where the recipe without them has none."""

from __future__ import annotations

from harness import Limitation

LIMITATIONS: list[Limitation] = [
    Limitation(
        "varied/permute_copy_to_channels_last_and_back",
        "tosa:fp+*skip_dim_order*",
        "Without dim orders, a number becomes a constant tensor by aten._to_copy, and its fake "
        "tensor keeps its value. MatchArgRanksPass reshapes it with tosa.RESHAPE; torch computes "
        "operators on constants for real, and RESHAPE has no kernel.",
        stage="lower",
        error="could not find kernel for tosa.RESHAPE",
    ),
]
