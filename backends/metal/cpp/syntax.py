"""Syntax tree of a generated wrapper's C++: expressions and statements."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TypeAlias

from harness import ProgramError, UnsupportedProgram

LINE_LIMIT = 160


class WrapperError(ProgramError):
    """A wrapper cannot be executed.

    Attributes:
        line: number of the wrapper's line, from 1; 0 outside of its text.
        source: the line, blanks squeezed.
    """

    def __init__(self, message: str, line: int = 0, source: str = "") -> None:
        self.line = line
        self.source = squeeze(source)
        where = f" (wrapper line {line}: {self.source})" if line else ""
        super().__init__(message + where)


class UnknownStatement(WrapperError, UnsupportedProgram):
    """The wrapper contains C++ that the parser does not support."""


class UnknownFunction(WrapperError, UnsupportedProgram):
    """The wrapper calls a function that is not implemented here.

    Attributes:
        name: the function's name.
    """

    def __init__(self, name: str, line: int = 0, source: str = "") -> None:
        self.name = name
        super().__init__(f"no implementation of {name} here", line, source)


class CppSource:
    """A wrapper's text with its lines.

    Attributes:
        text: the whole text.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def line(self, at: int) -> int:
        """Return the line number, from 1, of a character."""
        return self.text.count("\n", 0, at) + 1

    def quote(self, line: int) -> str:
        """Return the text of a line."""
        return self._lines[line - 1]

    @functools.cached_property
    def _lines(self) -> list[str]:
        return self.text.split("\n")

    def error(self, message: str, at: int) -> UnknownStatement:
        """Make an error at a position of the text."""
        line = self.line(at)
        return UnknownStatement(message, line, self.quote(line))


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, text, truth value or null pointer (None)."""

    value: int | float | str | bool | None


@dataclass(frozen=True, slots=True)
class Name:
    """A variable or function; template arguments are dropped, qualifiers stay."""

    id: str


@dataclass(frozen=True, slots=True)
class Unary:
    """``op operand``, ``&`` and ``*`` included."""

    op: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary:
    """``left op right``."""

    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Ternary:
    """``condition ? then : otherwise``."""

    condition: Expression
    then: Expression
    otherwise: Expression


@dataclass(frozen=True, slots=True)
class CallOf:
    """A call of a function, of a method, or of a type."""

    function: Expression
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """``value.name`` or ``value->name``."""

    value: Expression
    name: str


@dataclass(frozen=True, slots=True)
class CppIndex:
    """``value[index]``."""

    value: Expression
    index: Expression


@dataclass(frozen=True, slots=True)
class Braces:
    """An initializer list, with or without a type before it."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """A cast, such as ``static_cast<type>(value)`` or ``type(value)``."""

    type: str
    value: Expression


@dataclass(frozen=True, slots=True)
class Lambda:
    """A lambda that captures by reference."""

    parameters: tuple[str, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Declare:
    """``type name``, with or without a value; an array's value is :class:`Braces`."""

    type: str
    name: str
    value: Expression | None
    line: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Assign:
    """``target = value``."""

    target: Expression
    value: Expression
    line: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Do:
    """An expression statement, evaluated for its effect."""

    value: Expression
    line: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class If:
    """``if``, with an optional ``else``."""

    condition: Expression
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]
    line: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class While:
    """A ``while`` loop."""

    condition: Expression
    body: tuple[Statement, ...]
    line: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class CppBlock:
    """A block of statements, which has its own scope."""

    body: tuple[Statement, ...]
    line: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Leave:
    """``return``, ``break`` or ``throw``."""

    how: str
    value: Expression | None
    line: int = field(compare=False)


Expression: TypeAlias = (
    Literal | Name | Unary | Binary | Ternary | CallOf | Member | CppIndex | Braces | Cast | Lambda
)
Statement: TypeAlias = Declare | Assign | Do | If | While | CppBlock | Leave


@dataclass(frozen=True, slots=True)
class CppFunction:
    """A function of the wrapper."""

    name: str
    parameters: tuple[str, ...]
    body: tuple[Statement, ...]


def squeeze(text: str) -> str:
    """Return text on one line, with blanks squeezed, cut at ``LINE_LIMIT``."""
    line = " ".join(text.split())
    return line if len(line) <= LINE_LIMIT else line[: LINE_LIMIT - 1] + "…"
