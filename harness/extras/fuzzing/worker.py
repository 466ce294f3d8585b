"""Worker process of a campaign: reads a :class:`FuzzRequest` from standard input, writes one event
a line to standard output. All other output goes to standard error.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable

import msgspec
import torch

from harness.extras.fuzzing.generated_program import GeneratedProgram
from harness.extras.fuzzing.judges import CellJudge, KnownProblem
from harness.extras.fuzzing.messages import FoundProgram, FuzzEvent, FuzzRequest, ProgramStarted
from harness.extras.fuzzing.search import Finding, Problem, find_wrong_program
from harness.model.selection import parse_targets
from harness.pipeline import speed
from harness.vendors.quiet import silence_vendors

SendEvent = Callable[[FuzzEvent], None]

PROGRAMS_PER_SEARCH = 100
"""Programs of one search; the next search has another seed."""


def main() -> None:
    """Search until the time is over."""
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=FuzzRequest)
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # vendor libraries print to standard output
    silence_vendors()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    speed.install()

    def send(event: FuzzEvent) -> None:
        pipe.write(msgspec.json.encode(event) + b"\n")
        pipe.flush()

    _run_request(request, send)


def _run_request(request: FuzzRequest, send: SendEvent) -> None:
    until = time.monotonic() + request.seconds
    targets = parse_targets(request.targets)
    known = [
        KnownProblem(one.target, one.kind, frozenset(one.called_names)) for one in request.known
    ]
    seed, tried = request.seed, 0
    while time.monotonic() < until:
        judge = _AnnouncingJudge(CellJudge(targets, known, seed=0), send, tried)
        found, count = find_wrong_program(
            judge, examples=PROGRAMS_PER_SEARCH, seed=seed, may_draw=request.may_draw, until=until
        )
        tried, seed = tried + count, seed + 1
        if found is not None:
            known.append(KnownProblem.from_finding(found))
            send(_report(found, tried))


class _AnnouncingJudge:
    """Sends each program before it is judged."""

    def __init__(self, judge: CellJudge, send: SendEvent, tried: int) -> None:
        self._judge, self._send, self._tried = judge, send, tried

    def __call__(self, program: GeneratedProgram) -> Problem | None:
        self._tried += 1
        self._send(
            ProgramStarted(
                text=program.to_suite_file(),
                called_names=sorted(program.called_names),
                name=program.name,
                tried=self._tried,
            )
        )
        return self._judge(program)


def _report(found: Finding, tried: int) -> FoundProgram:
    program, problem = found.program, found.problem
    return FoundProgram(
        name=program.case_name(problem.target),
        target=problem.target,
        kind=problem.kind,
        message=problem.message,
        step_count=program.step_count,
        called_names=sorted(program.called_names),
        text=program.to_suite_file(problem.target, f"{problem.target}: {problem.message}"),
        tried=tried,
    )


if __name__ == "__main__":
    main()
