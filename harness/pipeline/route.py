"""Run a tester through the stages that its recipe needs."""

from __future__ import annotations

from harness.execution.process_lock import hold_process_lock
from harness.pipeline.tester import Tester


def find_unsupported_reason(tester: Tester) -> str | None:
    """Why the case's exporter or the recipe does not support this cell; None if both do.

    Raises:
        StageFailure: stage ``build``: the exporter or the recipe raised an error.
    """
    exporter, recipe = tester.case.exporter, tester.recipe
    with hold_process_lock(), tester.attribute_errors("build"):
        if exporter is not None:
            if (reason := exporter.find_refusal(tester.target)) is not None:
                return reason
            if recipe.quantizer is not None or recipe.quantize_weights is not None:
                name = exporter.name
                return f"the recipe {recipe.name} quantizes, and {name} does not quantize"
        return recipe.find_refusal(tester.case, tester.built)


def prepare(tester: Tester) -> None:
    """Run the stages up to the ATen program to lower, or the whole exporter where the case has one.

    Raises:
        StageFailure: a stage failed; it names the stage.
    """
    if tester.case.exporter is not None:
        tester.run_case_exporter()
        return
    if tester.recipe.quantize_weights is not None:
        tester.quantize_weights()
    tester.export()
    if tester.recipe.quantizer is not None:
        tester.quantize()


def lower(tester: Tester, *, sizes: bool = False) -> None:
    """Run all stages up to the serialized program.

    Args:
        tester: a tester of which no stage has run.
        sizes: also call :meth:`Tester.add_sizes`.

    Raises:
        StageFailure: a stage failed; it names the stage.
    """
    prepare(tester)
    if sizes:
        # Before lowering: a backend may remove constants from the program, which then has no
        # module to read guards from.
        tester.add_sizes()
    if tester.case.exporter is None:
        tester.lower().to_executorch()
    tester.serialize()
