"""Why a partitioner left a node over: what it told ExecuTorch's reporters, and what it keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from executorch.exir.backend import utils

from harness.errors import printable
from harness.execution.operators import op_name
from harness.model.recipe import Recipe

Why = Callable[[torch.fx.Node], str | None]
"""The reason why a node of a lowered program is in no delegate; None where nobody gave one."""

# A schema or a shape in full fits; a traceback does not.
_LONGEST = 300


@contextmanager
def listening(recipe: Recipe, partitioners: Sequence[Any]) -> Iterator[Why]:
    """Listen to partitioners while a program is lowered.

    ``WhyNoPartition`` and ``WhyNoPartitionReporter`` are how partitioners say why they refuse a
    node; neither keeps it for the caller, and the first only logs. What a partitioner says in
    another way, its recipe knows (:attr:`harness.Recipe.explain`). Lowering keeps the names of
    nodes that it leaves over, by which a reason finds its node in the lowered program.

    Args:
        recipe: what is lowered by.
        partitioners: those that the program is lowered with.

    Yields:
        What answers for the nodes of the lowered program.
    """
    told: dict[str, str] = {}
    logged, reported = utils.WhyNoPartition.__call__, utils.WhyNoPartitionReporter.report_reject

    def log(why: Any, node: torch.fx.Node, reason: str) -> None:
        told.setdefault(node.name, reason)  # the first is the most specific
        logged(why, node, reason)

    def report(reporter: Any, node: torch.fx.Node, reason: str) -> None:
        told.setdefault(node.name, reason)
        reported(reporter, node, reason)

    def why(node: torch.fx.Node) -> str | None:
        reason = told.get(node.name)
        if reason is None and recipe.explain is not None:
            reason = recipe.explain(partitioners, node)
        return None if reason is None else _line(reason, node)

    utils.WhyNoPartition.__call__ = log
    utils.WhyNoPartitionReporter.report_reject = report
    try:
        yield why
    finally:
        utils.WhyNoPartition.__call__ = logged
        utils.WhyNoPartitionReporter.report_reject = reported


def _line(reason: str, node: torch.fx.Node) -> str:
    # An operator spells itself with its whole schema.
    text = printable(" ".join(reason.replace(str(node.target), op_name(node.target)).split()))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
