"""Read kernels out of Metal source, and write the C++ around them that lets the host call them.

The source is compiled as it stands but for one thing: a declaration ``threadgroup float a[32];``
becomes ``auto& a = conform::shared<float[32]>(0);``, as no C++ storage class means "one for each
threadgroup". Lines keep their numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from backends.metal.host.errors import SourceError
from backends.metal.host.scattered import find_scattered

#: Attributes of parameters that a kernel gets from the launch instead of the argument table.
POSITIONS = frozenset(
    """
    thread_position_in_grid thread_position_in_threadgroup threadgroup_position_in_grid
    threads_per_grid threadgroups_per_grid threads_per_threadgroup dispatch_threads_per_threadgroup
    thread_index_in_threadgroup thread_index_in_simdgroup simdgroup_index_in_threadgroup
    simdgroups_per_threadgroup threads_per_simdgroup
    """.split()
)

_MEMORY = ("input", "output")

_SIZES = {"bool": 1, "char": 1, "uchar": 1, "int8_t": 1, "uint8_t": 1} | dict.fromkeys(
    ["short", "ushort", "half", "bfloat", "int16_t", "uint16_t"], 2
)
_SIZES |= dict.fromkeys(["int", "uint", "float", "int32_t", "uint32_t"], 4)
_SIZES |= dict.fromkeys(["long", "ulong", "int64_t", "uint64_t"], 8)

# Starts with a plain word: sources have thousands of lines of headers before their kernel.
_KERNEL = re.compile(
    r"kernel\b(?P<bracket>\s*\]\])?(?P<attributes>(?:\s*\[\[[^\]]*\]\])*)"
    r"\s+void\s+(?P<name>\w+)\s*\("
)
_ATTRIBUTES = re.compile(r"(?:\[\[[^\]]*\]\]\s*)*(?:\[\[\s*)?\Z")
_MAX_THREADS = re.compile(r"max_total_threads_per_threadgroup\((\d+)\)")
_SHARED = re.compile(
    r"\bthreadgroup\s+(?P<type>(?:unsigned\s+)?[\w:]+(?:\s*<[^;{}()]*>)?)\s+"
    r"(?P<names>\w+\s*(?:\[[^\];]*\]\s*)*(?:,\s*\w+\s*(?:\[[^\];]*\]\s*)*)*);"
)
_DECLARATOR = re.compile(r"(\w+)\s*((?:\[[^\];]*\]\s*)*)")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)

#: Threadgroup variables of one kernel; kMaxShared of include/conform/abi.h.
MAX_SHARED = 32
#: Arguments of one kernel; kMaxArguments there.
MAX_ARGUMENTS = 31


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel.

    Attributes:
        kind: ``input`` (constant memory), ``output`` (device memory, written or not), ``scalar``
            (a reference) or ``position`` (from the launch).
        type: as written, without address space and qualifiers.
        element: bytes of one element, 4 where the type is none of Metal's scalars.
        attribute: name of the position, else empty.
        slot: in the argument table; -1 for a position.
        scattered: the kernel only stores there, at indices that it loaded: which of several
            values for one place stays is open.
    """

    name: str
    kind: Literal["input", "output", "scalar", "position"]
    type: str
    element: int
    attribute: str = ""
    slot: int = -1
    scattered: bool = False


@dataclass(frozen=True)
class Signature:
    """One kernel as the host calls it.

    Attributes:
        max_threads: of a threadgroup, where the source limits it.
        shared: names of the threadgroup variables, in order.
    """

    name: str
    parameters: tuple[Parameter, ...]
    max_threads: int | None
    shared: tuple[str, ...]

    @property
    def arguments(self) -> tuple[Parameter, ...]:
        """The parameters that a dispatch must give, by slot."""
        given = [parameter for parameter in self.parameters if parameter.kind != "position"]
        return tuple(sorted(given, key=lambda parameter: parameter.slot))


@dataclass(frozen=True)
class KernelSource:
    """A source, taken apart.

    Attributes:
        preamble: everything before the first kernel: pasted headers.
        line: number of the first line after it.
        body: the rest, with threadgroup variables rewritten.
    """

    preamble: str
    line: int
    body: str
    kernels: tuple[Signature, ...]


def parse(source: str) -> KernelSource:
    """Find the kernels of a source.

    Raises:
        SourceError: it has none, or one with parameters that the host cannot give.
    """
    found = [match for match in _KERNEL.finditer(source) if not _is_template(source, match)]
    if not found:
        raise SourceError("the Metal source defines no kernel")
    start = _start(source, found[0])
    kernels: list[Signature] = []
    pieces: list[str] = []
    position = start
    for match in found:
        closing = _matching(source, match.end() - 1, "()")
        opening = source.find("{", closing)
        if opening < 0:
            raise SourceError(f"kernel {match['name']} has no body")
        end = _matching(source, opening, "{}") + 1
        body, shared = _share(source[opening:end], match["name"])
        attributes = source[_start(source, match) : match.start()] + match["attributes"]
        parameters = source[match.end() : closing]
        kernel = _signature(match["name"], attributes, parameters, shared)
        kernels.append(_mark_scattered(kernel, source[opening:end]))
        pieces += [source[position:opening], body]
        position = end
    pieces.append(source[position:])
    line = source.count("\n", 0, start) + 1
    return KernelSource(source[:start], line, "".join(pieces), tuple(kernels))


def entry(signature: Signature, symbol: str) -> str:
    """The function that runs the threads of a threadgroup, in C++."""
    given = ", ".join(_expression(parameter) for parameter in signature.parameters)
    return (
        f"CONFORM_ENTRY({symbol}) {{\n"
        f"  CONFORM_EACH_THREAD(launch) {signature.name}({given});\n"
        "}\n"
    )


def _expression(parameter: Parameter) -> str:
    if parameter.kind == "position":
        return f"conform::{parameter.attribute}(launch)"
    pointer = f"static_cast<{parameter.type}*>(launch->arguments[{parameter.slot}])"
    return f"*{pointer}" if parameter.kind == "scalar" else pointer


def _start(source: str, match: re.Match[str]) -> int:
    """Where the kernel's attributes start."""
    before = source[max(0, match.start() - 400) : match.start()]
    attributes = _ATTRIBUTES.search(before)
    return match.start() - (len(before) - attributes.start() if attributes else 0)


def _is_template(source: str, match: re.Match[str]) -> bool:
    start = _start(source, match)
    before = source[max(0, start - 2000) : start].rstrip()
    return before.endswith(">") and "template" in before[before.rfind(";") + 1 :]


def _matching(source: str, opening: int, pair: str) -> int:
    """Where the bracket at ``opening`` is closed."""
    depth = 0
    for match in re.finditer(r"[()]" if pair == "()" else r"[{}]", source[opening:]):
        depth += 1 if match[0] == pair[0] else -1
        if depth == 0:
            return opening + match.start()
    raise SourceError(f"a {pair[0]} of the Metal source is never closed")


def _share(body: str, kernel: str) -> tuple[str, tuple[str, ...]]:
    names: list[str] = []

    def declare(match: re.Match[str]) -> str:
        text = []
        for declarator in _DECLARATOR.finditer(match["names"]):
            text.append(
                f"auto& {declarator[1]} = "
                f"conform::shared<{match['type']}{declarator[2].strip()}>({len(names)});"
            )
            names.append(declarator[1])
        return " ".join(text) + "\n" * match[0].count("\n")

    rewritten = _SHARED.sub(declare, body)
    if len(names) > MAX_SHARED:
        raise SourceError(f"kernel {kernel} declares {len(names)} threadgroup variables")
    return rewritten, tuple(names)


def _signature(name: str, attributes: str, parameters: str, shared: tuple[str, ...]) -> Signature:
    limit = _MAX_THREADS.search(attributes)
    found: list[Parameter] = []
    slot = 0
    for text in _split(_COMMENT.sub(" ", parameters)):
        parameter = _parameter(text, slot, name)
        found.append(parameter)
        if parameter.kind != "position":
            slot = parameter.slot + 1
    if slot > MAX_ARGUMENTS:
        raise SourceError(f"kernel {name} takes {slot} arguments; Metal's table has 31 slots")
    return Signature(name, tuple(found), int(limit[1]) if limit else None, shared)


def _mark_scattered(kernel: Signature, body: str) -> Signature:
    memory = [parameter.name for parameter in kernel.parameters if parameter.kind in _MEMORY]
    names = find_scattered(body, memory)
    parameters = (
        replace(parameter, scattered=parameter.kind == "output" and parameter.name in names)
        for parameter in kernel.parameters
    )
    return replace(kernel, parameters=tuple(parameters))


def _parameter(text: str, slot: int, kernel: str) -> Parameter:
    attributes = re.findall(r"\[\[\s*(\w+)\s*(?:\(\s*(\d+)\s*\))?\s*\]\]", text)
    plain = re.sub(r"\[\[.*?\]\]", " ", text)
    words = re.sub(r"\b(const|device|constant|volatile|restrict)\b", " ", plain)
    declared = re.fullmatch(
        r"\s*(?P<type>[\w:<>,\s]+?)\s*(?P<mark>[*&]?)\s*(?P<name>\w+)\s*", words
    )
    if declared is None or re.search(r"\bthreadgroup\b", plain):
        raise SourceError(f"kernel {kernel}: cannot give parameter {' '.join(text.split())!r}")
    kind = declared["type"].strip()
    element = _SIZES.get(kind, 4)
    for attribute, number in attributes:
        if attribute in POSITIONS:
            return Parameter(declared["name"], "position", kind, element, attribute)
        if attribute != "buffer":
            raise SourceError(f"kernel {kernel}: no parameter attribute [[{attribute}]] here")
        slot = int(number)
    if not declared["mark"]:
        raise SourceError(f"kernel {kernel}: parameter {declared['name']} names no memory")
    if declared["mark"] == "&":
        return Parameter(declared["name"], "scalar", kind, element, slot=slot)
    written = re.search(r"\bdevice\b", plain) and not re.search(r"\bconst\b", plain)
    return Parameter(declared["name"], "output" if written else "input", kind, element, slot=slot)


def _split(parameters: str) -> Iterator[str]:
    depth = 0
    start = 0
    for index, character in enumerate(parameters):
        if character in "<([":
            depth += 1
        elif character in ">)]":
            depth -= 1
        elif character == "," and depth == 0:
            yield parameters[start:index]
            start = index + 1
    if parameters[start:].strip():
        yield parameters[start:]
