"""Execute the statements of a wrapper; a :class:`CallHandler` executes its calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from backends.metal.cpp.syntax import (
    Assign,
    Binary,
    Braces,
    CallOf,
    Cast,
    CppBlock,
    CppFunction,
    CppIndex,
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
    UnknownFunction,
    UnknownStatement,
    While,
    WrapperError,
)
from backends.metal.machine import arithmetic
from backends.metal.machine.values import UNSET, Closure, Host, Owner, Pointer, Text, member


class Thrown(WrapperError):
    """The wrapper throws an exception."""


class CallHandler(Protocol):
    """Executes functions that the wrapper does not define."""

    def call(self, name: str, arguments: Sequence[Any], line: int) -> Any:
        """Call a function.

        Raises:
            UnknownFunction: no function has that name.
        """
        ...

    def constant(self, name: str) -> Any:
        """Return the value of a name that the wrapper does not declare, or UNSET."""
        ...


class Scope:
    """Names and their values, with the enclosing scope."""

    __slots__ = ("outer", "values")

    def __init__(self, outer: Scope | None = None) -> None:
        self.values: dict[str, Any] = {}
        self.outer = outer

    def holder(self, name: str) -> dict[str, Any] | None:
        """Return the values of the scope that declares a name; None if no scope does."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values
            scope = scope.outer
        return None


@dataclass(eq=False)
class _Left(Exception):
    """Leaves a function or loop."""

    how: str
    value: Any


class WrapperInterpreter:
    """Executes the wrapper's functions.

    Args:
        functions: functions of the wrapper by name.
        calls: executes all other functions.
        quote: returns the text of a line, for errors.
    """

    def __init__(
        self, functions: Mapping[str, CppFunction], calls: CallHandler, quote: Callable[[int], str]
    ) -> None:
        self.functions = functions
        self.calls = calls
        self.quote = quote
        self.line = 0

    def run(self, function: CppFunction, arguments: Mapping[str, Any]) -> Any:
        """Call a function of the wrapper.

        Args:
            function: a function of the wrapper.
            arguments: values by parameter; a missing parameter has no value.

        Raises:
            WrapperError: execution fails; the error has the line.
        """
        scope = Scope()
        scope.values.update({name: arguments.get(name, UNSET) for name in function.parameters})
        try:
            return self._body(function.body, scope)
        except WrapperError as error:
            if error.line or not self.line:
                raise
            raise _placed(error, self.line, self.quote(self.line)) from error
        except (AttributeError, IndexError, KeyError, TypeError, ZeroDivisionError) as error:
            text = f"{type(error).__name__}: {error}"
            raise WrapperError(text, self.line, self.quote(self.line)) from error

    def invoke(self, closure: Closure, *arguments: Any) -> Any:
        """Call a lambda."""
        scope = Scope(closure.scope)
        scope.values.update(zip(closure.code.parameters, arguments, strict=True))
        return self._body(closure.code.body, scope)

    def _body(self, body: Sequence[Statement], scope: Scope) -> Any:
        try:
            self._statements(body, scope)
        except _Left as left:
            return left.value
        return None

    def _statements(self, body: Sequence[Statement], scope: Scope) -> None:
        for statement in body:
            self.line = statement.line
            _STATEMENTS[type(statement)](self, statement, scope)

    def _declare(self, node: Declare, scope: Scope) -> None:
        value: Any = UNSET if node.value is None else self.value(node.value, scope)
        if node.value is None:
            if node.type in ("RAIIAtenTensorHandle", "ConstantHandle"):
                value = Owner(None)
            elif node.type == "std::stringstream":
                value = Text()
        scope.values[node.name] = arithmetic.convert(node.type, value)

    def _assign(self, node: Assign, scope: Scope) -> None:
        value = self.value(node.value, scope)
        place = self._place(node.target, scope)
        before = place.get()
        if isinstance(before, Owner) and isinstance(value, Owner):
            before.tensor = value.tensor
        else:
            place.set(value)

    def _do(self, node: Do, scope: Scope) -> None:
        self.value(node.value, scope)

    def _if(self, node: If, scope: Scope) -> None:
        body = node.then if self.value(node.condition, scope) else node.otherwise
        self._statements(body, Scope(scope))

    def _while(self, node: While, scope: Scope) -> None:
        try:
            while self.value(node.condition, scope):
                self._statements(node.body, Scope(scope))
        except _Left as left:
            if left.how != "break":
                raise

    def _block(self, node: CppBlock, scope: Scope) -> None:
        self._statements(node.body, Scope(scope))

    def _leave(self, node: Leave, scope: Scope) -> None:
        value = None if node.value is None else self.value(node.value, scope)
        if node.how == "throw":
            raise Thrown(f"the wrapper throws: {str(value).strip()}")
        raise _Left(node.how, value)

    def value(self, node: Expression, scope: Scope) -> Any:
        """Return the value of an expression."""
        return _EXPRESSIONS[type(node)](self, node, scope)

    def _literal(self, node: Literal, scope: Scope) -> Any:
        return node.value

    def _name(self, node: Name, scope: Scope) -> Any:
        holder = scope.holder(node.id)
        if holder is not None:
            return holder[node.id]
        value = self.calls.constant(node.id)
        if value is UNSET:
            raise UnknownFunction(node.id, self.line, self.quote(self.line))
        return value

    def _unary(self, node: Unary, scope: Scope) -> Any:
        if node.op == "&":
            if isinstance(node.operand, Name | CppIndex):
                return self._place(node.operand, scope)
            return Pointer.to(self.value(node.operand, scope))
        value = self.value(node.operand, scope)
        if node.op == "*":
            return value.get() if isinstance(value, Pointer) else value
        return arithmetic.UNARY[node.op](value)

    def _place(self, node: Expression, scope: Scope) -> Pointer:
        if isinstance(node, Name):
            holder = scope.holder(node.id)
            if holder is not None:
                return Pointer(holder, node.id)
        if isinstance(node, CppIndex):
            index = self.value(node.index, scope)
            return Pointer(self.value(node.value, scope), index)
        raise UnknownStatement("this cannot be written to", self.line, self.quote(self.line))

    def _binary(self, node: Binary, scope: Scope) -> Any:
        left = self.value(node.left, scope)
        if node.op in ("&&", "||"):
            short = bool(left) == (node.op == "||")
            return bool(left) if short else bool(self.value(node.right, scope))
        right = self.value(node.right, scope)
        if node.op == "<<" and isinstance(left, Text):
            return left.append(right)
        return arithmetic.BINARY[node.op](left, right)

    def _ternary(self, node: Ternary, scope: Scope) -> Any:
        chosen = node.then if self.value(node.condition, scope) else node.otherwise
        return self.value(chosen, scope)

    def _braces(self, node: Braces, scope: Scope) -> tuple[Any, ...]:
        return tuple(self.value(item, scope) for item in node.items)

    def _cast(self, node: Cast, scope: Scope) -> Any:
        return arithmetic.convert(node.type, self.value(node.value, scope))

    def _lambda(self, node: Lambda, scope: Scope) -> Closure:
        return Closure(node, scope, self)

    def _index(self, node: CppIndex, scope: Scope) -> Any:
        value, index = self.value(node.value, scope), self.value(node.index, scope)
        if not 0 <= index < len(value):
            raise WrapperError(f"index {index} of {len(value)}")
        return value[index]

    def _member(self, node: Member, scope: Scope) -> Any:
        value = self.value(node.value, scope)
        return getattr(value, node.name) if isinstance(value, Host) else value

    def _call(self, node: CallOf, scope: Scope) -> Any:
        function = node.function
        arguments = [self.value(argument, scope) for argument in node.arguments]
        if isinstance(function, Member):
            try:
                return member(self.value(function.value, scope), function.name, arguments)
            except KeyError:
                raise UnknownFunction(function.name, self.line, self.quote(self.line)) from None
        if not isinstance(function, Name):
            raise UnknownStatement("this cannot be called", self.line, self.quote(self.line))
        if function.id in self.functions:
            called = self.functions[function.id]
            inner = Scope()
            inner.values.update(zip(called.parameters, arguments, strict=True))
            line = self.line
            result = self._body(called.body, inner)
            self.line = line
            return result
        if (pure := arithmetic.FUNCTIONS.get(function.id)) is not None:
            return pure(*arguments)
        return self.calls.call(function.id, arguments, self.line)


def _placed(error: WrapperError, line: int, source: str) -> WrapperError:
    """Return the same error with a line; its class stays, so that handlers still match."""
    placed: WrapperError = error.__class__.__new__(error.__class__)
    placed.__dict__.update(error.__dict__)
    WrapperError.__init__(placed, str(error), line, source)
    return placed


_STATEMENTS: dict[type, Callable[[WrapperInterpreter, Any, Scope], None]] = {
    Declare: WrapperInterpreter._declare,
    Assign: WrapperInterpreter._assign,
    Do: WrapperInterpreter._do,
    If: WrapperInterpreter._if,
    While: WrapperInterpreter._while,
    CppBlock: WrapperInterpreter._block,
    Leave: WrapperInterpreter._leave,
}
_EXPRESSIONS: dict[type, Callable[[WrapperInterpreter, Any, Scope], Any]] = {
    Literal: WrapperInterpreter._literal,
    Name: WrapperInterpreter._name,
    Unary: WrapperInterpreter._unary,
    Binary: WrapperInterpreter._binary,
    Ternary: WrapperInterpreter._ternary,
    CallOf: WrapperInterpreter._call,
    Member: WrapperInterpreter._member,
    CppIndex: WrapperInterpreter._index,
    Braces: WrapperInterpreter._braces,
    Cast: WrapperInterpreter._cast,
    Lambda: WrapperInterpreter._lambda,
}
