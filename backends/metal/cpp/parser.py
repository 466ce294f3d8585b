"""Reads the C++ that Inductor emits for a wrapper's functions; anything else is an error."""

from __future__ import annotations

from backends.metal.cpp.expressions import SCALARS, ExpressionParser
from backends.metal.cpp.syntax import (
    Assign,
    Block,
    Braces,
    CallOf,
    Cast,
    Declare,
    Do,
    Expression,
    Function,
    If,
    Leave,
    Name,
    Source,
    Statement,
    While,
)

_RESERVED = frozenset("goto using typedef switch case do for try delete new template".split())
_QUALIFIERS = frozenset("static const constexpr inline thread_local unsigned".split())


def parse_function(source: Source, name: str, at: int) -> Function:
    """The function whose parameter list opens at ``at``.

    Raises:
        UnknownStatement: it holds C++ that is not understood.
    """
    return _Parser(source, source.tokens(at, _end(source, at))).function(name)


def _end(source: Source, at: int) -> int:
    # Inductor closes a function at the start of a line, and nothing else.
    end = source.text.find("\n}", at)
    opened = source.text.find("{", at)
    # An empty body stays on the line of its signature.
    empty = source.text.find("{}", at)
    if empty == opened and empty >= 0:
        return empty + 2
    if end < 0:
        raise source.error("a function without an end", at)
    return end + 2


class _Parser(ExpressionParser):
    def function(self, name: str) -> Function:
        parameters = self.parameters()
        return Function(name, parameters, self.body())

    def body(self) -> tuple[Statement, ...]:
        """A block, or one statement."""
        if not self.accept("{"):
            return (self.statement(),)
        found: list[Statement] = []
        while not self.accept("}"):
            if self.kind() == "end":
                raise self.error("a block without an end")
            if not self.accept(";"):
                found.append(self.statement())
        return tuple(found)

    def statement(self) -> Statement:
        line = self.line()
        if self.peek() == "{":
            return Block(self.body(), line)
        if word := self.accept("if", "while"):
            self.accept("constexpr")
            self.expect("(")
            condition = self.expression()
            self.expect(")")
            then = self.body()
            if word == "while":
                return While(condition, then, line)
            return If(condition, then, self.body() if self.accept("else") else (), line)
        if how := self.accept("return", "break", "throw"):
            value = None if self.peek() == ";" else self.expression()
            self.expect(";")
            return Leave(how, value, line)
        declared = self.declaration(line)
        if declared is not None:
            return declared
        target = self.expression()
        if self.accept("="):
            target_value = self.expression()
            self.expect(";")
            return Assign(target, target_value, line)
        self.expect(";")
        return Do(target, line)

    def declaration(self, line: int) -> Declare | None:
        """A declaration, or None and nothing read."""
        start = self.next
        qualified = self.qualifiers()
        if self.kind() != "name" or self.peek() in _RESERVED:
            if qualified or self.kind() == "name":
                raise self.error(f"a statement begins with {self.peek()!r}")
            return None
        type_name = self.identifier()
        self.template(type_name)
        while self.accept("*", "&", "const"):
            pass
        if self.kind() != "name" or self.peek(1) not in ("=", ";", "(", "[", "{"):
            self.next = start
            return None
        name = self.identifier()
        if self.accept("["):
            if self.peek() != "]":
                self.expression()
            self.expect("]")
        value: Expression | None = None
        if self.accept("="):
            value = self.expression()
        elif self.accept("("):
            given = self.listed(")")
            scalar = type_name in SCALARS and len(given) == 1
            value = Cast(type_name, given[0]) if scalar else CallOf(Name(type_name), given)
        elif self.accept("{"):
            items = self.listed("}")
            value = items[0] if len(items) == 1 else Braces(items)
        self.expect(";")
        return Declare(type_name, name, value, line)

    def qualifiers(self) -> bool:
        start = self.next
        while True:
            if self.peek() == "[" and self.peek(1) == "[":
                while not (self.peek() == "]" and self.peek(1) == "]"):
                    if self.kind() == "end":
                        raise self.error("an attribute without an end")
                    self.next += 1
                self.next += 2
            elif not self.accept(*_QUALIFIERS):
                return self.next > start
