"""List the mutants of Python code: small changes of functions, as edits of the source text.

A change is one that a programmer could make by mistake, in code that runs when a program is
lowered. Code without effect on programs is left alone: annotations, docstrings, assertions, raised
errors and the checks that raise them, logging and formatted text.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from harness.coverage.mutation.mutant import Mutant, make_mutant_id

OPERATORS = {
    "comparison": "another comparison: < for <=, == for !=, in for not in, is for is not",
    "condition": "the opposite of a condition",
    "guard": "a condition whose block leaves the function or loop never holds",
    "boolean": "and for or, or for and",
    "constant": "another number: n + 1, twice a float, True for False",
    "arithmetic": "another operator: + for -, * for //; a number without its sign",
    "arguments": "two neighbouring positional arguments exchanged",
    "keyword": "a call without one of its keyword arguments",
    "statement": "a call, a change in place or a reassignment left out",
}
"""The kinds of change."""

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

_COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"), ast.Is: ("is", "is not"), ast.IsNot: (r"is\s+not", "is"),
}  # fmt: skip
_NEGATING = (ast.Eq, ast.NotEq, ast.In, ast.NotIn, ast.Is, ast.IsNot)
_ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: (r"\+", "-"), ast.Sub: ("-", "+"), ast.Mult: (r"\*", "//"), ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"), ast.Mod: ("%", "*"),
}  # fmt: skip
_JUMPS = (ast.Return, ast.Continue, ast.Break)
_LOGGERS = re.compile(r"(\w+\.)*(_?log|_?logger|logging|warnings)\.\w+|print", re.IGNORECASE)
# The order of their arguments cannot be wrong without an error in every call.
_TYPE_CHECKS = frozenset({"isinstance", "issubclass", "getattr", "hasattr", "setattr", "cast"})
_TEXT = (ast.JoinedStr, ast.List, ast.Tuple)


class _Edit(NamedTuple):
    operator: str
    start: int
    end: int
    after: str


@dataclass(frozen=True)
class _Place:
    """A function with its lines, and the lines of one of its statements."""

    function: str
    begin: int
    end_line: int
    first: int
    last: int


def list_mutants(source: bytes, file: str, area: str) -> list[Mutant]:
    """List all mutants of a file, in the order of its text.

    Args:
        source: its source, in UTF-8.
        file: its name in the map.
        area: its area.

    Raises:
        SyntaxError: it is no Python.
    """
    finder = _EditFinder(source)
    lines = source.splitlines(keepends=True)
    numbers: Counter[tuple[str, ...]] = Counter()
    found = []
    for place, edit in finder.find(ast.parse(source)):
        before = source[edit.start : edit.end].decode()
        key = (file, place.function, edit.operator, before, edit.after)
        found.append(
            Mutant(
                id=make_mutant_id(*key, numbers[key]),
                area=area,
                file=file,
                function=place.function,
                begin=place.begin,
                end_line=place.end_line,
                first=place.first,
                last=place.last,
                statement=" ".join(b"".join(lines[place.first - 1 : place.last]).decode().split()),
                operator=edit.operator,
                start=edit.start,
                end=edit.end,
                before=before,
                after=edit.after,
            )
        )
        numbers[key] += 1
    return found


class _EditFinder:
    """Finds the edits of one file.

    Args:
        source: its source, in UTF-8.
    """

    def __init__(self, source: bytes) -> None:
        self._source = source
        lengths = map(len, source.splitlines(keepends=True))
        self._line_starts = [0, *itertools.accumulate(lengths)]

    def find(self, tree: ast.Module) -> Iterator[tuple[_Place, _Edit]]:
        """Yield each edit with its place."""
        for name, function in _list_functions(tree.body, ""):
            for statement in _list_statements(function.body):
                place = _Place(
                    name,
                    function.lineno,
                    function.end_lineno or function.lineno,
                    statement.lineno,
                    _last_header_line(statement),
                )
                for edit in self._find_in_statement(statement):
                    yield place, edit

    def _find_in_statement(self, statement: ast.stmt) -> Iterator[_Edit]:
        """Yield the edits of a statement without the statements in it."""
        if _is_without_effect(statement):
            return
        if _can_be_dropped(statement):
            yield self._edit("statement", statement, "pass")
        if isinstance(statement, ast.If | ast.While):
            yield self._negate(statement.test)
        if isinstance(statement, ast.If) and _leaves(statement):
            yield self._edit("guard", statement.test, "False")
        for node in _list_expressions(statement):
            yield from self._find_in_expression(node, statement)

    def _find_in_expression(self, node: ast.AST, statement: ast.stmt) -> Iterator[_Edit]:
        match node:
            case ast.Compare():
                yield from self._change_comparisons(node, statement)
            case ast.IfExp(test=test):
                yield self._negate(test)
            case ast.comprehension(ifs=tests):
                yield from map(self._negate, tests)
            case ast.BoolOp(op=operator, values=values):
                word = " or " if isinstance(operator, ast.And) else " and "
                joined = word.join(f"({self._text(value)})" for value in values)
                yield self._edit("boolean", node, f"({joined})")
            case ast.Constant(value=value) if (after := _change_number(value)) is not None:
                yield self._edit("constant", node, after)
            case ast.BinOp(left=a, op=operator, right=b) if type(operator) in _ARITHMETIC:
                if not any(isinstance(each, _TEXT) or _is_string(each) for each in (a, b)):
                    yield from self._replace_between(
                        "arithmetic", a, b, _ARITHMETIC[type(operator)]
                    )
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                yield self._edit("arithmetic", node, f"({self._text(operand)})")
            case ast.Call():
                yield from self._change_arguments(node)

    def _change_comparisons(self, node: ast.Compare, statement: ast.stmt) -> Iterator[_Edit]:
        is_test = isinstance(statement, ast.If | ast.While) and node is statement.test
        if is_test and len(node.ops) == 1 and isinstance(node.ops[0], _NEGATING):
            return  # the same as the opposite of the condition
        operands = itertools.pairwise([node.left, *node.comparators])
        for operator, (a, b) in zip(node.ops, operands, strict=True):
            yield from self._replace_between("comparison", a, b, _COMPARISONS[type(operator)])

    def _change_arguments(self, call: ast.Call) -> Iterator[_Edit]:
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        if name not in _TYPE_CHECKS:
            for a, b in itertools.pairwise(call.args):
                first, second = self._text(a), self._text(b)
                if (
                    not isinstance(a, ast.Starred)
                    and not isinstance(b, ast.Starred)
                    and first != second
                ):
                    start, end = self._start(a), self._end(b)
                    between = self._source[self._end(a) : self._start(b)].decode()
                    yield _Edit("arguments", start, end, second + between + first)
        given = [*call.args, *call.keywords]
        for before, keyword in itertools.pairwise(given):
            if isinstance(keyword, ast.keyword) and keyword.arg is not None:
                start, end = self._end(before), self._end(keyword)
                comma = self._source[start : self._start(keyword)]
                if comma.strip() == b",":
                    yield _Edit("keyword", start, end, "")

    def _negate(self, test: ast.expr) -> _Edit:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self._edit("condition", test, f"({self._text(test.operand)})")
        return self._edit("condition", test, f"(not ({self._text(test)}))")

    def _replace_between(
        self, operator: str, a: ast.AST, b: ast.AST, words: tuple[str, str]
    ) -> Iterator[_Edit]:
        """Yield the edit of the operator between two operands."""
        pattern, after = words
        start, end = self._end(a), self._start(b)
        found = re.search(pattern, self._source[start:end].decode())
        if found is not None:
            yield _Edit(operator, start + found.start(), start + found.end(), after)

    def _edit(self, operator: str, node: ast.AST, after: str) -> _Edit:
        return _Edit(operator, self._start(node), self._end(node), after)

    def _text(self, node: ast.AST) -> str:
        return self._source[self._start(node) : self._end(node)].decode()

    def _start(self, node: ast.AST) -> int:
        return self._offset(getattr(node, "lineno", 1), getattr(node, "col_offset", 0))

    def _end(self, node: ast.AST) -> int:
        return self._offset(getattr(node, "end_lineno", 1), getattr(node, "end_col_offset", 0))

    def _offset(self, line: int, column: int) -> int:
        """Return the offset of a place as syntax trees have it, in bytes."""
        return self._line_starts[line - 1] + column


def _list_functions(body: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, _Function]]:
    """Yield the functions of a module and of its classes, with their qualified names."""
    for statement in body:
        if isinstance(statement, _Function):
            yield prefix + statement.name, statement
        elif isinstance(statement, ast.ClassDef):
            yield from _list_functions(statement.body, f"{prefix}{statement.name}.")
        elif isinstance(statement, ast.If | ast.Try):
            yield from _list_functions([*statement.body, *statement.orelse], prefix)


def _list_statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements and the statements in them, in order."""
    for statement in body:
        yield statement
        for name in ("body", "handlers", "orelse", "finalbody", "cases"):
            inner = getattr(statement, name, [])
            blocks = [inner] if name in ("body", "orelse", "finalbody") else [x.body for x in inner]
            for block in blocks:
                yield from _list_statements(block)


def _list_expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the expressions of a statement, without those of statements in it."""
    queue: list[ast.AST] = [
        child
        for name, value in ast.iter_fields(statement)
        if name not in ("annotation", "decorator_list", "args", "returns", "bases", "keywords")
        for child in (value if isinstance(value, list) else [value])
        if isinstance(child, ast.expr | ast.withitem)
    ]
    while queue:
        node = queue.pop(0)
        yield node
        if not isinstance(node, ast.JoinedStr):
            queue = [*ast.iter_child_nodes(node), *queue]


def _last_header_line(statement: ast.stmt) -> int:
    """Return the last line of a simple statement, or of the header of a compound one."""
    inner = getattr(statement, "body", None) or getattr(statement, "cases", None)
    if not inner:
        return statement.end_lineno or statement.lineno
    first = inner[0].pattern if isinstance(inner[0], ast.match_case) else inner[0]
    return max(statement.lineno, first.lineno - 1)


def _can_be_dropped(statement: ast.stmt) -> bool:
    """Whether a function without this statement may still run to its end."""
    match statement:
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Delete():
            return True
        case ast.Assign(targets=targets) if all(
            isinstance(target, ast.Attribute | ast.Subscript) for target in targets
        ):
            return True
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(value))
    return False


def _is_without_effect(statement: ast.stmt) -> bool:
    """Whether a statement only checks, reports or documents."""
    match statement:
        case ast.Raise() | ast.Assert() | ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(value=ast.Call(func=function)):
            return _LOGGERS.fullmatch(ast.unparse(function)) is not None
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.If(body=body, orelse=orelse):
            return not orelse and all(map(_is_without_effect, body))
    return False


def _leaves(statement: ast.If) -> bool:
    """Whether a condition without else leaves the function or loop."""
    return not statement.orelse and isinstance(statement.body[-1], _JUMPS)


def _change_number(value: object) -> str | None:
    """Return another number in place of a constant; None for other constants."""
    match value:
        case bool():
            return str(not value)
        case int():
            return str(value + 1)
        case float():
            return repr(value * 2 if value else 1.0)
    return None


def _is_string(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
