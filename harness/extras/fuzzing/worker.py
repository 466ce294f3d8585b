"""A process that looks for wrong programs: a :class:`Quest` on its input, what it tries and finds
on its output, a line each. Whatever else is printed goes to its errors."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable

import msgspec
import torch

from harness.extras.fuzzing.generated_program import Program
from harness.extras.fuzzing.judges import Known, OfCells
from harness.extras.fuzzing.messages import Quest, Report, Told, Trying
from harness.extras.fuzzing.search import Finding, Problem, search
from harness.model.selection import parse_targets
from harness.pipeline import speed
from harness.vendors.quiet import silence_vendors

Tell = Callable[[Told], None]

EXAMPLES = 100
"""Programs of one search; the next has another seed."""


def main() -> None:
    """Look until the time is over."""
    quest = msgspec.json.decode(sys.stdin.buffer.read(), type=Quest)
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # vendors print
    silence_vendors()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    speed.install()

    def tell(told: Told) -> None:
        pipe.write(msgspec.json.encode(told) + b"\n")
        pipe.flush()

    _look(quest, tell)


def _look(quest: Quest, tell: Tell) -> None:
    until = time.monotonic() + quest.seconds
    targets = parse_targets(quest.targets)
    known = [Known(one.target, one.kind, frozenset(one.words)) for one in quest.known]
    seed, tried = quest.seed, 0
    while time.monotonic() < until:
        judge = _Announcing(OfCells(targets, known, seed=0), tell, tried)
        found, count = search(
            judge, examples=EXAMPLES, seed=seed, may_draw=quest.may_draw, until=until
        )
        tried, seed = tried + count, seed + 1
        if found is not None:
            known.append(Known.of(found))
            tell(_report(found, tried))


class _Announcing:
    """Says what is judged before it is."""

    def __init__(self, judge: OfCells, tell: Tell, tried: int) -> None:
        self._judge, self._tell, self._tried = judge, tell, tried

    def __call__(self, program: Program) -> Problem | None:
        self._tried += 1
        self._tell(
            Trying(
                text=program.text(), words=sorted(program.words), name=program.name,
                tried=self._tried,
            )
        )  # fmt: skip
        return self._judge(program)


def _report(found: Finding, tried: int) -> Report:
    program, problem = found.program, found.problem
    return Report(
        name=program.named(problem.target),
        target=problem.target,
        kind=problem.kind,
        said=problem.said,
        ops=program.ops,
        words=sorted(program.words),
        text=program.text(problem.target, f"{problem.target}: {problem.said}"),
        tried=tried,
    )


if __name__ == "__main__":
    main()
