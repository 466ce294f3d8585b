"""Limitations of transformers' own exporter."""

from __future__ import annotations

from harness import Limitation, Status

EXPORTER: list[Limitation] = [
    Limitation(
        target="*",
        case="exporter/gemma3_prefill|exporter/gemma3_decode",
        reason="_patch_sliding_window_layer (transformers/exporters/exporter_dynamo.py) traces a "
        "DynamicSlidingWindowLayer as a DynamicLayer. The program returns keys and values of all "
        "positions, where the model keeps those of its window, and does not advance the cache's "
        "own position count.",
        link="https://github.com/huggingface/transformers/pull/49542",
        stage="compare",
        error="['cumulative_length']",
        outcome=Status.MISMATCH,
    ),
]
