"""Syntax tree of a generated wrapper's C++: expressions and statements."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TypeAlias

from harness import ProgramError, UnsupportedProgram

LINE_LIMIT = 160


class WrapperError(ProgramError):
    """A wrapper cannot be executed as it stands.

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
    """C++ that Inductor is not known to emit for this target."""


class UnknownFunction(WrapperError, UnsupportedProgram):
    """The wrapper calls a function that is not implemented here.

    Attributes:
        name: the function's name.
    """

    def __init__(self, name: str, line: int = 0, source: str = "") -> None:
        self.name = name
        super().__init__(f"no implementation of {name} here", line, source)


class CppSource:
    """A wrapper's text, which knows its lines.

    Attributes:
        text: all of it.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def line(self, at: int) -> int:
        """Number of the line, from 1, that holds this character."""
        return self.text.count("\n", 0, at) + 1

    def quote(self, line: int) -> str:
        """The text of a line."""
        return self._lines[line - 1]

    @functools.cached_property
    def _lines(self) -> list[str]:
        return self.text.split("\n")

    def error(self, message: str, at: int) -> UnknownStatement:
        """Says where in the text something is wrong."""
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
    """``static_cast<type>(value)``, ``type(value)`` and their like."""

    type: str
    value: Expression


@dataclass(frozen=True, slots=True)
class Lambda:
    """A lambda that captures by reference."""

    parameters: tuple[str, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Declare:
    """``type name``, with a value or without; an array's value is :class:`Braces`."""

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
    """An expression evaluated for what it does."""

    value: Expression
    line: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class If:
    """A choice."""

    condition: Expression
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]
    line: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class While:
    """A loop."""

    condition: Expression
    body: tuple[Statement, ...]
    line: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class CppBlock:
    """Statements with names of their own."""

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
    """On one line, blanks squeezed, cut where it gets long."""
    line = " ".join(text.split())
    return line if len(line) <= LINE_LIMIT else line[: LINE_LIMIT - 1] + "…"
