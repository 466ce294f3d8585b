"""Limitations of module inputs and module state."""

from __future__ import annotations

from harness import Limitation, Status

LIMITATIONS: list[Limitation] = [
    Limitation(
        target="null:*|portable:*|xnnpack:*|tosa:fp|mlx:*",
        case="state/from_one",
        reason="A buffer that the program writes to begins as zeros, whatever the module holds: "
        "the emitter leaves its values out, but where InitializedMutableBufferPass "
        "(exir/passes/init_mutable_pass.py) has named it; MLX's load_mutable_buffers "
        "(runtime/MLXInterpreter.h) fills with zeros too.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/exir/passes/init_mutable_pass.py",
        stage="compare",
        error="elements exceed the bound",
        outcome=Status.MISMATCH,
    ),
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
    Limitation(
        target="tosa:int",
        case="state/*",
        reason="RewriteInplaceArithmeticPass replaces add_, sub_, mul_ and div_ with operators "
        "that write nothing, before anything is quantized: a buffer keeps its first value "
        "(docs/findings/arm_inplace_state.py).",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/arm/_passes/"
        "rewrite_inplace_arithmetic_pass.py",
        stage="quantize",
        error="the quantizer's rewriting changed the module",
    ),
]
