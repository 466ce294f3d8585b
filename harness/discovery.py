"""Find the suites: modules with a ``CASES`` list, and the ``LIMITATIONS`` beside them."""

from __future__ import annotations

import difflib
import functools
import importlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import registry
from harness.case import Case
from harness.errors import CaseError, LimitationError, UnknownCell
from harness.limitation import Limitation, unmatched

LIMITATIONS_MODULE = "limitations"


@dataclass(frozen=True)
class Suite:
    """One module of cases.

    Attributes:
        name: dotted name, such as ``suites.ops.unary``.
        path: its file.
        cases: its ``CASES``.
        limitations: the ``LIMITATIONS`` of its package.
    """

    name: str
    path: Path
    cases: tuple[Case, ...]
    limitations: tuple[Limitation, ...]


def is_suite(path: Path) -> bool:
    """Whether a file declares cases; read as text, so that helpers are not imported."""
    if path.suffix != ".py":
        return False
    return any(line.startswith("CASES") for line in path.read_text(encoding="utf-8").splitlines())


def suite_files(folder: Path) -> list[Path]:
    """All modules with cases below a folder, sorted."""
    return [path for path in sorted(folder.rglob("*.py")) if is_suite(path)]


def load_suite(path: Path) -> Suite:
    """Import one module of cases and the limitations of its package.

    Raises:
        CaseError: it does not import, or ``CASES`` is not a list of cases.
        LimitationError: an entry of the package matches no case on any known target.
    """
    name = _module_name(path)
    cases = _cases(name)
    package = name.rpartition(".")[0]
    _check_limitations(package, path.parent)
    return Suite(name, path, cases, _limitations(package))


def all_suites(folder: Path) -> Iterator[Suite]:
    """All suites below a folder.

    Raises:
        CaseError: a suite is broken, or two cases share a name.
    """
    seen: dict[str, str] = {}
    for path in suite_files(folder):
        suite = load_suite(path)
        for case in suite.cases:
            if case.name in seen:
                raise CaseError(
                    f"case {case.name!r} is in {seen[case.name]} and in {suite.name}; rename one"
                )
            seen[case.name] = suite.name
        yield suite


def find_case(folder: Path, name: str) -> tuple[Case, Suite]:
    """One case by name.

    Raises:
        UnknownCell: no suite has it; the nearest names are in the message.
    """
    names: list[str] = []
    for suite in all_suites(folder):
        for case in suite.cases:
            if case.name == name:
                return case, suite
            names.append(case.name)
    near = difflib.get_close_matches(name, names, n=3)
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    raise UnknownCell(f"no case {name!r} in {folder}{hint}")


def _module_name(path: Path) -> str:
    path = path.resolve()
    root = path.parent
    while (root / "__init__.py").exists():
        root = root.parent
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    relative = path.relative_to(root).with_suffix("")
    parts = relative.parts[:-1] if relative.name == "__init__" else relative.parts
    return ".".join(parts)


@functools.cache
def _cases(module_name: str) -> tuple[Case, ...]:
    try:
        cases = importlib.import_module(module_name).CASES
    except Exception as error:
        raise CaseError(f"suite {module_name} does not import: {error}") from error
    if not isinstance(cases, Sequence) or not all(isinstance(case, Case) for case in cases):
        raise CaseError(f"CASES of {module_name} must be a list of Case")
    return tuple(cases)


@functools.cache
def _limitations(package: str) -> tuple[Limitation, ...]:
    name = f"{package}.{LIMITATIONS_MODULE}"
    try:
        return tuple(importlib.import_module(name).LIMITATIONS)
    except ModuleNotFoundError as error:
        if error.name == name:
            return ()
        raise CaseError(f"{name} does not import: {error}") from error


@functools.cache
def _check_limitations(package: str, folder: Path) -> None:
    limitations = _limitations(package)
    if not limitations:
        return
    cases = [
        case
        for path in suite_files(folder)
        if path.parent == folder
        for case in _cases(_module_name(path))
    ]
    stale = unmatched(limitations, cases, registry.known_targets())
    if stale:
        listing = "; ".join(f"{entry.case} on {entry.target}" for entry in stale)
        raise LimitationError(
            f"{package}.{LIMITATIONS_MODULE}: {len(stale)} entries match no cell, remove or mend "
            f"them: {listing}"
        )
