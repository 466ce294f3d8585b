"""A tester's way through the stages of its recipe."""

from __future__ import annotations

from harness.execution.process_lock import exclusive
from harness.pipeline.tester import Tester


def unsupported(tester: Tester) -> str | None:
    """Why the exporter of a tester's case, or its recipe, does not claim to do this; or None.

    Raises:
        StageFailure: stage ``build``: the recipe cannot tell.
    """
    exporter, recipe = tester.case.exporter, tester.recipe
    with exclusive(), tester.attributed("build"):
        if exporter is not None:
            if (reason := exporter.refuses(tester.target)) is not None:
                return reason
            if recipe.quantizer is not None or recipe.quantize_weights is not None:
                name = exporter.name
                return f"the recipe {recipe.name} quantizes, and {name} takes a module as it is"
        return recipe.refuses(tester.case, tester.built)


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


def lower(tester: Tester, *, sizes: bool = False) -> None:
    """Up to the serialized program.

    Args:
        tester: on its way from the start.
        sizes: add the calls that :meth:`Tester.add_sizes` does.

    Raises:
        StageFailure: naming the stage that failed.
    """
    prepare(tester)
    if sizes:
        # Before lowering: a backend may take constants out of the program, which then has no
        # module to ask.
        tester.add_sizes()
    if tester.case.exporter is None:
        tester.lower().to_executorch()
    tester.serialize()
