"""What a process that looks for wrong programs is asked, and what it tells; plain data."""

from __future__ import annotations

import msgspec


class Quest(msgspec.Struct, frozen=True, kw_only=True):
    """What to look for.

    Attributes:
        targets: where programs are taken to.
        seconds: for how long.
        seed: of the programs.
        may_draw: let them draw random numbers.
        known: what is not to be found again.
    """

    targets: list[str]
    seconds: float
    seed: int
    may_draw: bool = False
    known: list[Report] = []


class Trying(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A program that is judged now: should the process end, it was this one."""

    text: str
    words: list[str]
    name: str
    tried: int


class Report(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A program that was found.

    Attributes:
        name: of the case.
        target: where it is wrong.
        kind: what programs that are wrong alike have in common.
        said: what is wrong.
        ops: how many statements it has.
        words: what they call.
        text: a file with it as a case.
        tried: programs that were judged until then.
    """

    name: str
    target: str
    kind: str
    said: str
    ops: int
    words: list[str]
    text: str
    tried: int


Told = Trying | Report
