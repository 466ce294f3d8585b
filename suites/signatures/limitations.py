"""Known gaps with what modules are called with."""

from __future__ import annotations

from harness import Limitation

LIMITATIONS: list[Limitation] = [
    Limitation(
        target="mlx:*",
        case="inputs/numbers_flags_none",
        reason="ProgramBuilder (builder/program_builder.py) raises for an input that is a number, "
        "a flag or None, though the exported graph has it as a constant and reads it nowhere.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/mlx/builder/"
        "program_builder.py",
        stage="lower",
        error="Support for input ConstantArgument",
    ),
]
