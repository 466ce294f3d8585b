"""The contract of a backend: right is not called wrong, and wrong is not called right."""

from __future__ import annotations

from collections.abc import Sequence

from harness.backend import Backend
from harness.pipeline.runner import run_cell
from harness.record.cell import Cell, Status
from harness.target import Target
from harness.testing.before_lowering import BEFORE_LOWERING
from harness.testing.dynamic_specimens import DYNAMIC_SPECIMENS
from harness.testing.specimens import SPECIMENS as OF_PROGRAMS, Expected, Specimen

SPECIMENS = [*OF_PROGRAMS, *DYNAMIC_SPECIMENS, *BEFORE_LOWERING]

# Where a legal program may end early: its backend cannot take it that far, and says so.
_CANNOT = frozenset({"quantize", "lower", "to_executorch", "serialize", "run"})


def check_backend(
    backend: Backend,
    *,
    recipes: Sequence[str] | None = None,
    specimens: Sequence[Specimen] | None = None,
    seed: int = 0,
) -> list[Cell]:
    """Run programs that harnesses judge wrongly on a backend and hold the verdicts.

    A program that conforms may be unsupported, or fail while it is lowered or run, because a
    backend need not execute everything; it is never a mismatch. One that differs from eager never
    passes. A program that is lowered for a range of sizes is executed at the ends of the range, and
    may fail at all sizes, but not at one of them. A recipe that quantizes takes by default only the
    programs that show what happens before lowering: torchao's conversion has defects of its own
    with in-place writes to inputs and state.

    Args:
        backend: an object with the protocol of :class:`harness.Backend`; it need not be registered.
        recipes: names of its recipes; default: all.
        specimens: the programs; default: all, or for a recipe that quantizes those of
            :mod:`harness.testing.before_lowering`.
        seed: run seed.

    Returns:
        The records, in the order of recipes and programs.

    Raises:
        AssertionError: a verdict is wrong; one line each.
    """
    state = backend.availability()
    if not state.available:
        raise AssertionError(f"backend {backend.name} cannot execute here: {state.reason}")
    chosen = recipes or list(backend.recipes)
    cells: list[Cell] = []
    wrong: list[str] = []
    for name in chosen:
        recipe = backend.recipes[name]
        quantizes = recipe.quantizer is not None or recipe.quantize_weights is not None
        usual = BEFORE_LOWERING if quantizes else SPECIMENS
        for specimen in usual if specimens is None else specimens:
            target = Target(backend.name, name)
            cell = run_cell(specimen.case, target, seed=seed, backend=backend)
            cells.append(cell)
            problem = misjudged(specimen, cell)
            if problem is not None:
                where = f" at {cell.stage}" if cell.stage else ""
                wrong.append(f"{cell.id}: {cell.status.value}{where}, {problem}: {cell.error}")
    if wrong:
        raise AssertionError("\n".join([f"{len(wrong)} verdicts are wrong:", *wrong]))
    return cells


def misjudged(specimen: Specimen, cell: Cell) -> str | None:
    """Why the verdict on a specimen is wrong, or None."""
    if cell.status in (Status.UNSUPPORTED, Status.UNAVAILABLE, Status.LOWERED):
        return None
    if cell.refused_call is not None and specimen.expected is Expected.CONFORMS:
        return "it was lowered for this size"
    if specimen.expected is not Expected.DIFFERS:
        if cell.altered:
            return "a call changes what it is given"
        if any(form.problem is not None for form in cell.intermediates):
            return "it is changed before it is lowered"
    failed_early = cell.status is Status.FAILED and cell.stage in _CANNOT
    match specimen.expected:
        case Expected.REFUSED:
            refused = cell.status is Status.FAILED and cell.stage == "reference"
            return None if refused or failed_early else "it has no outputs to expect"
        case Expected.DIFFERS:
            return "it differs from eager" if cell.status is Status.PASSED else None
        case Expected.CONFORMS | Expected.UNTELLING:
            if cell.status is not Status.PASSED:
                return None if failed_early else "it is right"
            if specimen.expected is Expected.UNTELLING and cell.is_telling:
                return "it counts as conclusive, and a constant passes in its place"
    return None
