"""Read a patch of ExecuTorch, and find the functions of the installed code that it changes."""

from __future__ import annotations

import ast
import enum
from collections.abc import Sequence
from dataclasses import dataclass, field

from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchedFile, PatchSet

from harness.errors import UsageError


class Reach(enum.Enum):
    """How far the effect of a change reaches, the narrowest first."""

    NONE = "nothing: only comments, docstrings, imports, or code that nothing calls"
    FUNCTIONS = "cells that execute a changed function"
    FILE = "cells that execute a function of the file, or of a file that imports it"
    AREA = "cells that execute code of the same area"


@dataclass
class FileChange:
    """What a patch changes in a file.

    Attributes:
        name: the path in the repository.
        reach: how far the effect reaches.
        functions: qualified names of the functions that are changed or removed.
        reason: why the reach is wider than the functions.
    """

    name: str
    reach: Reach = Reach.NONE
    functions: list[str] = field(default_factory=list)
    reason: str = ""

    def widen(self, reach: Reach, reason: str = "") -> None:
        """Let the effect reach at least this far."""
        order = list(Reach)
        if order.index(reach) > order.index(self.reach):
            self.reach, self.reason = reach, reason


def read_patch(text: str) -> list[PatchedFile]:
    """Read a unified diff, such as the output of ``git diff``.

    Raises:
        UsageError: it is no unified diff, or has no file.
    """
    try:
        files = list(PatchSet(text))
    except UnidiffParseError as error:
        raise UsageError(f"the patch is no unified diff: {error}") from error
    if not files:
        raise UsageError("the patch changes no file; give the output of git diff")
    return files


def find_change(patched: PatchedFile, source: str | None) -> FileChange:
    """Find what a patch changes in a Python file.

    Args:
        patched: the file's part of the patch.
        source: the installed file; None if it is not installed, such as a new file.
    """
    change = FileChange(patched.path)
    if source is None:
        change.widen(Reach.AREA, "the file is not installed")
        return change
    if patched.is_removed_file or patched.is_added_file:
        # The installed code contains a file that the patch adds.
        change.widen(Reach.FILE, f"the file is {'removed' if patched.is_removed_file else 'added'}")
        return change
    lines = _apply(patched, source.splitlines())
    if lines is None:
        lines = _apply(patched, source.splitlines(), is_reversed=True)  # it is contained
    if lines is None:
        change.widen(Reach.FILE, "the patch does not apply to the installed file")
        return change
    try:
        old, new = _Outline(source), _Outline("\n".join(lines))
    except SyntaxError as error:
        change.widen(Reach.FILE, f"the file does not parse: {error.msg}")
        return change
    _compare(change, old, new)
    return change


def _apply(
    patched: PatchedFile, lines: Sequence[str], *, is_reversed: bool = False
) -> list[str] | None:
    """Return the patched lines; None if a hunk fits nowhere, or at several places."""
    result, done = list(lines), 0
    for hunk in patched:
        before = [line.value.rstrip("\r\n") for line in hunk if line.is_context or line.is_removed]
        after = [line.value.rstrip("\r\n") for line in hunk if line.is_context or line.is_added]
        start = hunk.source_start
        if is_reversed:
            before, after, start = after, before, hunk.target_start
        at = _find_block(result, before, start - 1 + done)
        if at is None:
            return None
        result[at : at + len(before)] = after
        done += len(after) - len(before)
    return result


def _find_block(lines: Sequence[str], block: Sequence[str], expected: int) -> int | None:
    """Return where a block of lines is: at its expected place, or at the only place."""
    count = len(block)
    if list(lines[expected : expected + count]) == list(block):
        return expected
    if not block:
        return None
    places = [
        at
        for at in range(len(lines) - count + 1)
        if lines[at] == block[0] and list(lines[at : at + count]) == list(block)
    ]
    return places[0] if len(places) == 1 else None


class _Outline:
    """The parts of a module.

    Attributes:
        functions: code of each function, by qualified name; of functions in functions, only that
            of the outer one.
        scopes: statements of the module (empty name) and of each class, without functions, imports
            and docstrings.
        decorated: names of functions and classes with a decorator.
    """

    def __init__(self, source: str) -> None:
        self.functions: dict[str, str] = {}
        self.scopes: dict[str, list[str]] = {}
        self.decorated: set[str] = set()
        self._visit(ast.parse(source).body, "")

    def _visit(self, body: Sequence[ast.stmt], scope: str, *head: str) -> None:
        statements = self.scopes.setdefault(scope, [])
        statements += head
        for statement in body:
            name = ".".join(filter(None, (scope, getattr(statement, "name", ""))))
            match statement:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    statement.body = _without_docstring(statement.body)
                    # A second definition of a name, such as a setter, belongs to the first.
                    self.functions[name] = self.functions.get(name, "") + ast.dump(statement)
                    if statement.decorator_list:
                        self.decorated.add(name)
                case ast.ClassDef():
                    if statement.decorator_list:
                        self.decorated.add(name)
                    nodes = (*statement.bases, *statement.keywords, *statement.decorator_list)
                    self._visit(statement.body, name, *(ast.dump(node) for node in nodes))
                case ast.Import() | ast.ImportFrom():
                    pass
                case _ if not _is_text(statement):
                    statements.append(ast.dump(statement))


def _compare(change: FileChange, old: _Outline, new: _Outline) -> None:
    changed = [name for name, code in old.functions.items() if new.functions.get(name) != code]
    if changed:
        change.functions = changed
        change.widen(Reach.FUNCTIONS)
    for scope, statements in old.scopes.items():
        if new.scopes.get(scope) != statements:
            change.widen(Reach.FILE, f"statements of {scope or 'the module'} are changed")
    for name in sorted(new.functions.keys() - old.functions.keys()):
        if name.rpartition(".")[0] in old.scopes.keys() - {""}:
            change.widen(Reach.FILE, f"{name} is new in an existing class")
    for name in sorted(new.decorated - old.decorated - old.functions.keys() - old.scopes.keys()):
        # A decorator may register it, for whatever looks it up.
        if name.rpartition(".")[0] in old.scopes:
            change.widen(Reach.AREA, f"{name} is new and has a decorator")


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    return body[1:] if body and _is_text(body[0]) else body


def _is_text(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)
