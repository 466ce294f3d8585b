"""Record why partitioners reject nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from executorch.exir.backend import utils

from harness.errors import printable
from harness.execution.operators import op_name
from harness.model.recipe import Recipe
from harness.vendors.replacements import AttributeReplacer

ExplainFallback = Callable[[torch.fx.Node], str | None]
"""Returns the reason why a node of a lowered program is in no delegate; None if unknown."""

# Long enough for a schema or a shape, too short for a traceback.
_LONGEST = 300


@contextmanager
def record_rejections(recipe: Recipe, partitioners: Sequence[Any]) -> Iterator[ExplainFallback]:
    """Record the reasons of partitioners while a program is lowered.

    Partitioners report rejected nodes to ``WhyNoPartition``, which only logs them, or to
    ``WhyNoPartitionReporter``; neither keeps them for the caller. Other reasons come from
    :attr:`~harness.model.recipe.Recipe.explain`. Reasons are stored by node name, because fallback
    nodes keep their names in the lowered program.

    Args:
        recipe: the target's recipe.
        partitioners: the partitioners that the program is lowered with.

    Yields:
        A function that explains the fallback nodes of the lowered program.
    """
    reasons: dict[str, str] = {}
    logged, reported = utils.WhyNoPartition.__call__, utils.WhyNoPartitionReporter.report_reject

    def log(why: Any, node: torch.fx.Node, reason: str) -> None:
        reasons.setdefault(node.name, reason)  # the first reason is the most specific
        logged(why, node, reason)

    def report(reporter: Any, node: torch.fx.Node, reason: str) -> None:
        reasons.setdefault(node.name, reason)
        reported(reporter, node, reason)

    def why(node: torch.fx.Node) -> str | None:
        reason = reasons.get(node.name)
        if reason is None and recipe.explain is not None:
            reason = recipe.explain(partitioners, node)
        return None if reason is None else _format_reason(reason, node)

    replacer = AttributeReplacer("rejections")
    with (
        replacer.replace_within(utils.WhyNoPartition, "__call__", log),
        replacer.replace_within(utils.WhyNoPartitionReporter, "report_reject", report),
    ):
        yield why


def _format_reason(reason: str, node: torch.fx.Node) -> str:
    # The text of an operator is its whole schema; use its name.
    text = printable(" ".join(reason.replace(str(node.target), op_name(node.target)).split()))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
