"""``check_backend``: a backend passes correct programs and fails wrong ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from harness.contract.arithmetic_specimens import ARITHMETIC_SPECIMENS
from harness.contract.before_lowering import BEFORE_LOWERING_SPECIMENS, QUANTIZER_SPECIMENS
from harness.contract.dynamic_specimens import DYNAMIC_SPECIMENS
from harness.contract.specimens import (
    SPECIMENS as PROGRAM_SPECIMENS,
    Expected,
    Specimen,
    SpecimenKind,
)
from harness.errors import UsageError
from harness.model.backend import Backend
from harness.model.limitation import Limitation, find_unmatched
from harness.pipeline import speed
from harness.pipeline.runner import run_cell
from harness.record.cell import Cell, Status
from harness.record.target import Target

SPECIMENS = [
    *PROGRAM_SPECIMENS,
    *ARITHMETIC_SPECIMENS,
    *DYNAMIC_SPECIMENS,
    *BEFORE_LOWERING_SPECIMENS,
]

PREFIX = "specimen/"

# Stages in which a legal program may fail because the backend cannot handle it.
_EARLY_STAGES = frozenset({"quantize", "lower", "to_executorch", "serialize", "run"})

# A limitation never excuses a program with a planted fault: it must be red.
_MAY_BE_LIMITED = frozenset({Expected.CONFORMS, Expected.VACUOUS})

MIN_PASSED_SHARE = 0.5
"""Minimum share of conforming programs that must execute and pass conclusively."""


def check_backend(
    backend: Backend,
    *,
    recipes: Sequence[str] | None = None,
    specimens: Sequence[Specimen] | None = None,
    seed: int = 0,
    unsupported: Mapping[str, str] | None = None,
    limitations: Sequence[Limitation] = (),
) -> list[Cell]:
    """Run programs that test harnesses often judge wrongly on a backend, and check the verdicts.

    A conforming program must never be a mismatch, unless a limitation describes the defect. A
    backend need not execute every program: it declares the others with ``unsupported``, or the cell
    is ``unsupported``. Half of the conforming programs must pass, and one of each kind unless all
    of that kind are declared. A program that differs from eager must never pass. A program that is
    lowered for a range of sizes is executed at both ends of the range.

    A recipe that quantizes gets by default only the programs about what happens before lowering:
    torchao's conversion has known defects with in-place writes to inputs and state. While it runs,
    work that torch repeats is cached (docs/adr/0004).

    Args:
        backend: an object with the protocol of :class:`harness.Backend`; need not be registered.
        recipes: names of its recipes; default: all.
        specimens: the programs; default: all; for a recipe that quantizes, the specimens of
            :mod:`harness.contract.before_lowering`, without bfloat16 for a PT2E quantizer. A
            backend that executes few operators gives programs of its own.
        seed: run seed.
        unsupported: reasons why the backend cannot execute programs, by globs over their names such
            as ``"cond*"``. Such a program may fail while it is lowered or run. It is an error if it
            passes, because the reason no longer holds.
        limitations: known defects of the vendor's code that conforming programs show, by names of
            cases such as ``"specimen/cond*"``. Such a program must fail as the entry predicts;
            another failure or a pass is an error. Programs that differ from eager are judged
            without them.

    Returns:
        The records, in the order of recipes and programs.

    Raises:
        AssertionError: a verdict is wrong, or too few programs pass; one line for each program.
        UsageError: a glob or a limitation matches no program.
    """
    state = backend.availability()
    if not state.available:
        raise AssertionError(f"backend {backend.name} cannot execute here: {state.reason}")
    declared = dict(unsupported or {})
    for glob in declared:
        if not any(_matches(glob, one) for one in (SPECIMENS if specimens is None else specimens)):
            raise UsageError(f"unsupported={{{glob!r}: ...}} matches no program; remove it")
    targets = [Target(backend.name, name) for name in recipes or list(backend.recipes)]
    conforming = [
        one.case
        for one in (SPECIMENS if specimens is None else specimens)
        if one.expected in _MAY_BE_LIMITED
    ]
    for entry in find_unmatched(limitations, conforming, targets):
        raise UsageError(
            f"the limitation of {entry.case} on {entry.target} matches no conforming program on "
            f"{', '.join(map(str, targets))}; remove it"
        )
    cells: list[Cell] = []
    wrong: list[str] = []
    few: list[str] = []
    for target in targets:
        recipe = backend.recipes[target.recipe]
        usual = SPECIMENS if recipe.quantize_weights is None else BEFORE_LOWERING_SPECIMENS
        usual = usual if recipe.quantizer is None else QUANTIZER_SPECIMENS
        judged: list[_JudgedSpecimen] = []
        with speed.install_temporarily():
            for specimen in usual if specimens is None else specimens:
                known = limitations if specimen.expected in _MAY_BE_LIMITED else ()
                cell = run_cell(
                    specimen.case, target, seed=seed, limitations=known, backend=backend
                )
                whys = (why for glob, why in declared.items() if _matches(glob, specimen))
                judged.append(_JudgedSpecimen(specimen, cell, next(whys, None)))
        cells += [one.cell for one in judged]
        wrong += [line for one in judged if (line := one.problem) is not None]
        quantizes = usual is not SPECIMENS
        few += _find_shortfalls(target, judged, quantizes=quantizes)
    lines = [f"{len(wrong)} verdicts are wrong:", *wrong] if wrong else []
    lines += ["too few programs pass:", *few] if few else []
    if lines:
        raise AssertionError("\n".join(lines))
    return cells


@dataclass(frozen=True)
class _JudgedSpecimen:
    """A specimen, its record, and the reason if it is declared unsupported."""

    specimen: Specimen
    cell: Cell
    declared: str | None

    @property
    def conforms(self) -> bool:
        return self.specimen.expected is Expected.CONFORMS

    @property
    def is_excused(self) -> bool:
        """Whether the program is declared or reported unsupported, or has a limitation."""
        return self.declared is not None or self.cell.status in (
            Status.UNSUPPORTED,
            Status.XFAILED,
        )

    @property
    def is_refused(self) -> bool:
        """Whether the recipe refused the program before it was executed."""
        return self.cell.status is Status.UNSUPPORTED and self.cell.stage != "run"

    @property
    def passed(self) -> bool:
        """Whether the cell passed conclusively: a constant output would fail."""
        return self.cell.status is Status.PASSED and self.cell.is_conclusive

    @property
    def outcome(self) -> str:
        """The cell, its status and its stage."""
        where = f" at {self.cell.stage}" if self.cell.stage else ""
        return f"{self.cell.id}: {self.cell.status.value}{where}"

    @property
    def problem(self) -> str | None:
        """Why the verdict is wrong, in one line."""
        cell, name = self.cell, self.specimen.case.name.removeprefix(PREFIX)
        found = find_wrong_verdict(self.specimen, cell)
        if found is None and self.conforms:
            if self.declared is None and _ends_early(cell):
                found = (
                    "it is a correct program and not declared unsupported; fix the backend, or "
                    f"declare it with unsupported={{{name!r}: REASON}}"
                )
            elif self.declared is not None and self.passed:
                found = f"it passes but is declared unsupported ({self.declared}); remove that"
        if found is None:
            return None
        return f"{self.outcome}, {found}: {cell.error}"


def find_wrong_verdict(specimen: Specimen, cell: Cell) -> str | None:
    """Return why the verdict on a specimen is wrong, or None."""
    if cell.status in (Status.UNSUPPORTED, Status.UNAVAILABLE, Status.LOWERED, Status.XFAILED):
        return None
    if cell.status is Status.XPASSED:
        return "its limitation no longer holds"
    if cell.refused_call is not None and specimen.expected is Expected.CONFORMS:
        return "it was lowered for this size"
    if specimen.expected is not Expected.DIFFERS:
        if cell.side_effects:
            return "a call changes its inputs or its module"
        if any(form.problem is not None for form in cell.intermediates):
            return "it is changed before it is lowered"
    match specimen.expected:
        case Expected.REFUSED:
            refused = cell.status is Status.FAILED and cell.stage == "reference"
            return None if refused or _ends_early(cell) else "its outputs are not reproducible"
        case Expected.DIFFERS:
            return "it differs from eager" if cell.status is Status.PASSED else None
        case Expected.CONFORMS | Expected.VACUOUS:
            if cell.status is not Status.PASSED:
                return None if _ends_early(cell) else "it is a correct program"
            if specimen.expected is Expected.VACUOUS and cell.is_conclusive:
                return "it counts as conclusive, but a constant output passes too"
    return None


def _ends_early(cell: Cell) -> bool:
    return cell.status is Status.FAILED and cell.stage in _EARLY_STAGES


def _matches(glob: str, specimen: Specimen) -> bool:
    return fnmatchcase(specimen.case.name.removeprefix(PREFIX), glob)


def _find_shortfalls(
    target: Target, judged: Sequence[_JudgedSpecimen], *, quantizes: bool
) -> list[str]:
    """Return the requirements that a recipe does not meet because too few programs pass.

    A recipe that quantizes may refuse programs with nothing to quantize; these do not count.
    """
    right = [one for one in judged if one.conforms]
    lines = []
    for kind in SpecimenKind:
        of_kind = [one for one in right if one.specimen.kind is kind and not one.is_excused]
        if of_kind and not any(one.passed for one in of_kind):
            lines.append(
                f"{target}: none of {len(of_kind)} programs about {kind} passes, and not all are "
                "declared unsupported"
            )
    taken = [one for one in right if not (quantizes and one.is_refused)]
    passed = sum(one.passed for one in taken)
    if right and passed < max(1, MIN_PASSED_SHARE * len(taken)):
        lines.append(
            f"{target}: {passed} of {len(taken)} conforming programs pass; at least half of them "
            "must pass"
        )
    if lines:
        silent = (one for one in right if not one.passed and one.problem is None)
        lines += [f"  {one.outcome}: {one.declared or one.cell.error}" for one in silent]
    return lines
