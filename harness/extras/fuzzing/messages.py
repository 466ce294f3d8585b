"""Messages between a campaign and its worker process."""

from __future__ import annotations

import msgspec

from harness.workers.protocol import Outcome


class FuzzRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to search for wrong programs.

    Attributes:
        targets: targets to test.
        seconds: time limit.
        seed: seed of the programs.
        may_draw: whether programs may draw random numbers.
        known: problems to ignore because they were found before.
        is_guided: prefer programs that execute lowering code which nothing else does.
        recorded: folder of a recorded run, whose conclusive cells execute known code; empty for
            none.
    """

    targets: list[str]
    seconds: float
    seed: int
    may_draw: bool = False
    known: list[FoundProgram] = []
    is_guided: bool = False
    recorded: str = ""


class ProgramStarted(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A program is about to be judged. If the process ends, this program is the cause."""

    text: str
    called_names: list[str]
    name: str
    tried: int


class FoundProgram(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A wrong program.

    Attributes:
        name: name of its case.
        target: target that gets it wrong.
        kind: category that programs with the same problem share.
        message: description of the problem.
        step_count: number of its statements.
        called_names: functions and methods that it calls.
        text: a file with the program as a case.
        tried: number of programs judged so far.
        known: causes of the known issues that it shows.
    """

    name: str
    target: str
    kind: str
    message: str
    step_count: int
    called_names: list[str]
    text: str
    tried: int
    known: list[str] = []


class ReachedCode(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A program that is not red, and executes lowering code that no recorded cell executes.

    Attributes:
        name: name of its case.
        step_count: number of its statements.
        text: a file with the program as a case.
        places: lines that it is the first to execute, such as ``executorch/exir/a.py:12-14``.
        tried: number of programs judged so far.
    """

    name: str
    step_count: int
    text: str
    places: list[str]
    tried: int


FuzzEvent = ProgramStarted | FoundProgram | ReachedCode | Outcome
