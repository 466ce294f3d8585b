"""Parse the C++ that Inductor emits for a wrapper's functions; any other C++ is an error.

tree-sitter parses; this module converts its concrete syntax trees to statements and expressions.
tree-sitter accepts all of C++ and continues after an error, so each construct is matched here with
all of its parts.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence

import tree_sitter_cpp
from tree_sitter import Language, Node, Parser

from backends.metal.cpp.syntax import (
    Assign,
    Binary,
    Braces,
    CallOf,
    Cast,
    CppBlock,
    CppFunction,
    CppIndex,
    CppSource,
    Declare,
    Do,
    Expression,
    If,
    Lambda,
    Leave,
    Literal,
    Member,
    Name,
    Statement,
    Ternary,
    Unary,
    UnknownStatement,
    While,
)

_SCALARS = frozenset(
    f"{scope}{name}"
    for scope in ("", "std::")
    for name in "int long size_t uintptr_t float double bool".split()
    + [f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)
_CASTS = ("static_cast", "reinterpret_cast", "const_cast")
_TEMPLATES = frozenset(
    "std::array std::vector std::function std::max std::min std::optional std::unique_ptr "
    "std::numeric_limits std::pair std::tuple".split()
)
_QUALIFIERS = ("attribute_declaration", "storage_class_specifier", "type_qualifier")
_BETWEEN = ("comment", ",")
_MARKS = ("abstract_pointer_declarator", "abstract_reference_declarator")
_UNARY = frozenset("- + ! ~ & *".split())
_BINARY = frozenset("|| && | ^ & == != < > <= >= << + - * / %".split())
_NUMBER = re.compile(
    r"([-+]?(?:0[xX][0-9a-fA-F]+|0|[1-9]\d*))[uUlL]*"
    r"|([-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?)[fFlL]?"
)


def parse_function(source: CppSource, name: str, at: int) -> CppFunction:
    """Parse the function whose parameter list opens at ``at``.

    Raises:
        UnknownStatement: the function contains unsupported C++.
    """
    # Parse only the function: outside of functions a wrapper has macros, which are not C++.
    text = source.text[at : _end(source, at)]
    return _Reader(source, source.line(at)).function(name, text)


def _end(source: CppSource, at: int) -> int:
    # In Inductor's code, only the brace that closes a function starts a line.
    end = source.text.find("\n}", at)
    opened = source.text.find("{", at)
    # An empty body stays on the line of its signature.
    empty = source.text.find("{}", at)
    if empty == opened and empty >= 0:
        return empty + 2
    if end < 0:
        raise source.error("a function without an end", at)
    return end + 2


@functools.cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_cpp.language()))


def _parts(node: Node) -> list[Node]:
    return [part for part in node.children if part.type != "comment"]


def _plain(node: Node) -> list[Node]:
    """Return a node's parts without qualifiers, which do not affect values."""
    return [part for part in _parts(node) if part.type not in _QUALIFIERS]


def _take_apart(node: Node) -> tuple[list[str], list[Node]]:
    """Return the types of a node and its parts, for pattern matching, and the parts."""
    parts = node.children
    types = [node.type, *(part.type for part in parts)]
    if "comment" in types:
        return [kind for kind in types if kind != "comment"], _parts(node)
    return types, parts


def _list_parts(node: Node) -> list[Node]:
    """Return the items of a list, without brackets and commas."""
    return [part for part in node.children if part.type not in _BETWEEN][1:-1]


def _text(node: Node) -> str:
    return (node.text or b"").decode()


def _find_broken(node: Node) -> Iterator[Node]:
    """Yield the smallest nodes that the parser could not read or inserted itself."""
    inner = [found for part in node.children if part.has_error for found in _find_broken(part)]
    if inner or node.is_error or node.is_missing:
        yield from inner or [node]


class _Misread(Exception):
    """The parser takes a variable for a type or a template.

    Without declarations, ``(a) + b`` looks like a cast of ``+b``, and ``a < b && c > (d)`` like a
    call of the template ``a``. Parentheses around ``a`` avoid both.
    """

    def __init__(self, node: Node) -> None:
        self.node = node


class _Reader:
    """Reads C++ that begins at a given line of the source."""

    def __init__(self, source: CppSource, first: int) -> None:
        self.source = source
        self.first = first

    def line(self, node: Node) -> int:
        return self.first + node.start_point.row

    def error(self, node: Node, message: str = "") -> UnknownStatement:
        line = self.line(node)
        message = message or f"not understood: {node.type.replace('_', ' ')}"
        return UnknownStatement(message, line, self.source.quote(line))

    def function(self, name: str, text: str) -> CppFunction:
        """Parse a function, starting at its parameter list."""
        code = f"void f{text}".encode()
        while True:
            root = _parser().parse(code).root_node
            if root.has_error:
                raise self.error(next(_find_broken(root), root), "this is no C++")
            try:
                return self.defined(name, root)
            except _Misread as misread:
                start, stop = misread.node.byte_range
                code = b"%b(%b)%b" % (code[:start], code[start:stop], code[stop:])

    def defined(self, name: str, root: Node) -> CppFunction:
        match _parts(root):
            case [Node(type="function_definition", children=[_, declarator, body])]:
                parameters = self.only(declarator, _parts(declarator)[1:])
                return CppFunction(name, self.parameters(parameters), self.body(body))
        raise self.error(root)

    def parameters(self, node: Node) -> tuple[str, ...]:
        return tuple(self.declared(part) for part in _list_parts(node))

    def declared(self, node: Node) -> str:
        """Return the name that a parameter or declarator declares."""
        parts = _plain(node)
        match [node.type, *(part.type for part in parts)]:
            case ["parameter_declaration", _, _]:
                return self.declared(parts[1])
            case ["identifier"]:
                return _text(node)
            case ["reference_declarator" | "pointer_declarator", _, _]:
                return self.declared(parts[1])
            case ["array_declarator", "identifier", "[", *_]:
                return _text(parts[0])
        raise self.error(node)

    def only(self, node: Node, parts: Sequence[Node]) -> Node:
        """Return the only part of a node."""
        if len(parts) != 1:
            raise self.error(node)
        return parts[0]

    def body(self, node: Node) -> tuple[Statement, ...]:
        """Parse a block or one statement."""
        parts = _list_parts(node) if node.type == "compound_statement" else [node]
        return tuple(self.statement(part) for part in parts if _text(part) != ";")

    def statement(self, node: Node) -> Statement:
        line, (types, parts) = self.line(node), _take_apart(node)
        match types:
            case ["compound_statement", *_]:
                return CppBlock(self.body(node), line)
            case ["expression_statement", "assignment_expression", ";"]:
                target, op, value = _parts(parts[0])
                if op.type == "=":
                    return Assign(self.expression(target), self.expression(value), line)
            case ["expression_statement", _, ";"]:
                return Do(self.expression(parts[0]), line)
            case ["if_statement", "if", "condition_clause", _]:
                return If(self.condition(parts[1]), self.body(parts[2]), (), line)
            case ["if_statement", "if", "condition_clause", _, "else_clause"]:
                otherwise = self.body(self.only(parts[3], _parts(parts[3])[1:]))
                return If(self.condition(parts[1]), self.body(parts[2]), otherwise, line)
            case ["while_statement", "while", "condition_clause", _]:
                return While(self.condition(parts[1]), self.body(parts[2]), line)
            case ["return_statement" | "break_statement", how, ";"]:
                return Leave(how, None, line)
            case ["return_statement" | "throw_statement", how, _, ";"]:
                return Leave(how, self.expression(parts[1]), line)
            case ["declaration", *_, ";"]:
                return self.declaration(node, line)
        raise self.error(node)

    def condition(self, node: Node) -> Expression:
        return self.expression(self.only(node, _list_parts(node)))

    def declaration(self, node: Node, line: int) -> Declare:
        kind, *declarators, _ = _plain(node)
        type_name, declarator = self.name(kind), self.only(node, declarators)
        value: Expression | None
        types, parts = _take_apart(declarator)
        match types:
            case ["init_declarator", _, "=", _]:
                value = self.expression(parts[2])
            case ["init_declarator", _, "argument_list"]:
                value = self.made(type_name, self.expressions(parts[1]))
            case ["init_declarator", _, "initializer_list"]:
                items = self.expressions(parts[1])
                value = items[0] if len(items) == 1 else Braces(items)
            case ["function_declarator", _, "parameter_list"]:
                value = self.made(type_name, self.misread(parts[1]))
            case _:
                return Declare(type_name, self.declared(declarator), None, line)
        return Declare(type_name, self.declared(parts[0]), value, line)

    def misread(self, node: Node) -> tuple[Expression, ...]:
        """Return the arguments of ``type name(value)``, which looks like a function declaration."""
        text = f"() {{ f{_text(node)}; }}"
        match _Reader(self.source, self.line(node)).function("", text).body:
            case [Do(CallOf(_, given))] if given:
                return given
        raise self.error(node)

    def made(self, type_name: str, given: tuple[Expression, ...]) -> Expression:
        """Construct a value of a type from arguments."""
        if type_name in _SCALARS and len(given) == 1:
            return Cast(type_name, given[0])
        return CallOf(Name(type_name), given)

    def expressions(self, node: Node) -> tuple[Expression, ...]:
        return tuple(self.expression(part) for part in _list_parts(node))

    def name_or_literal(self, node: Node, types: list[str]) -> Expression | None:
        match types:
            case ["identifier" | "this"] if (word := _text(node)) not in _CASTS:
                return Name(word)
            case ["qualified_identifier", *_]:
                return Name(self.name(node))
            case ["number_literal"]:
                return self.number(node)
            case ["true" | "false" as truth]:
                return Literal(truth == "true")
            case ["null", _]:
                return Literal(None)
            case ["string_literal" | "raw_string_literal" | "concatenated_string", *_]:
                return Literal(self.string(node))
        return None

    def expression(self, node: Node) -> Expression:  # noqa: C901 (a case for each form of C++)
        types, parts = _take_apart(node)
        if (operand := self.name_or_literal(node, types)) is not None:
            return operand
        match types:
            case ["call_expression", _, "argument_list"]:
                return self.call(parts[0], self.expressions(parts[1]))
            case ["binary_expression", _, op, _] if op in _BINARY:
                return Binary(op, self.expression(parts[0]), self.expression(parts[2]))
            case ["parenthesized_expression", _, _, _]:
                return self.expression(parts[1])
            # "&&name" is GNU's address of a label.
            case ["pointer_expression" | "unary_expression", op, _] if op in _UNARY:
                if not _text(node).startswith("&&"):
                    return self.unary(op, self.expression(parts[1]))
            case ["field_expression", _, "." | "->", "field_identifier"]:
                return Member(self.expression(parts[0]), _text(parts[2]))
            case ["subscript_expression", _, "subscript_argument_list"]:
                index = self.only(node, _list_parts(parts[1]))
                return CppIndex(self.expression(parts[0]), self.expression(index))
            case ["initializer_list", *_]:
                return Braces(self.expressions(node))
            case ["compound_literal_expression", _, "initializer_list"]:
                if self.name(parts[0]) in _TEMPLATES:
                    return Braces(self.expressions(parts[1]))
            case ["cast_expression", "(", _, ")", _]:
                if (kind := _text(parts[1])) not in _SCALARS:
                    raise _Misread(parts[1])
                return Cast(kind, self.expression(parts[3]))
            case ["template_function", "identifier", _]:
                raise _Misread(parts[0])
            case ["conditional_expression", _, "?", _, ":", _]:
                return Ternary(*map(self.expression, parts[::2]))
            case ["lambda_expression", _, "abstract_function_declarator", "compound_statement"]:
                parameters = self.only(parts[1], _parts(parts[1]))
                if _text(parts[0]) == "[&]":
                    return Lambda(self.parameters(parameters), self.body(parts[2]))
        raise self.error(node)

    def unary(self, op: str, operand: Expression) -> Expression:
        if op == "-" and isinstance(operand, Literal) and isinstance(operand.value, int | float):
            return Literal(-operand.value)
        return Unary(op, operand)

    def call(self, function: Node, given: tuple[Expression, ...]) -> Expression:
        if function.type == "primitive_type":
            return self.made(_text(function), given)
        if function.type == "template_function":
            name, arguments = _parts(function)
            if _text(name) in _CASTS and len(given) == 1:
                return Cast(self.type(self.only(arguments, _list_parts(arguments))), given[0])
        called = self.expression(function)
        return self.made(called.id, given) if isinstance(called, Name) else CallOf(called, given)

    def number(self, node: Node) -> Literal:
        match = _NUMBER.fullmatch(_text(node))
        if match is None:
            raise self.error(node)
        return Literal(int(match[1], 0) if match[1] else float(match[2]))

    def string(self, node: Node) -> str:
        """Return the text between the quotes, with escapes as written."""
        types, parts = _take_apart(node)
        match types:
            case ["concatenated_string", *_]:
                return "".join(map(self.string, parts))
            case ["raw_string_literal", 'R"', *_]:
                return "".join(_text(part) for part in parts if part.type == "raw_string_content")
            case ["string_literal", '"', *_]:
                return _text(node)[1:-1]
        raise self.error(node)

    def type(self, node: Node) -> str:
        """Return the type in a cast, without qualifiers."""
        kind, *marks = _plain(node)
        if any(mark.type not in _MARKS for mark in marks):
            raise self.error(node)
        return self.name(kind) + "".join(map(_text, marks))

    def name(self, node: Node, scope: str = "") -> str:
        """Return a name with its qualifiers, without template arguments."""
        types, parts = _take_apart(node)
        match types:
            case ["identifier" | "type_identifier" | "namespace_identifier" | "primitive_type"]:
                return scope + _text(node)
            case ["placeholder_type_specifier", "auto"]:
                return "auto"
            case ["qualified_identifier", _, "::", _]:
                return self.name(parts[2], f"{self.name(parts[0], scope)}::")
            case ["template_type" | "template_function", _, "template_argument_list"]:
                if (name := self.name(parts[0], scope)) in _TEMPLATES:
                    return name
        raise self.error(node)
