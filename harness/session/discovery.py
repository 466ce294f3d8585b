"""Find the suites: modules with a ``CASES`` list, and the ``LIMITATIONS`` beside them."""

from __future__ import annotations

import ast
import difflib
import functools
import importlib
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.errors import CaseError, LimitationError, UnknownCell
from harness.model import registry
from harness.model.case import Case
from harness.model.fallbacks import read_fallbacks
from harness.model.limitation import Limitation, find_unmatched

LIMITATIONS_MODULE = "limitations"

# A quick search; only files with such a line are parsed.
_MAY_DECLARE = re.compile(rb"^CASES\b", re.MULTILINE)


@dataclass(frozen=True)
class Suite:
    """One module of cases.

    Attributes:
        name: dotted name, such as ``suites.ops.unary``.
        path: its file.
        cases: its ``CASES``.
        declared: the ``LIMITATIONS`` of its package.
        brought: the limitations of out-of-tree backends.
    """

    name: str
    path: Path
    cases: tuple[Case, ...]
    declared: tuple[Limitation, ...]
    brought: tuple[Limitation, ...] = ()

    @property
    def limitations(self) -> tuple[Limitation, ...]:
        """All limitations that can apply to its cells; the first that applies to a cell counts."""
        return self.declared + self.brought


def is_suite(path: Path) -> bool:
    """Return whether a module assigns ``CASES`` at its top level.

    The module is parsed, so that helpers are not imported. A file that does not parse counts as a
    suite, so that loading it reports the syntax error.
    """
    if path.suffix != ".py":
        return False
    content = path.read_bytes()
    if not _MAY_DECLARE.search(content):
        return False
    try:
        body = ast.parse(content).body
    except (SyntaxError, ValueError):
        return True
    return any(_assigns_cases(statement) for statement in body)


def _assigns_cases(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets = [statement.target]
    else:
        return False
    return any(isinstance(target, ast.Name) and target.id == "CASES" for target in targets)


def find_suite_files(folder: Path) -> list[Path]:
    """Return all modules with cases below a folder, sorted."""
    return [path for path in sorted(folder.rglob("*.py")) if is_suite(path)]


def load_suite(path: Path) -> Suite:
    """Import one module of cases and the limitations of its package.

    Raises:
        CaseError: it does not import, or ``CASES`` is not a list of cases.
        LimitationError: an entry of the package matches no case on any known target.
    """
    name = _module_name(path)
    cases = _cases(name, path.parent)
    package = name.rpartition(".")[0]
    _check_limitations(package, path.parent)
    return Suite(name, path, cases, _limitations(package), tuple(registry.limitations()))


def load_package_cases(folder: Path) -> list[Case]:
    """Return the cases of the modules directly in a folder, which share its limitations.

    Raises:
        CaseError: a module does not import.
    """
    files = (path for path in find_suite_files(folder) if path.parent == folder)
    return [case for path in files for case in _cases(_module_name(path), folder)]


def load_suites(folder: Path) -> Iterator[Suite]:
    """Load all suites below a folder.

    Raises:
        CaseError: a suite is broken, or two cases share a name.
    """
    seen: dict[str, str] = {}
    for path in find_suite_files(folder):
        suite = load_suite(path)
        for case in suite.cases:
            if case.name in seen:
                raise CaseError(
                    f"case {case.name!r} is in {seen[case.name]} and in {suite.name}; rename one"
                )
            seen[case.name] = suite.name
        yield suite


def find_case(folder: Path, name: str) -> tuple[Case, Suite]:
    """Find a case by name.

    Modules that contain the name as text are imported first; often no other is imported.

    Raises:
        UnknownCell: no suite has it; the message has the nearest names.
    """
    names: list[str] = []
    for path in _likeliest_first(find_suite_files(folder), name):
        suite = load_suite(path)
        for case in suite.cases:
            if case.name == name:
                return case, suite
            names.append(case.name)
    near = difflib.get_close_matches(name, names, n=3)
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    raise UnknownCell(f"no case {name!r} in {folder}{hint}")


def _likeliest_first(files: Sequence[Path], name: str) -> list[Path]:
    """Sort the files that contain the whole name first, then the files that contain the part before
    or after its last slash, as generated names are written; otherwise keep the order."""
    first, _, last = name.rpartition("/")

    def rank(path: Path) -> int:
        content = path.read_bytes()
        quoted = [re.search(rb"""["']""" + re.escape(part.encode()), content) is not None
                  for part in (name, first, last) if part]  # fmt: skip
        return -(4 * quoted[0] + sum(quoted[1:]))

    return sorted(files, key=rank)


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
def _cases(module_name: str, folder: Path) -> tuple[Case, ...]:
    try:
        cases = importlib.import_module(module_name).CASES
    except Exception as error:
        raise CaseError(f"suite {module_name} does not import: {error}") from error
    if not isinstance(cases, Sequence) or not all(isinstance(case, Case) for case in cases):
        raise CaseError(f"CASES of {module_name} must be a list of Case")
    for name, number in Counter(case.name for case in cases).items():
        if number > 1:
            raise CaseError(f"{module_name} has {number} cases {name!r}; rename all but one")
    return tuple(_with_fallbacks(cases, folder))


def _with_fallbacks(cases: Sequence[Case], folder: Path) -> Iterator[Case]:
    """Add the fallbacks that the folder's file lists to cases that declare none."""
    targets = _read_fallbacks(folder)
    for case in cases:
        if targets and not case.fallbacks:
            fallbacks = {target: listed.get(case.name, {}) for target, listed in targets.items()}
            case = replace(case, fallbacks=fallbacks)
        yield case


_read_fallbacks = functools.cache(read_fallbacks)
"""The file of a folder is read once, and not for each of its modules."""


@functools.cache
def _limitations(package: str) -> tuple[Limitation, ...]:
    if not package:  # a file on its own
        return ()
    name = f"{package}.{LIMITATIONS_MODULE}"
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == name:
            return ()
        raise CaseError(f"{name} does not import: {error}") from error
    if not hasattr(module, "LIMITATIONS"):
        raise CaseError(f"{name} has no list LIMITATIONS; add one, or remove the module")
    return tuple(module.LIMITATIONS)


@functools.cache
def _check_limitations(package: str, folder: Path) -> None:
    limitations = _limitations(package)
    if not limitations:
        return
    cases = load_package_cases(folder)
    varied = {target for case in cases for target in registry.find_variations(case)}
    stale = find_unmatched(limitations, cases, [*registry.known_targets(), *sorted(varied)])
    if stale:
        listing = "; ".join(f"{entry.case} on {entry.target}" for entry in stale)
        raise LimitationError(
            f"{package}.{LIMITATIONS_MODULE}: {len(stale)} entries match no cell, remove or mend "
            f"them: {listing}"
        )
