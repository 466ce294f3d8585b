"""Shrinks a wrong program by removing statements.

Hypothesis shrinks choices, but a choice changes the meaning of all later ones. Here, a statement
whose result is unused is removed at once; any other is replaced by one of its operands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from harness.extras.fuzzing.generated_program import GeneratedProgram

IsStillWrong = Callable[[GeneratedProgram], bool]

_NAME = re.compile(r"\b[vx]\d+\b")


def shrink(program: GeneratedProgram, is_still_wrong: IsStillWrong) -> GeneratedProgram:
    """Remove parts of a program until nothing more can be removed.

    Args:
        program: a wrong program.
        is_still_wrong: whether a smaller program has the same problem; also False when time is
            over.
    """
    while True:
        smaller = next((each for each in _generate_smaller(program) if is_still_wrong(each)), None)
        if smaller is None:
            return program
        program = smaller


def _generate_smaller(program: GeneratedProgram) -> Iterator[GeneratedProgram]:
    if len(program.returns) > 1:
        for name in program.returns:
            yield _clean_up(replace(program, returns=(name,)))
        for name in program.returns:
            left = tuple(each for each in program.returns if each != name)
            yield _clean_up(replace(program, returns=left))
    for index in reversed(range(len(program.steps))):
        yield from _remove_step(program, index)
    if program.is_dynamic:
        yield replace(program, is_dynamic=False)
    tidy = _clean_up(program)
    if tidy != program:
        yield tidy


def _remove_step(program: GeneratedProgram, index: int) -> Iterator[GeneratedProgram]:
    """Yield the program without a statement; uses of its result are replaced by one of its
    operands.
    """
    step = program.steps[index]
    made, given = _find_assigned_name(step), _NAME.findall(_expression(step))
    steps = (*program.steps[:index], *program.steps[index + 1 :])
    read = made is not None and (
        made in program.returns or any(_reads(each, made) for each in steps)
    )
    if not read:
        yield _clean_up(replace(program, steps=steps))
        return
    assert made is not None
    for other in dict.fromkeys(given):
        renamed = tuple(re.sub(rf"\b{made}\b", other, each) for each in steps)
        returns = tuple(dict.fromkeys(other if name == made else name for name in program.returns))
        yield _clean_up(replace(program, steps=renamed, returns=returns))


def _clean_up(program: GeneratedProgram) -> GeneratedProgram:
    """Remove statements without effect and unused inputs and buffers, and renumber names."""
    steps = list(program.steps)
    for index in reversed(range(len(steps))):
        made, later = _find_assigned_name(steps[index]), steps[index + 1 :]
        is_read = made in program.returns or any(_reads(each, str(made)) for each in later)
        if made is not None and not is_read and not re.search(r"\w_\(", steps[index]):
            del steps[index]
    text = "\n".join((*steps, *program.returns))
    inputs = [at for at in range(len(program.inputs)) if re.search(rf"\bx{at}\b", text)] or [0]
    names = {f"x{at}": f"x{new}" for new, at in enumerate(inputs)}
    values = [made for made in map(_find_assigned_name, steps) if made is not None]
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


def _find_assigned_name(step: str) -> str | None:
    """Return the name that a statement assigns; None for one that only writes in place."""
    match = re.match(r"(v\d+) = ", step)
    return None if match is None else match[1]


def _expression(step: str) -> str:
    return step.partition(" = ")[2] if _find_assigned_name(step) else step


def _reads(step: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", _expression(step)) is not None
