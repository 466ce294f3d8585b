"""The smallest program that is still wrong: statements are left out one after another.

Hypothesis makes choices smaller, and a choice moves what all later ones mean; statements that
nothing reads go here at once, and the others by what they were computed of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from harness.extras.fuzzing.generated_program import Program

StillWrong = Callable[[Program], bool]

_NAME = re.compile(r"\b[vx]\d+\b")


def reduce(program: Program, still_wrong: StillWrong) -> Program:
    """A program from which nothing can be left out.

    Args:
        program: one that is wrong.
        still_wrong: whether a smaller one is wrong alike; False ends it, too, once time is over.
    """
    while True:
        smaller = next((each for each in _smaller(program) if still_wrong(each)), None)
        if smaller is None:
            return program
        program = smaller


def _smaller(program: Program) -> Iterator[Program]:
    if len(program.returns) > 1:
        for name in program.returns:
            yield _tidy(replace(program, returns=(name,)))
        for name in program.returns:
            left = tuple(each for each in program.returns if each != name)
            yield _tidy(replace(program, returns=left))
    for index in reversed(range(len(program.steps))):
        yield from _without(program, index)
    if program.is_dynamic:
        yield replace(program, is_dynamic=False)
    tidy = _tidy(program)
    if tidy != program:
        yield tidy


def _without(program: Program, index: int) -> Iterator[Program]:
    """The program without a statement; what read it reads something that it was computed of."""
    step = program.steps[index]
    made, given = _made(step), _NAME.findall(_expression(step))
    steps = (*program.steps[:index], *program.steps[index + 1 :])
    read = made is not None and (
        made in program.returns or any(_reads(each, made) for each in steps)
    )
    if not read:
        yield _tidy(replace(program, steps=steps))
        return
    assert made is not None
    for other in dict.fromkeys(given):
        renamed = tuple(re.sub(rf"\b{made}\b", other, each) for each in steps)
        returns = tuple(dict.fromkeys(other if name == made else name for name in program.returns))
        yield _tidy(replace(program, steps=renamed, returns=returns))


def _tidy(program: Program) -> Program:
    """The program without statements that nothing reads and that change nothing, without inputs and
    buffers that nothing reads, and with names in order."""
    steps = list(program.steps)
    for index in reversed(range(len(steps))):
        made, later = _made(steps[index]), steps[index + 1 :]
        is_read = made in program.returns or any(_reads(each, str(made)) for each in later)
        if made is not None and not is_read and not re.search(r"\w_\(", steps[index]):
            del steps[index]
    text = "\n".join((*steps, *program.returns))
    inputs = [at for at in range(len(program.inputs)) if re.search(rf"\bx{at}\b", text)] or [0]
    names = {f"x{at}": f"x{new}" for new, at in enumerate(inputs)}
    values = [made for made in map(_made, steps) if made is not None]
    names |= {name: f"v{new}" for new, name in enumerate(values)}
    buffers = [(name, made) for name, made in program.state if re.search(rf"\b{name}\b", text)]

    def renamed(line: str) -> str:
        return _NAME.sub(lambda match: names.get(match[0], match[0]), line)

    return replace(
        program,
        inputs=tuple(program.inputs[at] for at in inputs),
        state=tuple(buffers),
        steps=tuple(map(renamed, steps)),
        returns=tuple(map(renamed, program.returns)),
    )


def _made(step: str) -> str | None:
    """The name that a statement gives to what it computes; None for one that only writes."""
    match = re.match(r"(v\d+) = ", step)
    return None if match is None else match[1]


def _expression(step: str) -> str:
    return step.partition(" = ")[2] if _made(step) else step


def _reads(step: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", _expression(step)) is not None
