"""The backends by name. Built-ins are strings, imported when first asked for.

Out-of-tree backends register an entry point in the group ``conform.backends`` whose value is
the same kind of string: ``module:attribute``, the attribute being a :class:`Backend`. What a
built-in one has in the table here, it says itself: :class:`~harness.model.backend.SelectsTargets`.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.metadata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from harness.errors import ConflictingBackends, ConflictingOptions, LimitationError, UnknownTarget
from harness.model.backend import (
    Backend,
    CanEmulate,
    DescribesPayloads,
    KnowsIssues,
    KnowsLimitations,
    LoadsDelegates,
    MissingBackend,
    SelectsTargets,
)
from harness.model.known_issues.known_issue import find_known_issues
from harness.model.recipe import Recipe
from harness.model.recipe_passes import apply_passes
from harness.record.run import BackendState
from harness.record.target import Target, is_target, matches_any_glob, matches_target

if TYPE_CHECKING:
    from harness.model.case import Case
    from harness.model.known_issues.known_issue import KnownIssue
    from harness.model.limitation import Limitation
    from harness.record.cell import Cell

# Now, before a project's own folder of that name comes to stand in front of it on the path.
importlib.import_module("backends")

NIGHTLY = "nightly"
"""Tag, and pytest marker, of cells that a plain run leaves to the nightly run."""
ENTRY_POINT_GROUP = "conform.backends"

KNOWN_ISSUES = "suites.known_issues:ISSUES"
"""The module and attribute of the table of known issues; imported when a cell is red."""


class BuiltIn(NamedTuple):
    """A backend of this project.

    Attributes:
        where: the module and the attribute.
        recipes: what a plain run selects. They stand here so that a backend whose package is
            missing still has its cells, as ``unavailable``.
        nightly: what is selected beside them where the marker ``nightly`` is.
    """

    where: str
    recipes: tuple[str, ...] = ()
    nightly: tuple[str, ...] = ()


BUILT_IN: dict[str, BuiltIn] = {
    "portable": BuiltIn("backends.portable:BACKEND", ("fp32",)),
    "xnnpack": BuiltIn("backends.xnnpack:BACKEND", ("fp32",)),
    "tosa": BuiltIn("backends.tosa:BACKEND", ("fp", "int")),
    "mlx": BuiltIn("backends.mlx:BACKEND", ("fp32",), nightly=("bf16",)),
    "metal": BuiltIn("backends.metal.backend:BACKEND", ("fp32",), nightly=("bf16",)),
    "null": BuiltIn("backends.null:BACKEND"),
}


def names() -> list[str]:
    """All registered backends: built-ins first, then entry points, without importing any.

    Raises:
        ConflictingBackends: two have one name.
    """
    return [*BUILT_IN, *_entry_points()]


def find_backend_path(name: str) -> str:
    """The module and the attribute of a backend, ``module:attribute``; nothing is imported.

    Raises:
        UnknownTarget: no backend of that name is registered.
        ConflictingBackends: two have one name.
    """
    found = BUILT_IN[name].where if name in BUILT_IN else _entry_points().get(name)
    if found is None:
        raise UnknownTarget(f"no backend {name!r}{_did_you_mean(name, names())}")
    return found


def out_of_tree_backends() -> list[Backend]:
    """The backends of entry points; those that do not import are among them, as unavailable.

    Raises:
        ConflictingBackends: two have one name.
    """
    return [backend(name) for name in _entry_points()]


def default_targets() -> list[Target]:
    """What a run selects when no ``--targets`` are given."""
    ours = [Target(name, recipe) for name, one in BUILT_IN.items() for recipe in one.recipes]
    selecting = [one for one in out_of_tree_backends() if isinstance(one, SelectsTargets)]
    return [*ours, *(Target(one.name, recipe) for one in selecting for recipe in one.plain)]


def nightly_targets() -> list[Target]:
    """What a nightly run selects beside the defaults."""
    ours = [Target(name, recipe) for name, one in BUILT_IN.items() for recipe in one.nightly]
    selecting = [one for one in out_of_tree_backends() if isinstance(one, SelectsTargets)]
    return [*ours, *(Target(one.name, recipe) for one in selecting for recipe in one.nightly)]


def limitations() -> list[Limitation]:
    """The gaps that backends out of tree bring with them.

    Raises:
        LimitationError: an entry may speak of another backend.
    """
    found = []
    for one in out_of_tree_backends():
        for entry in one.limitations if isinstance(one, KnowsLimitations) else ():
            if not all(part.startswith(f"{one.name}:") for part in entry.target.split("|")):
                raise LimitationError(
                    f"backend {one.name!r} brings a limitation on {entry.target!r}; it speaks of "
                    f"its own targets alone, such as {one.name}:*"
                )
            found.append(entry)
    return found


def known_issues() -> list[KnownIssue]:
    """The known issues of this project's suites, and those that backends out of tree bring with
    them."""
    found = list(_table(KNOWN_ISSUES))
    for one in out_of_tree_backends():
        found += one.known_issues if isinstance(one, KnowsIssues) else ()
    return found


def note_known_issues(cell: Cell) -> None:
    """Put into the record of a red cell the known issues that it shows the signs of; the table is
    not imported for others."""
    if cell.status.is_red:
        cell.known_issues = find_known_issues(cell, known_issues())


def _table(where: str) -> Sequence[KnownIssue]:
    """The table that a module has; none where its package is not installed, or where a folder of
    that name is in front of it on the path."""
    module, _, attribute = where.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)  # type: ignore[no-any-return]
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module}.".startswith(f"{error.name}."):
            return ()
        raise


def known_targets() -> list[Target]:
    """Every recipe of every backend that can be imported, and the defaults of those that
    cannot."""
    targets = dict.fromkeys(default_targets())
    for name in names():
        targets.update(dict.fromkeys(Target(name, recipe) for recipe in backend(name).recipes))
    return list(targets)


def select_targets(case: Case, selected: Sequence[Target] | None) -> list[Target]:
    """The targets of a case in a run that selects these; None means a plain run, those of the
    night included (:func:`is_nightly`)."""
    if not case.targets:
        return list([*default_targets(), *nightly_targets()] if selected is None else selected)
    if selected is not None:
        return list(_meant(case.targets, case.exporter is None, tuple(selected)))
    known = _meant(case.targets, case.exporter is None, tuple(known_targets()))
    return [*known, *find_variations(case)]


@functools.cache
def _meant(targets: str, by_likeness: bool, among: tuple[Target, ...]) -> tuple[Target, ...]:
    """Those of some targets that a case with these globs is meant for: by their names, or for what
    their recipes are like. Thousands of cases have a few dozen globs."""
    return tuple(
        target
        for target in among
        if matches_target(targets, target)
        or (by_likeness and any(matches_any_glob(targets, other) for other in _like(target)))
    )


def _like(target: Target) -> tuple[str, ...]:
    """The targets whose cases a target takes as well. Not those with an exporter of their own,
    which makes programs for the backends that it names alone."""
    if target.backend in BUILT_IN:
        return ()
    known = backend(target.backend).recipes.get(target.recipe)
    return () if known is None else known.like


def find_variations(case: Case) -> list[Target]:
    """The targets with passes that a case itself is taken to: those that it spells in full."""
    spelled = (part for part in case.targets.split("|") if is_target(part))
    return [target for target in map(Target.parse, spelled) if target.passes]


def is_nightly(case: Case, target: Target, selected: Sequence[Target] | None) -> bool:
    """Whether a plain run leaves a cell to the nightly run.

    It does where the case has the tag, or where nobody selected the target and the case runs on
    another recipe of the backend or leaves the target out of ``plain_targets``.
    """
    if NIGHTLY in case.tags:
        return True
    if selected is not None:
        return False
    if not any(
        matches_any_glob(case.plain_targets, each) for each in (str(target), *_like(target))
    ):
        return True
    if target not in nightly_targets():
        return False
    plain = [one for one in default_targets() if one.backend == target.backend]
    return not case.targets or bool(select_targets(case, plain))


@functools.cache
def backend(name: str) -> Backend:
    """The backend of that name; one that fails to import is returned as unavailable.

    Raises:
        UnknownTarget: no backend of that name is registered.
        ConflictingBackends: two have one name.
    """
    module_name, _, attribute = find_backend_path(name).partition(":")
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except Exception as error:
        # Whatever an import raises (a missing library, a version clash) is the reason.
        return MissingBackend(name, f"{module_name} does not import: {error}")
    if not isinstance(found, Backend):
        return MissingBackend(name, f"{find_backend_path(name)} is not a Backend")
    if found.name != name:
        return MissingBackend(
            name,
            f"{find_backend_path(name)} is registered as {name!r} and calls itself {found.name!r}",
        )
    return found


def backends_by_delegate() -> dict[str, Backend]:
    """The backends that execute or read payloads, by the names that programs ask for them by."""
    found: dict[str, Backend] = {}
    for name in names():
        one = backend(name)
        if isinstance(one, LoadsDelegates | DescribesPayloads):
            found.setdefault(one.delegate, one)
    return found


def recipe(target: Target, of: Backend | None = None) -> Recipe:
    """The recipe that a target names, of its registered backend or of a given one.

    Raises:
        UnknownTarget: no such backend, no such recipe of it, or no such pass.
    """
    found = of or backend(target.backend)
    recipes = found.recipes
    if target.recipe not in recipes:
        hint = _did_you_mean(target.recipe, list(recipes))
        raise UnknownTarget(f"backend {target.backend!r} has no recipe {target.recipe!r}{hint}")
    return apply_passes(recipes[target.recipe], target, found)


def require_two_runtimes(targets: Sequence[Target]) -> None:
    """Refuse to compare runtimes where none of the targets has two.

    Raises:
        ConflictingOptions: what runs here is the emulation alone, or there is none.
    """
    reasons = []
    for name in dict.fromkeys(target.backend for target in targets):
        found = backend(name)
        if isinstance(found, CanEmulate):
            state = found.availability()
            if state.runtime == "native":
                return
            reasons.append(f"{name} runs {state.runtime if state.available else 'not at all'}")
    raise ConflictingOptions(
        f"--compare-runtimes: no selected target has a native runtime beside its emulation here "
        f"({', '.join(reasons) or 'none has an emulation'})"
    )


def find_backend_states(
    names: Iterable[str], selected: Sequence[Target] | None
) -> dict[str, BackendState]:
    """What backends say of themselves, for the record of a run, sorted by name.

    Args:
        names: those of its cells.
        selected: the targets asked for. None for a plain run, which expects every installed
            backend: one that does not import has no cells, and is not passed over for that.
    """
    missing = (
        []
        if selected is not None
        else [one.name for one in out_of_tree_backends() if isinstance(one, MissingBackend)]
    )
    answers = {name: backend(name).availability() for name in sorted({*names, *missing})}
    return {
        name: BackendState(
            available=answer.available,
            reason=answer.reason,
            runtime=answer.runtime,
            can_lower=answer.available or answer.can_lower,
            unverified=answer.unverified,
            tools=answer.tools,
        )
        for name, answer in answers.items()
    }


@functools.cache
def _entry_points() -> dict[str, str]:
    """Where the backends out of tree are, by name.

    Raises:
        ConflictingBackends: one has the name of a built-in, or of another.
    """
    found: dict[str, importlib.metadata.EntryPoint] = {}
    for point in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
        if point.name in BUILT_IN:
            raise ConflictingBackends(
                f"{_whose(point)} registers a backend {point.name!r}, and that is a built-in one; "
                f"rename its entry point in {ENTRY_POINT_GROUP}, or uninstall it"
            )
        other = found.setdefault(point.name, point)
        if other.value != point.value:  # an editable install may be seen twice
            raise ConflictingBackends(
                f"{_whose(other)} and {_whose(point)} both register a backend {point.name!r}; "
                f"uninstall one of them"
            )
    return {name: point.value for name, point in found.items()}


def _whose(point: importlib.metadata.EntryPoint) -> str:
    """The distribution of an entry point, and where it points."""
    distribution = point.dist
    return f"{distribution.name if distribution else 'a distribution'} ({point.value})"


def _did_you_mean(name: str, choices: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, choices, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; there are: {', '.join(choices)}" if choices else ""
