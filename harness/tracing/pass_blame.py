"""Finds the pass of a recipe that makes a cell red, by leaving passes out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from harness.errors import UsageError
from harness.model import registry
from harness.model.case import Case
from harness.model.variations.passes import pass_name
from harness.pipeline.runner import run_cell
from harness.record.cell import Cell, Status
from harness.record.target import ALL_PASSES, Target


@dataclass(frozen=True)
class PassBlame:
    """The results of a cell with some passes left out.

    Attributes:
        with_all: the cell with all passes.
        with_none: the cell without any pass; None where it is green with all passes.
        with_one_left_out: for each pass, the cell with all others.
        first_red_prefix: the last pass of the shortest prefix of the recipe's passes that makes the
            cell red; empty where no pass is the cause.
    """

    with_all: Cell
    with_none: Cell | None = None
    with_one_left_out: tuple[tuple[str, Cell], ...] = ()
    first_red_prefix: str = ""

    @property
    def culprits(self) -> tuple[str, ...]:
        """Passes whose removal, one at a time, makes the cell pass."""
        return tuple(name for name, cell in self.with_one_left_out if cell.status is Status.PASSED)

    @property
    def conclusion(self) -> str:
        """The result in one sentence."""
        if self.with_none is None:
            return "the cell passes with all of its passes; no pass is at fault"
        if self.with_none.status is not Status.PASSED:
            return "it is no pass: the cell does not pass without passes either"
        if self.culprits:
            return f"it passes without {' or without '.join(self.culprits)}"
        return f"no pass alone: the first ones make it red together, up to {self.first_red_prefix}"


def blame_passes(
    case: Case, target: Target, seed: int = 0, on_progress: Callable[[str], None] | None = None
) -> PassBlame:
    """Leave out passes of a target's recipe until the cell passes.

    Args:
        case: the case.
        target: the target; passes named in its spelling count.
        seed: run seed.
        on_progress: called with a line of text for each step.

    Raises:
        UnknownTarget: no such target.
        UsageError: its recipe runs no passes, or nothing on this host executes for it.
    """
    report = on_progress or (lambda line: None)
    backend = registry.backend(target.backend)
    state = backend.availability()
    if not state.available:
        raise UsageError(f"{target} cannot execute here: {state.reason}")
    added = [each[1:] for each in target.passes if each[0] == "+"]
    own = replace(target, passes=tuple(each for each in target.passes if each[0] == "-"))
    names = [*added, *(pass_name(made) for made in registry.recipe(own).transform_passes())]
    if not names:
        raise UsageError(f"{target} runs no passes before it partitions")

    def run(*left_out: str) -> Cell:
        report(f"without {', '.join(left_out)}" if left_out else "with all passes")
        kept = [each for each in target.passes if each[0] == "-" or each[1:] not in left_out]
        dropped = [f"-{name}" for name in left_out if name not in added]
        return run_cell(case, replace(target, passes=(*kept, *dropped)), seed=seed)

    whole = run()
    if whole.status is Status.PASSED:
        return PassBlame(whole)
    plain = run(*added, ALL_PASSES)
    if plain.status is not Status.PASSED:
        return PassBlame(whole, plain)
    without = tuple((name, run(name)) for name in names)
    found = PassBlame(whole, plain, without)
    if found.culprits:
        return found
    # Red with all passes, green with none: bisect for the pass that makes it red.
    green, red = 0, len(names)
    while red - green > 1:
        middle = (green + red) // 2
        if run(*names[middle:]).status is Status.PASSED:
            green = middle
        else:
            red = middle
    return replace(found, first_red_prefix=names[red - 1])
