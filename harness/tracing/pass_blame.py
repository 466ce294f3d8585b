"""Which of a recipe's passes makes a cell red: it is run with one of them left out at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from harness.errors import UsageError
from harness.model import registry
from harness.model.case import Case
from harness.model.recipe_passes import pass_name
from harness.pipeline.runner import run_cell
from harness.record.cell import Cell, Status
from harness.record.target import ALL_PASSES, Target


@dataclass(frozen=True)
class Blame:
    """What came of leaving passes out.

    Attributes:
        whole: the cell with all passes.
        plain: with none of them; None where the whole one is green.
        without: for each pass the cell with all others.
        until: the first pass up to which the recipe's passes make the cell red together; empty
            where the passes have no part in it.
    """

    whole: Cell
    plain: Cell | None = None
    without: tuple[tuple[str, Cell], ...] = ()
    until: str = ""

    @property
    def guilty(self) -> tuple[str, ...]:
        """Passes without which, one at a time, the cell passes."""
        return tuple(name for name, cell in self.without if cell.status is Status.PASSED)

    @property
    def verdict(self) -> str:
        """What was found, in one sentence."""
        if self.plain is None:
            return "the cell passes with all of its passes; there is nothing to blame one for"
        if self.plain.status is not Status.PASSED:
            return "it is no pass: the cell does not pass without any of them either"
        if self.guilty:
            return f"it passes without {' or without '.join(self.guilty)}"
        return f"no pass alone: the first ones make it red together, up to {self.until}"


def blame(
    case: Case, target: Target, seed: int = 0, say: Callable[[str], None] | None = None
) -> Blame:
    """Leave the passes of a target's recipe out until the cell passes.

    Args:
        case: what is tested.
        target: where and how; passes that it spells count.
        seed: run seed.
        say: hears what is being done.

    Raises:
        UnknownTarget: no such target.
        UsageError: its recipe runs no passes, or nothing here executes for it.
    """
    tell = say or (lambda line: None)
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
        tell(f"without {', '.join(left_out)}" if left_out else "with all passes")
        kept = [each for each in target.passes if each[0] == "-" or each[1:] not in left_out]
        dropped = [f"-{name}" for name in left_out if name not in added]
        return run_cell(case, replace(target, passes=(*kept, *dropped)), seed=seed)

    whole = run()
    if whole.status is Status.PASSED:
        return Blame(whole)
    plain = run(*added, ALL_PASSES)
    if plain.status is not Status.PASSED:
        return Blame(whole, plain)
    without = tuple((name, run(name)) for name in names)
    found = Blame(whole, plain, without)
    if found.guilty:
        return found
    # Red with all of them, green with none: somewhere between, one more makes it red.
    green, red = 0, len(names)
    while red - green > 1:
        middle = (green + red) // 2
        if run(*names[middle:]).status is Status.PASSED:
            green = middle
        else:
            red = middle
    return replace(found, until=names[red - 1])
