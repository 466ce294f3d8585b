"""List a wrapper as text: its numbered calls with the shapes that it declares."""

from __future__ import annotations

from collections.abc import Iterator

from backends.metal.cpp.syntax import (
    Assign,
    Binary,
    Braces,
    CallOf,
    Cast,
    CppBlock,
    CppIndex,
    Declare,
    Do,
    Expression,
    If,
    Lambda,
    Literal,
    Member,
    Name,
    Statement,
    Ternary,
    Unary,
    While,
)
from backends.metal.cpp.wrapper import Wrapper

_PLUMBING = (
    "AOTI_TORCH_ERROR_CODE_CHECK std::move wrap_with_raii_handle_if_needed RAIIAtenTensorHandle "
    "temporary_reference"
).split()
_QUIET = ("__check_inputs_outputs", "AOTI_TORCH_WARN", "assert_size_stride")
_QUIET_METHODS = ("reset", "clear")


def list_wrapper(wrapper: Wrapper) -> Iterator[str]:
    """Yield a line for each input count, constant and call of a program."""
    yield f"{wrapper.inputs} inputs, {wrapper.outputs} outputs"
    listing = _Listing()
    for index, info in enumerate(wrapper.constants):
        shape = f"{info.dtype} {list(info.shape)} strides {list(info.strides)}"
        listing.shapes[info.name] = f"{info.dtype} {list(info.shape)}"
        kept = f", {info.device}" if info.device != "mps" else ""
        yield f"constant {index} {info.name}: {shape}{kept}"
    for kernel in wrapper.kernels.values():
        yield f"kernel {kernel.library}: {kernel.function}"
    yield from listing.statements(wrapper.run.body, "")


class _Listing:
    def __init__(self) -> None:
        self.number = 0
        self.shapes: dict[str, str] = {}
        self.known: dict[str, Expression] = {}
        self.unwritten: set[str] = set()

    def statements(self, body: tuple[Statement, ...], indent: str) -> Iterator[str]:
        for node in body:
            if isinstance(node, Declare):
                yield from self.declared(node, indent)
            elif isinstance(node, Assign):
                yield f"{indent}{self.text(node.target)} = {self.text(node.value)}"
            elif isinstance(node, Do):
                yield from self.done(node.value, indent)
            elif isinstance(node, If | While):
                yield from self.conditional(node, indent)
            elif isinstance(node, CppBlock):
                yield from self.statements(node.body, indent)

    def declared(self, node: Declare, indent: str) -> Iterator[str]:
        value = _plain(node.value)
        if value is None:
            self.unwritten.add(node.name)
            return
        silent = node.type.startswith("std::function") or node.name.startswith("int_array")
        if silent or isinstance(value, Braces | Lambda):
            self.known[node.name] = value
        elif isinstance(value, CallOf) and _name(value) == "reinterpret_tensor_wrapper":
            self.number += 1
            yield f"{indent}{self.number:4} {node.name} = {self.text(value)}"
        elif node.type != "RAIIAtenTensorHandle" and not _named(value, "inputs", "kernels_"):
            yield f"{indent}     {node.name} = {self.text(value)}"

    def done(self, value: Expression, indent: str) -> Iterator[str]:
        call = _plain(value)
        if not isinstance(call, CallOf) or _name(call) in _QUIET or _method(call) in _QUIET_METHODS:
            return
        self.number += 1
        if _name(call) == "aoti_torch_mps_run_command_block":
            yield f"{indent}{self.number:4} {self.launch(call)}"
            return
        results = [node for node in call.arguments if _pointee(node) in self.unwritten]
        names = [_pointee(node).removesuffix("_handle") for node in results]
        given = [node for node in call.arguments if node not in results]
        if _name(call) == "aoti_torch_empty_strided":
            sizes, strides, dtype, device = (self.text(argument) for argument in given[1:5])
            self.shapes[names[0]] = f"{dtype} {sizes}"
            text = f"empty {dtype} {sizes} strides {strides} on {device}"
        else:
            text = f"{_name(call)}({', '.join(self.argument(argument) for argument in given)})"
        where = f"{', '.join(names)} = " if names else ""
        yield f"{indent}{self.number:4} {where}{text}"

    def launch(self, call: CallOf) -> str:
        library = self.text(call.arguments[0]).removeprefix("get_").removesuffix("_handle()")
        wrapped: Expression | None = self.known.get(_pointee(call.arguments[2]) or "")
        while isinstance(wrapped, Name):
            wrapped = self.known.get(wrapped.id)
        if not isinstance(wrapped, Lambda):
            return library
        arguments: list[str] = []
        grid = ""
        for step in _calls(wrapped.body, self.known):
            name = _name(step)
            if name.startswith("aoti_torch_mps_set_arg"):
                arguments.append(self.argument(step.arguments[2]))
            elif name.startswith("aoti_torch_mps_dispatch"):
                sizes = [self.text(size) for size in step.arguments[1:]]
                threads, *group = sizes[::2] if "array" in name else sizes
                grid = f" threads {threads}" + (f" groups of {group[0]}" if group else "")
        return f"{library}({', '.join(arguments)}){grid}"

    def conditional(self, node: If | While, indent: str) -> Iterator[str]:
        if _checks(node.condition):
            return
        word = "while" if isinstance(node, While) else "if"
        yield f"{indent}     {word} {self.text(node.condition)}"
        if isinstance(node, While):
            yield from self.statements(node.body, indent + "  ")
            return
        yield from self.statements(node.then, indent + "  ")
        if node.otherwise:
            yield f"{indent}     else"
            yield from self.statements(node.otherwise, indent + "  ")

    def argument(self, node: Expression) -> str:
        text = self.text(node)
        return f"{text}: {self.shapes[text]}" if text in self.shapes else text

    def text(self, node: Expression) -> str:  # noqa: C901 (a case for each class of expression)
        node = _plain(node) or node
        match node:
            case Literal(value):
                return "null" if value is None else str(value)
            case Name(name):
                if isinstance(known := self.known.get(name), Braces | Literal):
                    return self.text(known)
                short = name.removeprefix("cached_torch_dtype_")
                return short.removeprefix("cached_torch_device_type_")
            case Unary(op, operand):
                return self.text(operand) if op in "&*" else f"{op}{self.text(operand)}"
            case Binary(op, left, right):
                return f"({self.text(left)} {op} {self.text(right)})"
            case Ternary(condition, then, otherwise):
                return f"({self.text(condition)} ? {self.text(then)} : {self.text(otherwise)})"
            case Cast(_, value):
                return self.text(value)
            case Braces(items):
                return f"[{', '.join(map(self.text, items))}]"
            case CppIndex(value, index):
                return f"{self.text(value)}[{self.text(index)}]"
            case Member(value, name):
                return f"{self.text(value)}.{name}"
            case CallOf(Name("reinterpret_tensor_wrapper"), (parent, _, sizes, strides, offset)):
                place = "" if offset == Literal(0) else f" + {self.text(offset)}"
                view = f"{self.text(sizes)} strides {self.text(strides)}"
                return f"({self.argument(parent)}{place} as {view})"
            case CallOf(Member(value, "cbegin" | "begin" | "release" | "get"), ()):
                return self.text(value)
            case CallOf(function, arguments):
                return f"{self.text(function)}({', '.join(map(self.text, arguments))})"
        return "lambda"


def _plain(node: Expression | None) -> Expression | None:
    """Return an expression without calls that only move handles."""
    while isinstance(node, CallOf) and _name(node) in _PLUMBING and len(node.arguments) == 1:
        node = node.arguments[0]
    return node


def _name(call: CallOf) -> str:
    return call.function.id if isinstance(call.function, Name) else ""


def _method(call: CallOf) -> str:
    return call.function.name if isinstance(call.function, Member) else ""


def _pointee(node: Expression) -> str:
    if isinstance(node, Unary) and node.op == "&" and isinstance(node.operand, Name):
        return node.operand.id
    return ""


def _named(node: Expression | None, *names: str) -> bool:
    """Return whether an expression begins with one of these names."""
    while node is not None:
        if isinstance(node, Name):
            return node.id in (*names, "constants_", "steal_from_raw_handles_to_raii_handles")
        if isinstance(node, Member) and node.name in names:
            return True
        match node:
            case Member(value) | CppIndex(value) | Cast(_, value) | Unary(_, value):
                node = value
            case CallOf(function):
                node = function
            case _:
                return False
    return False


def _checks(node: Expression) -> bool:
    """Return whether a condition tests alignment or enables input checks."""
    match node:
        case Binary(_, left, _):
            return _checks(left)
        case Cast(kind, _):
            return "uintptr_t" in kind
        case CallOf(Name("_check_aoti_runtime_check_inputs_env"), _):
            return True
    return False


def _calls(body: tuple[Statement, ...], known: dict[str, Expression]) -> Iterator[CallOf]:
    for node in body:
        if isinstance(node, CppBlock):
            yield from _calls(node.body, known)
        elif isinstance(node, Declare) and isinstance(node.value, Braces):
            known[node.name] = node.value
        elif isinstance(node, Do) and isinstance(call := _plain(node.value), CallOf):
            yield call
