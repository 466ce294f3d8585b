"""The contract of a backend: right is not called wrong, and wrong is not called right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from harness.contract.arithmetic_specimens import ARITHMETIC_SPECIMENS
from harness.contract.before_lowering import BEFORE_LOWERING, FOR_QUANTIZERS
from harness.contract.dynamic_specimens import DYNAMIC_SPECIMENS
from harness.contract.specimens import SPECIMENS as OF_PROGRAMS, Expected, Kind, Specimen
from harness.errors import UsageError
from harness.model.backend import Backend
from harness.pipeline import speed
from harness.pipeline.runner import run_cell
from harness.record.cell import Cell, Status
from harness.record.target import Target

SPECIMENS = [*OF_PROGRAMS, *ARITHMETIC_SPECIMENS, *DYNAMIC_SPECIMENS, *BEFORE_LOWERING]

PREFIX = "specimen/"

# Where a legal program may end early: its backend cannot take it that far, and says so.
_CANNOT = frozenset({"quantize", "lower", "to_executorch", "serialize", "run"})

LEAST_SHARE = 0.5
"""Of the programs that conform, how many a backend must execute, with a verdict that tells."""


def check_backend(
    backend: Backend,
    *,
    recipes: Sequence[str] | None = None,
    specimens: Sequence[Specimen] | None = None,
    seed: int = 0,
    unsupported: Mapping[str, str] | None = None,
) -> list[Cell]:
    """Run programs that harnesses judge wrongly on a backend and hold the verdicts.

    A program that conforms is never a mismatch. A backend need not execute every program, but it
    says which: ``unsupported`` declares them, or the cell is ``unsupported``. Half of the programs
    that conform must pass, and one of each kind unless all of the kind is declared. A program that
    differs from eager never passes. A program that is lowered for a range of sizes is executed at
    the ends of the range. A recipe that quantizes takes by default only the programs that show what
    happens before lowering: torchao's conversion has defects of its own with in-place writes to
    inputs and state. While it runs, work that torch repeats is cached (docs/adr/0004).

    Args:
        backend: an object with the protocol of :class:`harness.Backend`; it need not be registered.
        recipes: names of its recipes; default: all.
        specimens: the programs; default: all, or for a recipe that quantizes those of
            :mod:`harness.contract.before_lowering`, float32 alone for a PT2E quantizer.
        seed: run seed.
        unsupported: the reason why the backend cannot execute a program, by a glob over names such
            as ``"cond*"``. Such a program may fail while it is lowered or run; that it passes is an
            error, because the reason no longer holds.

    Returns:
        The records, in the order of recipes and programs.

    Raises:
        AssertionError: a verdict is wrong, or too little was executed; one line each.
        UsageError: a glob matches no program.
    """
    state = backend.availability()
    if not state.available:
        raise AssertionError(f"backend {backend.name} cannot execute here: {state.reason}")
    declared = dict(unsupported or {})
    for glob in declared:
        if not any(_matches(glob, one) for one in (SPECIMENS if specimens is None else specimens)):
            raise UsageError(f"unsupported={{{glob!r}: ...}} matches no program; remove it")
    cells: list[Cell] = []
    wrong: list[str] = []
    few: list[str] = []
    for name in recipes or list(backend.recipes):
        recipe = backend.recipes[name]
        usual = SPECIMENS if recipe.quantize_weights is None else BEFORE_LOWERING
        usual = usual if recipe.quantizer is None else FOR_QUANTIZERS
        judged: list[_Judged] = []
        target = Target(backend.name, name)
        with speed.install_temporarily():
            for specimen in usual if specimens is None else specimens:
                cell = run_cell(specimen.case, target, seed=seed, backend=backend)
                whys = (why for glob, why in declared.items() if _matches(glob, specimen))
                judged.append(_Judged(specimen, cell, next(whys, None)))
        cells += [one.cell for one in judged]
        wrong += [line for one in judged if (line := one.problem) is not None]
        quantizes = usual is not SPECIMENS
        few += _too_few(target, judged, quantizes=quantizes)
    lines = [f"{len(wrong)} verdicts are wrong:", *wrong] if wrong else []
    lines += ["too little is executed:", *few] if few else []
    if lines:
        raise AssertionError("\n".join(lines))
    return cells


@dataclass(frozen=True)
class _Judged:
    """A specimen, its record, and the reason if it is declared unsupported."""

    specimen: Specimen
    cell: Cell
    declared: str | None

    @property
    def conforms(self) -> bool:
        return self.specimen.expected is Expected.CONFORMS

    @property
    def is_excused(self) -> bool:
        """Whether somebody says that the backend cannot execute the program."""
        return self.declared is not None or self.cell.status is Status.UNSUPPORTED

    @property
    def is_refused(self) -> bool:
        """Whether the recipe refused the program before it was executed."""
        return self.cell.status is Status.UNSUPPORTED and self.cell.stage != "run"

    @property
    def passed(self) -> bool:
        """Whether the cell passed, and a constant would not."""
        return self.cell.status is Status.PASSED and self.cell.is_telling

    @property
    def problem(self) -> str | None:
        """Why the verdict is wrong, in a line."""
        cell, name = self.cell, self.specimen.case.name.removeprefix(PREFIX)
        found = misjudged(self.specimen, cell)
        if found is None and self.conforms:
            if self.declared is None and _ends_early(cell):
                found = (
                    "it is right, and nothing declares it unsupported; mend it, or declare it with "
                    f"unsupported={{{name!r}: REASON}}"
                )
            elif self.declared is not None and self.passed:
                found = f"it is declared unsupported ({self.declared}); remove that"
        if found is None:
            return None
        where = f" at {cell.stage}" if cell.stage else ""
        return f"{cell.id}: {cell.status.value}{where}, {found}: {cell.error}"


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
    match specimen.expected:
        case Expected.REFUSED:
            refused = cell.status is Status.FAILED and cell.stage == "reference"
            return None if refused or _ends_early(cell) else "it has no outputs to expect"
        case Expected.DIFFERS:
            return "it differs from eager" if cell.status is Status.PASSED else None
        case Expected.CONFORMS | Expected.UNTELLING:
            if cell.status is not Status.PASSED:
                return None if _ends_early(cell) else "it is right"
            if specimen.expected is Expected.UNTELLING and cell.is_telling:
                return "it counts as conclusive, and a constant passes in its place"
    return None


def _ends_early(cell: Cell) -> bool:
    return cell.status is Status.FAILED and cell.stage in _CANNOT


def _matches(glob: str, specimen: Specimen) -> bool:
    return fnmatchcase(specimen.case.name.removeprefix(PREFIX), glob)


def _too_few(target: Target, judged: Sequence[_Judged], *, quantizes: bool) -> list[str]:
    """What a recipe executes too little of, a line each.

    A recipe that quantizes may refuse programs with nothing to quantize: these do not count.
    """
    right = [one for one in judged if one.conforms]
    lines = []
    for kind in Kind:
        of_kind = [one for one in right if one.specimen.kind is kind and not one.is_excused]
        if of_kind and not any(one.passed for one in of_kind):
            lines.append(
                f"{target}: of {len(of_kind)} programs about {kind} none passes, and they are not "
                "declared unsupported"
            )
    taken = [one for one in right if not (quantizes and one.is_refused)]
    passed = sum(one.passed for one in taken)
    if right and passed < max(1, LEAST_SHARE * len(taken)):
        lines.append(
            f"{target}: {passed} of {len(taken)} programs that conform pass; a backend must "
            "execute half of them"
        )
    return lines
