"""Known gaps of the models suite."""

from __future__ import annotations

from harness.limitation import Limitation

LIMITATIONS: list[Limitation] = [
    Limitation(
        target="tosa:fp",
        case="whisper/encoder",
        reason="CheckInt64InputsAndOutputs accepts the int64 arange of the position embedding as "
        "a constant that its user consumes, but EmbeddingSupported leaves that user to the CPU: "
        "the arange is delegated alone, and CastInt64BuffersToInt32Pass makes it int32 although "
        "the delegate is declared to return int64.",
        link="https://github.com/pytorch/executorch/blob/v1.5.1/backends/arm/operator_support/"
        "tosa_supported_operators.py",
        stage="run",
        error="bytes int32(32,) for a planned tensor of 256 bytes torch.int64(32,)",
    ),
]
