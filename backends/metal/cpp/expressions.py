"""Reads C++ expressions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from backends.metal.cpp.syntax import (
    Binary,
    Braces,
    CallOf,
    Cast,
    Expression,
    Index,
    Lambda,
    Literal,
    Member,
    Name,
    Source,
    Statement,
    Ternary,
    Token,
    Unary,
    UnknownStatement,
)

_CASTS = ("static_cast", "reinterpret_cast", "const_cast")
# A "<" after these opens template arguments; after any other name it compares.
_TEMPLATES = frozenset(
    "std::array std::vector std::function std::max std::min std::optional std::unique_ptr "
    "std::numeric_limits std::pair std::tuple".split()
)
_INTEGERS = "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t int long size_t"
SCALARS = frozenset(
    [
        *_INTEGERS.split(),
        *(f"std::{name}" for name in _INTEGERS.split()),
        *("float", "double", "bool", "uintptr_t", "std::uintptr_t"),
    ]
)
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "nullptr": None, "NULL": None}
_PRECEDENCE = {
    op: level
    for level, ops in enumerate(
        ["||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<<", "+ -", "* / %"], start=1
    )
    for op in ops.split()
}


class ExpressionParser(ABC):
    """Reads expressions from the tokens of a source; statements are for who derives from it."""

    def __init__(self, source: Source, tokens: list[Token]) -> None:
        self.source = source
        self.tokens = tokens
        self.next = 0

    def error(self, message: str) -> UnknownStatement:
        """An error at the next token."""
        return self.source.error(message, self.tokens[self.next].at)

    def line(self) -> int:
        """The next token's line."""
        return self.source.line(self.tokens[self.next].at)

    def peek(self, ahead: int = 0) -> str:
        """Text of a token; a string literal never looks like an operator."""
        token = self.tokens[min(self.next + ahead, len(self.tokens) - 1)]
        return '"' if token.kind == "string" else token.text

    def kind(self, ahead: int = 0) -> str:
        """Kind of a token."""
        return self.tokens[min(self.next + ahead, len(self.tokens) - 1)].kind

    def accept(self, *texts: str) -> str | None:
        """Read one of these, if it comes next; which."""
        if self.peek() in texts and self.kind() in ("op", "name"):
            self.next += 1
            return self.tokens[self.next - 1].text
        return None

    def expect(self, text: str) -> None:
        """Read this."""
        if not self.accept(text):
            raise self.error(f"expected {text!r}, not {self.peek()!r}")

    def identifier(self) -> str:
        """Read a name."""
        if self.kind() != "name":
            raise self.error(f"expected a name, not {self.peek()!r}")
        self.next += 1
        return self.tokens[self.next - 1].text

    def listed(self, close: str) -> tuple[Expression, ...]:
        """Expressions up to ``close``; a comma may stand after the last."""
        items: list[Expression] = []
        while not self.accept(close):
            items.append(self.expression())
            if not self.accept(","):
                self.expect(close)
                break
        return tuple(items)

    @abstractmethod
    def body(self) -> tuple[Statement, ...]:
        """A block, or one statement."""

    def parameters(self) -> tuple[str, ...]:
        """Read a parameter list; the names."""
        self.expect("(")
        names: list[str] = []
        depth, last = 1, ""
        while depth:
            if self.kind() == "end":
                raise self.error("a parameter list without an end")
            text = self.peek()
            depth += (text in ("(", "<")) - (text in (")", ">"))
            if (depth == 1 and text == ",") or (depth == 0 and last):
                names.append(last)
                last = ""
            elif self.kind() == "name":
                last = text
            self.next += 1
        return tuple(names)

    def template(self, name: str) -> str:
        """Skip template arguments, if they follow; their text."""
        if self.peek() != "<" or not (name in _TEMPLATES or name in _CASTS):
            return ""
        start, depth = self.next, 0
        while True:
            depth += {"<": 1, ">": -1}.get(self.peek(), 0)
            self.next += 1
            if depth == 0:
                return " ".join(token.text for token in self.tokens[start + 1 : self.next - 1])
            if self.kind() == "end":
                raise self.error("template arguments without an end")

    def expression(self) -> Expression:
        """Read any expression."""
        condition = self.binary(1)
        if not self.accept("?"):
            return condition
        then = self.expression()
        self.expect(":")
        return Ternary(condition, then, self.expression())

    def binary(self, lowest: int) -> Expression:
        """Read operators that bind at least so tightly."""
        left = self.unary()
        while self.kind() == "op" and _PRECEDENCE.get(self.peek(), 0) >= lowest:
            op = self.tokens[self.next].text
            self.next += 1
            left = Binary(op, left, self.binary(_PRECEDENCE[op] + 1))
        return left

    def unary(self) -> Expression:
        """Read an operand with what stands before it."""
        if op := self.accept("-", "+", "!", "~", "&", "*"):
            operand = self.unary()
            if (
                op == "-"
                and isinstance(operand, Literal)
                and isinstance(operand.value, int | float)
            ):
                return Literal(-operand.value)
            return Unary(op, operand)
        if self.peek() == "(" and self.peek(1) in SCALARS and self.peek(2) == ")":
            cast = self.peek(1)
            self.next += 3
            return Cast(cast, self.unary())
        return self.postfix(self.primary())

    def postfix(self, value: Expression) -> Expression:
        """Read what stands behind an operand."""
        while True:
            if self.accept(".", "->"):
                value = Member(value, self.identifier())
            elif self.accept("["):
                value = Index(value, self.expression())
                self.expect("]")
            elif self.accept("("):
                value = CallOf(value, self.listed(")"))
            else:
                return value

    def primary(self) -> Expression:
        """Read an operand."""
        kind, text = self.kind(), self.peek()
        reader: dict[str, Callable[[], Expression]] = {
            "number": self.number,
            "string": self.string,
            "name": self.named,
        }
        if kind in reader:
            return reader[kind]()
        if self.accept("("):
            value = self.expression()
            self.expect(")")
            return value
        if self.accept("{"):
            return Braces(self.listed("}"))
        if text == "[":
            while not self.accept("]"):
                if self.kind() == "end":
                    raise self.error("a lambda without a body")
                self.next += 1
            return Lambda(self.parameters(), self.body())
        raise self.error(f"no expression begins with {text!r}")

    def number(self) -> Expression:
        """Read a number."""
        text = self.peek()
        self.next += 1
        if text[:2] in ("0x", "0X"):
            return Literal(int(text.rstrip("uUlL"), 16))
        digits = text.rstrip("uUlLfF")
        return Literal(int(digits) if digits.isdecimal() else float(digits))

    def string(self) -> Expression:
        """Read a string."""
        parts: list[str] = []
        while self.kind() == "string":
            parts.append(self.tokens[self.next].text)
            self.next += 1
        return Literal("".join(parts))

    def named(self) -> Expression:
        """Read what begins with a name."""
        name = self.identifier()
        if name in _WORDS:
            return Literal(_WORDS[name])
        arguments = self.template(name)
        if name in _CASTS or (name in SCALARS and self.peek() == "("):
            self.expect("(")
            value = self.expression()
            self.expect(")")
            return Cast(arguments or name, value)
        if arguments and self.peek() == "{":
            self.next += 1
            return Braces(self.listed("}"))
        if self.accept("::"):
            name = f"{name}::{self.identifier()}"
        return Name(name)
