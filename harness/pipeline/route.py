"""A tester's way through the stages of its recipe."""

from __future__ import annotations

from harness.pipeline.tester import Tester


def prepare(tester: Tester) -> None:
    """Up to the ATen program that is lowered.

    Raises:
        StageFailure: naming the stage that failed.
    """
    if tester.recipe.quantize_weights is not None:
        tester.quantize_weights()
    tester.export()
    if tester.recipe.quantizer is not None:
        tester.quantize()


def lower(tester: Tester) -> None:
    """Up to the serialized program.

    Raises:
        StageFailure: naming the stage that failed.
    """
    prepare(tester)
    tester.lower().to_executorch().serialize()
