"""The worker process of a campaign; :mod:`harness.workers.served` imports it there."""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import msgspec
import torch

from harness.coverage.unexecuted import read_conclusive_arcs
from harness.extras.fuzzing.generated_program import GeneratedProgram
from harness.extras.fuzzing.guided import GuidedSearch, NewCode, Places, ReachingProgram
from harness.extras.fuzzing.judges import CellJudge, KnownProblem, find_known_causes
from harness.extras.fuzzing.messages import (
    FoundProgram,
    FuzzRequest,
    ProgramStarted,
    ReachedCode,
)
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
    asked = msgspec.msgpack.decode(request, type=FuzzRequest)
    # A guided search needs the vendors' code that some parts replace or skip.
    speed.install(complete=asked.is_guided)
    _run_request(asked, send)
    send(Finished())


def _run_request(request: FuzzRequest, send: Send) -> None:
    until = time.monotonic() + request.seconds
    targets = parse_targets(request.targets)
    known = [
        KnownProblem(one.target, one.kind, frozenset(one.called_names)) for one in request.known
    ]
    if request.is_guided:
        _search_guided(request, targets, known, send, until)
        return
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


def _search_guided(
    request: FuzzRequest,
    targets: list[Target],
    known: list[KnownProblem],
    send: Send,
    until: float,
) -> None:
    code = NewCode(read_conclusive_arcs(Path(request.recorded)) if request.recorded else {})

    def judge(program: GeneratedProgram) -> Problem | None:
        _announce(program, send, search.tried)
        return CellJudge(targets, known, seed=0)(program)

    # Without a recording nearly every program is the first to execute something.
    search = GuidedSearch(
        judge,
        code,
        request.seed,
        may_draw=request.may_draw,
        reports_new_code=bool(request.recorded),
    )
    while time.monotonic() < until:
        found = search.try_next()
        if isinstance(found, Finding):
            known.append(KnownProblem.from_finding(found))
            causes = find_known_causes(found.program, Target.parse(found.problem.target), seed=0)
            send(_report(found, search.tried, causes))
        elif found is not None:
            send(_report_reached(found, search.tried))


class _AnnouncingJudge:
    """Sends each program before it is judged."""

    def __init__(self, judge: CellJudge, send: Send, tried: int) -> None:
        self._judge, self._send, self._tried = judge, send, tried

    def __call__(self, program: GeneratedProgram) -> Problem | None:
        self._tried += 1
        _announce(program, self._send, self._tried)
        return self._judge(program)


def _announce(program: GeneratedProgram, send: Send, tried: int) -> None:
    send(
        ProgramStarted(
            text=program.to_suite_file(),
            called_names=sorted(program.called_names),
            name=program.name,
            tried=tried,
        )
    )


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


def _report_reached(found: ReachingProgram, tried: int) -> ReachedCode:
    program, places = found.program, list_places(found.places)
    about = "Executes lowering code that no recorded cell executes: " + ", ".join(places)
    return ReachedCode(
        name=program.name,
        step_count=program.step_count,
        text=program.to_suite_file("", about),
        places=places,
        tried=tried,
    )


def list_places(places: Places) -> list[str]:
    """Format lines as ``file:12-14``, consecutive ones together."""
    found: list[tuple[str, int, int]] = []
    for name, lines in sorted(places.items()):
        for line in sorted(lines):
            if found and found[-1][0] == name and found[-1][2] == line - 1:
                found[-1] = name, found[-1][1], line
            else:
                found.append((name, line, line))
    return [f"{name}:{a}" if a == b else f"{name}:{a}-{b}" for name, a, b in found]
