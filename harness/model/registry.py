"""The backends by name. Built-ins are strings, imported on first use.

Out-of-tree backends register an entry point in the group ``conform.backends`` whose value is
the same kind of string: ``module:attribute``, the attribute being a :class:`Backend`. It
selects its own targets with :class:`~harness.model.backend.SelectsTargets`.
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
    LoadsKernels,
    MissingBackend,
    SelectsTargets,
)
from harness.model.known_issues.known_issue import find_known_issues
from harness.model.recipe import Recipe
from harness.model.variations.varied_recipe import vary_recipe
from harness.record.host import ENTRY_POINT_GROUP
from harness.record.run import BackendState
from harness.record.target import SEVERAL, Target, is_target, matches_any_glob, matches_target

if TYPE_CHECKING:
    from harness.execution.kernels import Kernels
    from harness.model.case import Case
    from harness.model.known_issues.known_issue import KnownIssue
    from harness.model.limitation import Limitation
    from harness.record.cell import Cell

# Import it now, before a project's folder of the same name comes first on the path.
importlib.import_module("backends")

NIGHTLY = "nightly"
"""Tag, and pytest marker, of cells that a plain run leaves to the nightly run."""

KNOWN_ISSUES = "suites.known_issues:ISSUES"
"""The module and attribute of the table of known issues; imported when a cell is red."""


_MIXED = "harness.execution.mixed_backend"


class BuiltIn(NamedTuple):
    """A backend of this project.

    Attributes:
        where: the module and the attribute.
        recipes: the recipes that a plain run selects. The table has them so that a backend whose
            package is missing still has its cells, as ``unavailable``.
        nightly: the recipes that only the nightly run selects.
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
    "coreml": BuiltIn("backends.coreml:BACKEND", nightly=("fp32", "fp16")),
    "cortex_m": BuiltIn("backends.cortex_m:BACKEND", nightly=("int8",)),
    "openvino": BuiltIn("backends.openvino:BACKEND", nightly=("fp32",)),
    "vgf": BuiltIn("backends.vgf:BACKEND"),
    "null": BuiltIn("backends.null:BACKEND"),
}


def names() -> list[str]:
    """Return the names of all registered backends: built-ins, then entry points; imports none.

    Raises:
        ConflictingBackends: two have the same name.
    """
    return [*BUILT_IN, *_entry_points()]


def find_backend_path(name: str) -> str:
    """Return the module and attribute of a backend, ``module:attribute``; nothing is imported.

    Raises:
        UnknownTarget: no backend of that name is registered.
        ConflictingBackends: two have the same name.
    """
    found = BUILT_IN[name].where if name in BUILT_IN else _entry_points().get(name)
    if found is None:
        raise UnknownTarget(f"no backend {name!r}{_did_you_mean(name, names())}")
    return found


def out_of_tree_backends() -> list[Backend]:
    """Return the backends of entry points; a backend that fails to import is unavailable.

    Raises:
        ConflictingBackends: two have the same name.
    """
    return [backend(name) for name in _entry_points()]


def default_targets() -> list[Target]:
    """Return the targets of a run without ``--targets``."""
    ours = [Target(name, recipe) for name, one in BUILT_IN.items() for recipe in one.recipes]
    selecting = [one for one in out_of_tree_backends() if isinstance(one, SelectsTargets)]
    return [*ours, *(Target(one.name, recipe) for one in selecting for recipe in one.plain)]


def nightly_targets() -> list[Target]:
    """Return the targets that a nightly run adds to the defaults."""
    ours = [Target(name, recipe) for name, one in BUILT_IN.items() for recipe in one.nightly]
    selecting = [one for one in out_of_tree_backends() if isinstance(one, SelectsTargets)]
    return [*ours, *(Target(one.name, recipe) for one in selecting for recipe in one.nightly)]


def limitations() -> list[Limitation]:
    """Return the limitations of out-of-tree backends.

    Raises:
        LimitationError: an entry may match targets of another backend.
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
    """Return the known issues of this project's suites and of out-of-tree backends."""
    found = list(_table(KNOWN_ISSUES))
    for one in out_of_tree_backends():
        found += one.known_issues if isinstance(one, KnowsIssues) else ()
    return found


def note_known_issues(cell: Cell) -> None:
    """Add the known issues that a red cell matches to its record; other cells do not import the
    table."""
    if cell.status.is_red:
        cell.known_issues = find_known_issues(cell, known_issues())


def _table(where: str) -> Sequence[KnownIssue]:
    """Return a module's table; empty if its package is not installed, or is shadowed by a folder of
    that name."""
    module, _, attribute = where.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)  # type: ignore[no-any-return]
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module}.".startswith(f"{error.name}."):
            return ()
        raise


def known_targets() -> list[Target]:
    """Return every recipe of every backend that can be imported, and the defaults of all others."""
    targets = dict.fromkeys(default_targets())
    for name in names():
        targets.update(dict.fromkeys(Target(name, recipe) for recipe in backend(name).recipes))
    return list(targets)


def select_targets(case: Case, selected: Sequence[Target] | None) -> list[Target]:
    """Return a case's targets among the selected ones; None means a plain run, nightly targets
    included (:func:`is_nightly`).

    A plain or nightly run selects a target for a case of an equivalent one only if it is a default
    or a nightly target.
    """
    by_likeness = case.exporter is None
    if selected is not None:
        chosen = tuple(selected)
        return list(_match_targets(case.targets, by_likeness, chosen) if case.targets else chosen)
    run = (*default_targets(), *nightly_targets())
    if not case.targets:
        return list(run)
    known = tuple(known_targets())
    named = _match_targets(case.targets, False, known)
    alike = _match_targets(case.targets, by_likeness, run)
    found = [target for target in known if target in named or target in alike]
    return [*found, *find_variations(case)]


@functools.cache
def _match_targets(
    targets: str, by_likeness: bool, among: tuple[Target, ...]
) -> tuple[Target, ...]:
    """Return the targets that match a case's globs, by name or by an equivalent recipe.

    Cached, because thousands of cases share a few dozen globs.
    """
    return tuple(
        target
        for target in among
        if matches_target(targets, target)
        or (by_likeness and any(matches_any_glob(targets, other) for other in _like(target)))
    )


def _like(target: Target) -> tuple[str, ...]:
    """Return the targets whose cases also suit a target.

    Cases with an exporter are excluded: an exporter makes programs for the backends that it names.
    """
    known = backend(target.backend).recipes.get(target.recipe)
    return () if known is None else known.like


def find_variations(case: Case) -> list[Target]:
    """Return the targets with passes, settings or several backends that a case spells in full."""
    spelled = (part for part in case.targets.split("|") if is_target(part))
    return [target for target in map(Target.parse, spelled) if target.passes or target.is_mixed]


def is_nightly(case: Case, target: Target, selected: Sequence[Target] | None) -> bool:
    """Return whether only the nightly run selects a cell.

    It does if the case has the tag. If no targets are selected, it also does if

    - the case leaves the target out of ``plain_targets``,
    - the target is built in and no default one, and the case names only others with an equivalent
      recipe, or
    - the target is a nightly one, and the case names no targets, or a default one of the backend.
    """
    if NIGHTLY in case.tags:
        return True
    if selected is not None:
        return False
    if not any(
        matches_any_glob(case.plain_targets, each) for each in (str(target), *_like(target))
    ):
        return True
    is_alike = bool(case.targets) and not matches_target(case.targets, target)
    if is_alike and target.backend in BUILT_IN and target not in default_targets():
        return True
    if target not in nightly_targets():
        return False
    plain = [one for one in default_targets() if one.backend == target.backend]
    return not case.targets or bool(select_targets(case, plain))


@functools.cache
def backend(name: str) -> Backend:
    """Return the backend of that name; one that fails to import is returned as unavailable.

    Args:
        name: a registered name, or several such as ``metal/xnnpack``.

    Raises:
        UnknownTarget: no backend of that name is registered.
        ConflictingBackends: two have the same name.
    """
    if SEVERAL in name:
        parts = tuple(backend(part) for part in name.split(SEVERAL))
        missing = next((part for part in parts if isinstance(part, MissingBackend)), None)
        if missing is not None:
            return MissingBackend(name, missing.reason)
        # Execution is above this layer.
        mixed: Backend = importlib.import_module(_MIXED).MixedBackend(parts)
        return mixed
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
    """Return the backends that execute or read payloads, by delegate id."""
    found: dict[str, Backend] = {}
    for name in names():
        one = backend(name)
        if isinstance(one, LoadsDelegates | DescribesPayloads):
            found.setdefault(one.delegate, one)
    return found


def kernel_libraries() -> dict[str, Kernels]:
    """Return the kernels of backends with their own library, by the namespace of its operators."""
    found = map(backend, names())
    return {one.library: one.kernels() for one in found if isinstance(one, LoadsKernels)}


def recipe(target: Target, of: Backend | None = None) -> Recipe:
    """Return the recipe of a target, from its registered backend or a given one.

    Raises:
        UnknownTarget: the backend or the recipe does not exist, or as
            :func:`harness.model.variations.varied_recipe.vary_recipe`.
    """
    found = of or backend(target.backend)
    recipes = found.recipes
    if target.recipe not in recipes:
        hint = _did_you_mean(target.recipe, list(recipes))
        raise UnknownTarget(f"backend {target.backend!r} has no recipe {target.recipe!r}{hint}")
    return vary_recipe(recipes[target.recipe], target, found)


def require_two_runtimes(targets: Sequence[Target]) -> None:
    """Refuse to compare runtimes if no target has two.

    Raises:
        ConflictingOptions: only one runtime, or none, is available here.
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
    """Return the states of backends for the record of a run, sorted by name.

    Args:
        names: the backends of its cells.
        selected: the selected targets. None for a plain run, which expects every installed backend:
            one that does not import has no cells, but is reported.
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
    """Return the entry points of out-of-tree backends, by name.

    Raises:
        ConflictingBackends: a name is that of a built-in, or of another entry point.
    """
    found: dict[str, importlib.metadata.EntryPoint] = {}
    for point in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
        if point.name in BUILT_IN:
            raise ConflictingBackends(
                f"{_describe(point)} registers a backend {point.name!r}, and that is a built-in "
                f"one; rename its entry point in {ENTRY_POINT_GROUP}, or uninstall it"
            )
        other = found.setdefault(point.name, point)
        if other.value != point.value:  # an editable install may be seen twice
            raise ConflictingBackends(
                f"{_describe(other)} and {_describe(point)} both register a backend "
                f"{point.name!r}; uninstall one of them"
            )
    return {name: point.value for name, point in found.items()}


def _describe(point: importlib.metadata.EntryPoint) -> str:
    """Return the distribution of an entry point, and its value."""
    distribution = point.dist
    return f"{distribution.name if distribution else 'a distribution'} ({point.value})"


def _did_you_mean(name: str, choices: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, choices, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; there are: {', '.join(choices)}" if choices else ""
