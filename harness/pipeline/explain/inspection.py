"""Describe the program of one cell as its backend sees it. The cell is lowered and run again."""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import StageFailure
from harness.execution.any_program.delegate_runtimes import describe_payload
from harness.model import registry
from harness.model.backend import DescribesPayloads, InspectsCells
from harness.model.case import Case
from harness.pipeline.route import lower
from harness.pipeline.tester import Tester
from harness.record.target import Target


def inspect(case: Case, target: Target, *, seed: int = 0) -> Iterator[str]:
    """Describe a cell's program in lines of text by its backend.

    Args:
        case: the case.
        target: the target.
        seed: run seed of the record.
    """
    backend = registry.backend(target.backend)
    if not isinstance(backend, InspectsCells | DescribesPayloads):
        return
    if not backend.availability().available:
        return
    try:
        tester = Tester(case, target, seed=seed)
        lower(tester)
    except StageFailure as failure:
        yield f"there is no program to show: {failure}"
        return
    try:
        tester.run().compare()
    except StageFailure as failure:
        yield f"the program does not run: {failure}"
    if isinstance(backend, InspectsCells):
        yield from backend.inspect(tester.attempt)
        return
    for number, payload in enumerate(tester.serialized.program.delegates):
        yield f"{payload.id}, delegate {number}"
        yield from (f"  {line}" for line in describe_payload(payload))
