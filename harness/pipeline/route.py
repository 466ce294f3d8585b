"""A tester's way through the stages of its recipe."""

from __future__ import annotations

from harness.pipeline.tester import Tester


def prepare(tester: Tester) -> None:
    """Up to the ATen program that is lowered; where the case's own exporter makes it, until that
    has emitted it.

    Raises:
        StageFailure: naming the stage that failed.
    """
    if tester.case.exporter is not None:
        tester.ship()
        return
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
    if tester.case.exporter is None:
        tester.lower().to_executorch()
    tester.serialize()
