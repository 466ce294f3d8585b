"""The worker process of a campaign; :mod:`harness.workers.served` imports it there."""

from __future__ import annotations

import time
import warnings

import msgspec
import torch

from harness.extras.fuzzing.generated_program import GeneratedProgram
from harness.extras.fuzzing.judges import CellJudge, KnownProblem, find_known_causes
from harness.extras.fuzzing.messages import FoundProgram, FuzzRequest, ProgramStarted
from harness.extras.fuzzing.search import Finding, Problem, find_wrong_program
from harness.model.selection import parse_targets
from harness.pipeline import speed
from harness.record.target import Target
from harness.vendors.quiet import silence_vendors
from harness.workers.protocol import Finished
from harness.workers.served import Send

PROGRAMS_PER_SEARCH = 100
"""Programs of one search; the next search has another seed."""


def serve(request: bytes, send: Send) -> None:
    """Search for wrong programs (:class:`FuzzRequest`) until the time is over."""
    silence_vendors()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    speed.install()
    _run_request(msgspec.msgpack.decode(request, type=FuzzRequest), send)
    send(Finished())


def _run_request(request: FuzzRequest, send: Send) -> None:
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
            causes = find_known_causes(found.program, Target.parse(found.problem.target), seed=0)
            send(_report(found, tried, causes))


class _AnnouncingJudge:
    """Sends each program before it is judged."""

    def __init__(self, judge: CellJudge, send: Send, tried: int) -> None:
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


def _report(found: Finding, tried: int, causes: list[str]) -> FoundProgram:
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
        known=causes,
    )
